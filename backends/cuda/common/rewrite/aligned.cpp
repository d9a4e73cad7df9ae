// aligned.cpp - see aligned.hpp. The layer stays what it is but for where its tensors lie. A copied result has as many
// channels as a row has elements, so that products may store whole vectors of them; the layer's own number of output
// channels does not change, and a bias is copied with zeros behind it, for kernels that read it in pairs.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/aligned.hpp"

#include "common/accepts.hpp"
#include "common/instance.hpp"
#include "common/pieces.hpp"
#include "common/rewrite/patch_copy.hpp"
#include "common/rewrite/rows_copy.hpp"

namespace polyconv::cuda {
namespace {

// ---------------------------------------------------------------- what is copied

// A tensor as pixels by channels.
PatchMatrix pixels_of(const polyconv_tensor &t) {
  return {t.type,
          t.offset,
          {t.size[0], t.size[2], t.size[3], t.size[4]},
          {t.stride[0], t.stride[2], t.stride[3], t.stride[4]},
          {t.size[1], 1, 1, 1},
          {t.stride[1], 0, 0, 0}};
}

// Elements of a copied pixel: in whole sectors of memory, since windows whose pixels begin within one take longer.
int64_t row_of_pixel(int32_t type, int64_t channels) {
  const int64_t sector = 32 / sdk::type_bytes(type);
  return ceil_div(channels, sector) * sector;
}

// A tensor's copy in the workspace, where it has one; `dense`: rows_copy.hpp makes it, if pointers are aligned.
struct Copied {
  bool copies, dense;
  int64_t row, bytes;
};

Copied copied(const polyconv_tensor &t, bool copies) {
  if (!copies) return {};
  const int64_t row = row_of_pixel(t.type, t.size[1]);
  return {true, fits_rows_copy(t), row, aligned_bytes(t.size[0] * sdk::spatial(t) * row * sdk::type_bytes(t.type))};
}

// Whether pixels that are read must be copied; `taps`: of a window.
bool is_read_apart(const polyconv_tensor &t, int64_t taps) {
  return !in_pieces(t, (taps > 1 ? 32 : 16) / sdk::type_bytes(t.type), 0);
}

// What a run copies, in the order of the workspace.
struct Aligned {
  Copied input, gradient, result; // x, dy; what is written, but for gradients of weights
  int64_t bias;                   // bytes, or 0
  polyconv_layer layer;           // the products' layer

