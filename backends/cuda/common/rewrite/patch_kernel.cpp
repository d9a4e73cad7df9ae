// patch_kernel.cpp - see patch_kernel.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/patch_kernel.hpp"

#include <cinttypes>
#include <string>

#include "common/instance.hpp"
#include "common/rewrite/patch_copy.hpp"
#include "common/rewrite/zeros.hpp"
#include "common/sums/bias_gradient.hpp"

namespace polyconv::cuda {
namespace {

// ---------------------------------------------------------------- what lies where

bool is_gradient_of_data(const polyconv_layer &l) {
  return l.direction == POLYCONV_BACKWARD_DATA;
}

bool is_gradient_of_weights(const polyconv_layer &l) {
  return l.direction == POLYCONV_BACKWARD_WEIGHTS;
}

const polyconv_tensor &tensor_of(const polyconv_layer &l) {
  return is_gradient_of_data(l) ? l.result : l.input;
}

// Bytes of the workspace, in this order, before what the product needs; and of packed weights, behind the product's.
struct PatchBytes {
  int64_t windows, gradient, bias, scale, bias_gradient, filters;

  int64_t workspace() const { return windows + gradient + bias + scale + bias_gradient; }
};

PatchBytes bytes_of(const polyconv_layer &l, const Patch &p) {
  const auto matrix = [&](int64_t rows, int32_t type) { return aligned_bytes(rows * p.row * sdk::type_bytes(type)); };
  const polyconv_epilogue &e = l.epilogue;
  PatchBytes b = {};
  if (!p.in_place) b.windows = matrix(l.output.size[0] * sdk::spatial(l.output), tensor_of(l).type);
  if (is_gradient_of_weights(l)) {
    if (!p.weights_in_place) b.gradient = matrix(l.weights.size[0], l.result.type);
    b.bias_gradient = aligned_bytes(bias_gradient_bytes(l)); // the product's workspace is behind it
    return b;
  }
  if (!p.weights_in_place) b.filters = matrix(l.weights.size[0], l.weights.type);
  if (!is_gradient_of_data(l)) return b;
  const int64_t results = p.layer.result.size[1];
  if (e.has_bias) b.bias = aligned_bytes(results * sdk::type_bytes(l.bias_type));
  if (e.has_scale) b.scale = aligned_bytes(results * sdk::type_bytes(l.sum_type));
  return b;
}

// Of weights, or of their gradient, whose type is another.
PatchMatrix filters_of(const polyconv_layer &l, const Patch &p) {
  PatchMatrix m = filters_of(l.weights, p.order);
  if (is_gradient_of_weights(l)) m.type = l.result.type;
  return m;
}

PatchMatrix windows_of(const polyconv_layer &l, const Patch &p) {
  return windows_of(l, tensor_of(l), p.order);
}

// ---------------------------------------------------------------- supports

bool takes_data(const polyconv_layer &l, sdk::Offer &offer) {
  const polyconv_epilogue &e = l.epilogue;
  if (e.residual_from != POLYCONV_RESIDUAL_NONE || l.save != POLYCONV_SAVE_NONE || e.activation == POLYCONV_ACT_PRELU)
    return offer.reject("finishes windows with a scale, a bias and an activation without slopes at most");
  if (has_leftovers(l) && !can_be_zeroed(l))
    return offer.reject("writes nothing but zeros beside the windows, and those in one piece");
  return true;
}

bool takes(const polyconv_request &request, int32_t direction, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, direction, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!sdk::is_float(l.input.type) || !sdk::is_float(l.output.type)) return offer.reject("takes floats alone");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("computes windows as pixels in a row: does not pool");
  }
  if (!has_patches(l, offer) || (is_gradient_of_data(l) && !takes_data(l, offer))) return false;
  const int64_t row = copied_patch(l).row;
  if (!fits_patch_copy(windows_of(l, tensor_of(l), PatchOrder::kChannelsLast), row) ||
      !fits_patch_copy(filters_of(l.weights, PatchOrder::kChannelsLast), row))
    return offer.reject("takes less than 2^34 bytes of windows and of weights, and images of less than 2^30 elements");
  return true;
}

