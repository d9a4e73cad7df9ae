// col2im.cu - see col2im.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/col2im.hpp"

#include <cinttypes>
#include <string>

#include "common/accepts.hpp"
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/rewrite/fold.hpp"
#include "common/rewrite/patch.hpp"

namespace polyconv::cuda {
namespace {

// The layer of one tap, FORWARD from dy to the columns, which lie densely and in the order of the result: as one
// channel each.
struct Columns {
  PatchOrder order; // of taps and channels, that in which the weights hold them
  polyconv_layer layer;
};

// Whether a filter's elements lie one after the other in that order.
bool lies_in(const polyconv_tensor &weights, PatchOrder order) {
  const PatchRun run = run_of(filters_of(weights, order));
  return run.stride == 1 && run.columns == weights.size[1] * weights.size[2] * weights.size[3] * weights.size[4];
}

int64_t columns_of(const polyconv_layer &l) {
  return l.weights.size[1] * sdk::taps(l);
}

polyconv_tensor columns_tensor(const polyconv_layer &l) {
  polyconv_tensor t = l.output;
  t.type = l.sum_type;
  t.offset = 0;
  t.size[1] = columns_of(l);
  constexpr int kLast[] = {1, 4, 3, 2, 0}, kFirst[] = {4, 3, 2, 1, 0};
  int64_t stride = 1;
  for (const int axis : has_neighbouring_channels(l.result) ? kLast : kFirst)
    t.stride[axis] = stride, stride *= t.size[axis];
  return t;
}

Columns columns_layer(const polyconv_layer &l) {
  Columns c = {lies_in(l.weights, PatchOrder::kChannelsFirst) ? PatchOrder::kChannelsFirst : PatchOrder::kChannelsLast,
               l};
  polyconv_layer &f = c.layer;
  f.direction = POLYCONV_FORWARD;
  f.input = l.output;
  f.output = f.result = f.residual = f.saved = columns_tensor(l);
  f.weights.size[0] = columns_of(l), f.weights.stride[0] = 1;
  f.weights.size[1] = l.weights.size[0], f.weights.stride[1] = l.weights.stride[0];
  for (int axis = 0; axis < 3; ++axis) {
    f.weights.size[2 + axis] = f.weights.stride[2 + axis] = 1;
    f.stride[axis] = f.dilation[axis] = 1;
    f.pad_begin[axis] = f.pad_end[axis] = 0;
  }
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  f.epilogue = {};
  f.save = POLYCONV_SAVE_NONE;
  f.bias_over_input = 0;
  return c;
}

int64_t columns_bytes(const Columns &c) {
  return aligned_bytes(sdk::elements(c.layer.output) * sdk::type_bytes(c.layer.output.type));
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, int32_t direction, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, direction, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!sdk::is_float(l.input.type) || !sdk::is_float(l.output.type)) return offer.reject("takes floats alone");
  if (!takes_one_group(l, offer) || !takes_no_pooling(l, offer)) return false;
  if (!takes_no_empty({&l.input, &l.output}, offer)) return false;
  if (sdk::taps(l) == 1) return offer.reject("takes windows of several elements: those of one are columns as they are");
  if (!takes_zeros(has_zero_padding(l), offer)) return false;
  if (!lies_in(l.weights, PatchOrder::kChannelsFirst) && !lies_in(l.weights, PatchOrder::kChannelsLast))
    return offer.reject("takes filters whose elements lie side by side, channels first or last");
  if (!takes_int32(l, offer)) return false;
  if (!(real(sdk::elements(l.output)) / real(l.output.size[1]) * real(columns_of(l)) < real(1 << 30)))
    return offer.reject("takes less than 2^30 elements of columns");
  return true;
}

// The product's, where it packs.
void set_format(const Columns &c, sdk::Offer *offer) {
  if (std::string(offer->weights_format[0]) == POLYCONV_FORMAT_RAW) return;
  const std::string product = offer->weights_format[0];
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "columns_%s_%.*s", c.order == PatchOrder::kChannelsLast ? "rsc" : "crs",
                POLYCONV_FORMAT_SIZE - 16, product.c_str());
  offer->set_weights(0, format, offer->weights_bytes[0]);
}

bool ask(const sdk::Kernel &product, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  const Columns c = columns_layer(l);
  const int64_t bytes = columns_bytes(c);
  if (bytes > request.policy->workspace_limit)
    return offer.reject("needs a workspace of %" PRId64 " bytes for columns", bytes);
  const InnerRequest inner(request, c.layer, bytes);
  offer.config = config < 0 ? 0 : config;
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  if (!product.supports(inner.get(), config, offer)) return false;
  // A fifth more: of two kernels that are as fast, the one without columns in a workspace.
  offer.estimate_us += 1.2 * fold_us(l, c.layer.output);
  if (!add_workspace(request, bytes, "columns", offer)) return false;
  set_format(c, &offer);
  offer.say("%s to %" PRId64 " columns an output, then folded", product.name, columns_of(l));
  return true;
}

// ---------------------------------------------------------------- plan and run

class Col2im final : public CudaInstance {
 public:
  Col2im(const sdk::Kernel &product, const polyconv_request &request, int32_t config)
      : CudaInstance(request), columns_(columns_layer(layer_)) {
    const InnerRequest inner(request, columns_.layer, columns_bytes(columns_));
    product_ = product.create(inner.get(), config);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { product_->pack(0, raw, packed, stream); }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    polyconv_arguments b = a;
    b.input = a.output, b.output = a.workspace;
    b.workspace = static_cast<char *>(a.workspace) + columns_bytes(columns_);
    product_->run(b, stream);
    const auto channels = small(layer_.weights.size[1]), taps = small(sdk::taps(layer_));
    const ColumnOrder order =
        columns_.order == PatchOrder::kChannelsLast ? ColumnOrder{channels, 1} : ColumnOrder{1, taps};
    fold_columns(layer_, columns_.layer.output, order, a.workspace, a, stream);
  }

  const Columns columns_;
  std::unique_ptr<sdk::Instance> product_;
};

std::unique_ptr<sdk::Instance> create(const sdk::Kernel &product, const polyconv_request &request, int32_t config) {
  return std::make_unique<Col2im>(product, request, config);
}

} // namespace

const Rewrite kColumns = {takes, ask, create};

} // namespace polyconv::cuda