  int64_t workspace() const { return input.bytes + gradient.bytes + result.bytes + bias; }
};

void lie_in_rows(const Copied &c, polyconv_tensor *t) {
  if (!c.copies) return;
  t->offset = 0, t->stride[1] = 1;
  int64_t stride = c.row;
  for (const int axis : {4, 3, 2, 0}) t->stride[axis] = stride, stride *= t->size[axis];
}

Aligned aligned_layer(const polyconv_layer &l) {
  Aligned a = {{}, {}, {}, 0, l};
  polyconv_layer &f = a.layer;
  if (l.direction != POLYCONV_BACKWARD_DATA) {
    a.input = copied(l.input, is_read_apart(l.input, sdk::taps(l)));
    lie_in_rows(a.input, &f.input);
  }
  if (l.direction != POLYCONV_FORWARD) {
    const int64_t taps = l.direction == POLYCONV_BACKWARD_DATA ? sdk::taps(l) : 1;
    a.gradient = copied(l.output, is_read_apart(l.output, taps));
    lie_in_rows(a.gradient, &f.output);
  }
  if (l.direction == POLYCONV_BACKWARD_WEIGHTS) return a;
  const int64_t vector = 16 / sdk::type_bytes(l.result.type);
  const bool scatters = !in_pieces(l.result, vector, l.result.size[1]) && l.result.type == l.weights.type;
  a.result = copied(l.result, scatters);
  if (!scatters) return a;
  lie_in_rows(a.result, &f.result);
  f.result.size[1] = a.result.row;
  lie_in_rows(a.result, l.direction == POLYCONV_FORWARD ? &f.output : &f.input);
  if (l.epilogue.has_bias) a.bias = aligned_bytes(a.result.row * sdk::type_bytes(l.bias_type));
  return a;
}

PatchMatrix bias_row(const polyconv_layer &l) {
  return {l.bias_type, 0, {1, 1, 1, 1}, {}, {l.result.size[1], 1, 1, 1}, {1, 0, 0, 0}};
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, int32_t direction, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, direction, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!is_single_or_half(l.input.type) || l.output.type != l.input.type || l.weights.type != l.input.type)
    return offer.reject("takes f32, f16 and bf16, the same for input, weights and output");
  if (!takes_one_group(l, offer)) return false;
  if (!takes_no_pooling(l, offer)) return false;
  if (l.save != POLYCONV_SAVE_NONE) return offer.reject("saves nothing beside the result");
  if (!takes_no_empty({&l.input, &l.output}, offer)) return false;
  const Aligned a = aligned_layer(l);
  if (a.workspace() == 0) return offer.reject("copies pixels to whole 16 bytes: takes those that are not such already");
  for (const polyconv_tensor *t : {&l.input, &l.output, &l.result})
    if (!fits_patch_copy(pixels_of(*t), row_of_pixel(t->type, t->size[1])))
      return offer.reject("takes tensors of less than 2^34 bytes, and images of less than 2^30 elements");
  return true;
}

double copy_us(const polyconv_tensor &t, const Copied &c) {
  if (!c.copies) return 0;
  return c.dense ? rows_copy_us(t, c.row) : patch_copy_us(pixels_of(t), c.row);
}

double copies_us(const polyconv_layer &l, const Aligned &a) {
  return copy_us(l.input, a.input) + copy_us(l.output, a.gradient) + copy_us(l.result, a.result) + (a.bias > 0 ? 2 : 0);
}

bool asks(const sdk::Kernel &product, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  const Aligned a = aligned_layer(l);
  if (a.workspace() > request.policy->workspace_limit)
    return offer.reject("needs a workspace of %lld bytes for copies of pixels", static_cast<long long>(a.workspace()));
  const InnerRequest inner(request, a.layer, a.workspace());
  offer.config = config < 0 ? 0 : config;
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  if (!product.supports(inner.get(), config, offer)) return false;
  offer.estimate_us += copies_us(l, a);
  if (!add_workspace(request, a.workspace(), "pixels", offer)) return false;
  offer.say("%s of copied pixels:%s%s%s", product.name, a.input.copies ? " the input's" : "",
            a.gradient.copies ? " the output gradient's" : "", a.result.copies ? " the result's" : "");
  return true;
}

// ---------------------------------------------------------------- plan and run

void gather(const polyconv_tensor &t, const Copied &c, const void *from, void *rows, cudaStream_t stream) {
  if (c.dense && aligned(begin_of(t, from), 16)) return gather_rows(t, c.row, from, rows, stream);
  gather_patches(pixels_of(t), c.row, from, rows, stream);
}

void scatter(const polyconv_tensor &t, const Copied &c, const void *rows, void *to, cudaStream_t stream) {
  if (c.dense && aligned(begin_of(t, to), 16)) return scatter_rows(t, c.row, rows, to, stream);
  scatter_patches(pixels_of(t), c.row, rows, to, stream);
}

class AlignedInstance final : public CudaInstance {
 public:
  AlignedInstance(const sdk::Kernel &product, const polyconv_request &request, int32_t config)
      : CudaInstance(request),
        aligned_(aligned_layer(layer_)),
        product_(product.create(InnerRequest(request, aligned_.layer, aligned_.workspace()).get(), config)) {}

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override { product_->pack(0, raw, packed, stream); }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    polyconv_arguments b = a;
    auto *next = static_cast<char *>(a.workspace);
    const auto take = [&](int64_t bytes) { return next += bytes, next - bytes; };
    char *const input = take(aligned_.input.bytes), *const gradient = take(aligned_.gradient.bytes);
    char *const result = take(aligned_.result.bytes), *const bias = take(aligned_.bias);
    b.workspace = next;
    if (aligned_.input.copies) {
      gather(layer_.input, aligned_.input, a.input, input, stream);
      b.input = input;
    }
    if (aligned_.gradient.copies) {
      gather(layer_.output, aligned_.gradient, a.output, gradient, stream);
      b.output = gradient;
    }
    if (aligned_.bias > 0) {
      gather_patches(bias_row(layer_), aligned_.result.row, a.bias[0], bias, stream);
      b.bias[0] = bias;
    }
    const bool forward = layer_.direction == POLYCONV_FORWARD;
    if (aligned_.result.copies) (forward ? b.output : b.input) = result;
    product_->run(b, stream);
    if (aligned_.result.copies) scatter(layer_.result, aligned_.result, result, forward ? a.output : a.input, stream);
  }

  const Aligned aligned_;
  const std::unique_ptr<sdk::Instance> product_;
};

std::unique_ptr<sdk::Instance> create(const sdk::Kernel &product, const polyconv_request &request, int32_t config) {
  return std::make_unique<AlignedInstance>(product, request, config);
}

} // namespace

const Rewrite kAligned = {takes, asks, create};

} // namespace polyconv::cuda