// Whether a product takes the layer in one of its configs, whatever workspace that needs.
bool takes_layer(const sdk::Kernel &product, const polyconv_request &request, const polyconv_layer &layer) {
  sdk::Offer offer = {};
  offer.struct_size = sizeof(polyconv_offer);
  polyconv_policy policy = *request.policy;
  policy.workspace_limit = INT64_MAX;
  const polyconv_layer *const pointer = &layer;
  polyconv_request one = request;
  one.layers = &pointer, one.policy = &policy;
  return product.supports(one, -1, offer);
}

// In place where a product reads or writes windows so, whatever its config.
Patch patch_of_layer(const sdk::Kernel &product, const polyconv_request &request) {
  const polyconv_layer &l = *request.layers[0];
  Patch p;
  if (seen_patch(l, &p) && takes_layer(product, request, p.layer)) return p;
  if (patch_of_rows(l, &p) && takes_layer(product, request, p.layer)) return p;
  return copied_patch(l);
}

// What everything beside the product takes.
double copies_us(const polyconv_layer &l, const Patch &p, const PatchBytes &bytes) {
  constexpr double kLaunch = 2;
  double us = is_gradient_of_weights(l) ? bias_gradient_us(l) : 0;
  if (!p.in_place) us += patch_copy_us(windows_of(l, p), p.row);
  if (bytes.gradient > 0) us += patch_copy_us(filters_of(l, p), p.row);
  us += (bytes.bias > 0 ? kLaunch : 0) + (bytes.scale > 0 ? kLaunch : 0);
  if (is_gradient_of_data(l) && has_leftovers(l))
    us += kLaunch + real(sdk::elements(l.result) * sdk::type_bytes(l.result.type)) / 3.5e6;
  return us;
}

// The product's format, and what rows of weights are: their order, and whether taps are left.
void set_format(const polyconv_layer &l, const Patch &p, const PatchBytes &bytes, sdk::Offer *offer) {
  const bool raw = std::string(offer->weights_format[0]) == POLYCONV_FORMAT_RAW;
  const int64_t packed = raw ? 0 : aligned_bytes(offer->weights_bytes[0]);
  if (packed + bytes.filters == 0) return;
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "patch_%s%" PRId64 "%s_%.*s",
                p.order == PatchOrder::kChannelsLast ? "rsc" : "crs", p.in_place ? p.layer.weights.size[2] : 0,
                is_gradient_of_data(l) ? "d" : "", POLYCONV_FORMAT_SIZE - 24,
                raw ? "dense:1" : offer->weights_format[0]);
  offer->set_weights(0, format, packed + bytes.filters);
}

bool ask(const sdk::Kernel &product, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  const Patch p = patch_of_layer(product, request);
  const PatchBytes bytes = bytes_of(l, p);
  if (bytes.workspace() > request.policy->workspace_limit)
    return offer.reject("needs a workspace of %" PRId64 " bytes for copies of windows", bytes.workspace());
  const InnerRequest inner(request, p.layer, bytes.workspace());
  offer.config = config < 0 ? 0 : config;
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  if (!product.supports(inner.get(), config, offer)) {
    // One that computes no forward product reads windows as they lie alone, which they may where channels are last.
    if (!p.in_place && offer.wants_layout == 0) offer.wants_layout = 1 + POLYCONV_CHANNELS_LAST;
    return false;
  }
  // The matrix of windows is channels last, which products of f32 for weights read element by element.
  if (is_gradient_of_weights(l) && !p.in_place && l.input.type == POLYCONV_F32) offer.estimate_us *= 1.8;
  offer.estimate_us += copies_us(l, p, bytes);
  if (!add_workspace(request, bytes.workspace(), "windows", offer)) return false;
  set_format(l, p, bytes, &offer);
  offer.say("%s of windows of %" PRId64 " elements, %s", product.name, windows_of(l, p).columns(),
            p.in_place ? "as they lie" : "copied");
  return true;
}

