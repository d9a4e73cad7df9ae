// col2im.cpp - see col2im.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/col2im.hpp"

#include <polyconv/sdk/adjoint_kernel.hpp>

#include <algorithm>
#include <cinttypes>
#include <string>

#include "common/accepts.hpp"
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/rewrite/columns.hpp"
#include "common/rewrite/fold.hpp"

namespace polyconv::cuda {
namespace {

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
  if (!(real(sdk::spatial(l.output)) * real(columns_of(l)) < real(1 << 28)))
    return offer.reject("takes less than 2^28 elements of columns an image");
  return true;
}

// The product's, where it packs.
void set_format(const Columns &c, sdk::Offer *offer) {
  if (std::string(offer->weights_format[0]) == POLYCONV_FORMAT_RAW) return;
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "columns_%s_%.*s", c.order == PatchOrder::kChannelsLast ? "rsc" : "crs",
                POLYCONV_FORMAT_SIZE - 16, offer->weights_format[0]);
  offer->set_weights(0, format, offer->weights_bytes[0]);
}

bool ask(const sdk::Kernel &product, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  const Columns c = columns_layer(l, request.policy->workspace_limit);
  const int64_t bytes = columns_bytes(c);
  if (bytes > request.policy->workspace_limit)
    return offer.reject("needs a workspace of %" PRId64 " bytes for columns", bytes);
  const InnerRequest inner(request, c.layer, bytes);
  offer.config = config < 0 ? 0 : config;
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  if (!product.supports(inner.get(), config, offer)) return false;
  // A fifth more: of two kernels that are as fast, the one without columns in a workspace.
  offer.estimate_us += 1.2 * fold_us(c.part, c.layer.output);
  offer.estimate_us *= real(ceil_div(l.output.size[0], c.images));
  if (!add_workspace(request, bytes, "columns", offer)) return false;
  set_format(c, &offer);
  offer.say("%s to %" PRId64 " columns an output, then folded", product.name, columns_of(l));
  return true;
}

// ---------------------------------------------------------------- plan and run

class Col2im final : public CudaInstance {
 public:
  Col2im(const sdk::Kernel &product, const polyconv_request &request, int32_t config)
      : CudaInstance(request), columns_(columns_layer(*request.layers[0], request.policy->workspace_limit)) {
    const InnerRequest inner(request, columns_.layer, columns_bytes(columns_));
    product_ = product.create(inner.get(), config);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { product_->pack(0, raw, packed, stream); }

  // The last part begins so that it is whole: images of both are computed twice, to the same bits.
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    for (int64_t first = 0; first < layer_.output.size[0]; first += columns_.images)
      launch_part(from_image(std::min(first, layer_.output.size[0] - columns_.images), a), stream);
  }

  void launch_part(const polyconv_arguments &a, cudaStream_t stream) const {
    polyconv_arguments b = a;
    b.input = a.output, b.output = a.workspace;
    b.workspace = static_cast<char *>(a.workspace) + columns_bytes(columns_);
    product_->run(b, stream);
    fold_columns(columns_.part, columns_.layer.output, order_of(columns_), a.workspace, a, stream);
  }

  polyconv_arguments from_image(int64_t image, polyconv_arguments a) const {
    const auto from = [&](const void *pointer, const polyconv_tensor &t) {
      return sdk::moved(pointer, image * t.stride[0], t.type);
    };
    a.input = from(a.input, layer_.result), a.output = from(a.output, layer_.output);
    a.residual[0] = from(a.residual[0], layer_.residual), a.saved[0] = from(a.saved[0], layer_.saved);
    return a;
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