// ---------------------------------------------------------------- plan and run

class PatchInstance final : public CudaInstance {
 public:
  PatchInstance(const sdk::Kernel &product, const polyconv_request &request, int32_t config)
      : CudaInstance(request),
        patch_(patch_of_layer(product, request)),
        bytes_(bytes_of(layer_, patch_)),
        zeroes_(is_gradient_of_data(layer_) && has_leftovers(layer_)) {
    const InnerRequest inner(request, patch_.layer, bytes_.workspace());
    sdk::Offer offer = {};
    offer.struct_size = sizeof(polyconv_offer);
    offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
    if (!product.supports(inner.get(), config, offer)) throw sdk::Error(POLYCONV_INTERNAL, offer.reason);
    packs_ = std::string(offer.weights_format[0]) != POLYCONV_FORMAT_RAW;
    packed_bytes_ = packs_ ? aligned_bytes(offer.weights_bytes[0]) : 0;
    product_ = product.create(inner.get(), config);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    char *const filters = static_cast<char *>(packed) + packed_bytes_;
    if (bytes_.filters > 0) gather_patches(filters_of(layer_, patch_), patch_.row, raw, filters, stream);
    if (packs_) product_->pack(0, bytes_.filters > 0 ? filters : raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    polyconv_arguments b = a;
    auto *next = static_cast<char *>(a.workspace);
    const auto take = [&](int64_t bytes) { return next += bytes, next - bytes; };
    char *const windows = take(bytes_.windows), *const gradient = take(bytes_.gradient);
    char *const bias = take(bytes_.bias), *const scale = take(bytes_.scale);
    char *const of_bias_gradient = take(bytes_.bias_gradient);
    b.workspace = next;
    if (is_gradient_of_data(layer_)) return launch_data(a, windows, bias, scale, b, stream);
    if (!patch_.in_place) {
      gather_patches(windows_of(layer_, patch_), patch_.row, a.input, windows, stream);
      b.input = windows;
    }
    if (!is_gradient_of_weights(layer_)) return product_->run(b, stream);
    if (bytes_.gradient > 0) b.weights[0] = gradient;
    product_->run(b, stream);
    if (bytes_.gradient > 0) scatter_patches(filters_of(layer_, patch_), patch_.row, gradient, a.weights[0], stream);
    bias_gradient(layer_, a, of_bias_gradient, stream);
  }

  void launch_data(const polyconv_arguments &a, char *windows, char *bias, char *scale, polyconv_arguments b,
                   cudaStream_t stream) const {
    const PatchMatrix matrix = windows_of(layer_, patch_);
    const int64_t results = patch_.layer.result.size[1];
    if (zeroes_) { // and then overwritten where there are windows
      write_zeros(layer_, a.input, stream);
    }
    if (bytes_.bias > 0) {
      spread_channels(matrix, patch_.order, results, a.bias[0], bias, sdk::type_bytes(layer_.bias_type), stream);
      b.bias[0] = bias;
    }
    if (bytes_.scale > 0) {
      spread_channels(matrix, patch_.order, results, a.scale[0], scale, sdk::type_bytes(layer_.sum_type), stream);
      b.scale[0] = scale;
    }
    if (patch_.layer.direction == POLYCONV_FORWARD) b.input = a.output, b.output = patch_.in_place ? a.input : windows;
    product_->run(b, stream);
    if (!patch_.in_place) scatter_patches(matrix, patch_.row, windows, a.input, stream);
  }

  const Patch patch_;
  const PatchBytes bytes_;
  const bool zeroes_;
  bool packs_ = false;
  int64_t packed_bytes_ = 0;
  std::unique_ptr<sdk::Instance> product_;
};

std::unique_ptr<sdk::Instance> create(const sdk::Kernel &product, const polyconv_request &request, int32_t config) {
  return std::make_unique<PatchInstance>(product, request, config);
}

} // namespace

const Rewrite kPatches = {takes, ask, create};

} // namespace polyconv::cuda
