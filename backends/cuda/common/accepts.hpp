// accepts.hpp - what kernels ask of a layer before they take it: each question once, with the sentence that says no. A
// kernel's own questions stay with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <initializer_list>

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/layer.hpp"

namespace polyconv::cuda {

// ---------------------------------------------------------------- questions with an answer
// True, or false with the reason in `offer`.

inline bool takes_2d(const polyconv_layer &l, sdk::Offer &offer) {
  return is_2d(l) || offer.reject("takes images of one or two dimensions");
}

inline bool takes_one_group(const polyconv_layer &l, sdk::Offer &offer) {
  return l.groups == 1 || offer.reject("takes one group, not %lld", static_cast<long long>(l.groups));
}

// `zeros`: has_zero_padding or pads_zeros, as the kernel reads.
inline bool takes_zeros(bool zeros, sdk::Offer &offer) {
  return zeros || offer.reject("pads with zeros only");
}

// The plan may pool in a step of its own.
inline bool takes_no_pooling(const polyconv_layer &l, sdk::Offer &offer, const char *why = "does not pool") {
  if (!sdk::has_pooling(l)) return true;
  offer.rejects_pooling = 1;
  return offer.reject("%s", why);
}
inline constexpr char kPoolsNoTiles[] = "computes tiles of pixels in a row, not of patches: does not pool";

// The plan may convert.
inline bool takes_channels_last(bool last, sdk::Offer &offer, const char *why = "takes channels last") {
  if (last) return true;
  offer.wants_layout = 1 + POLYCONV_CHANNELS_LAST;
  return offer.reject("%s", why);
}
inline bool takes_channels_first(bool first, sdk::Offer &offer, const char *why) {
  if (first) return true;
  offer.wants_layout = 1 + POLYCONV_CHANNELS_FIRST;
  return offer.reject("%s", why);
}

inline bool takes_no_empty(std::initializer_list<const polyconv_tensor *> tensors, sdk::Offer &offer) {
  for (const polyconv_tensor *t : tensors)
    if (sdk::elements(*t) == 0) return offer.reject("takes no empty tensor");
  return true;
}

// Products of f32, f16 or bf16, summed in f32. `read`: of the tensor that meets the weights.
inline bool takes_floats(const polyconv_layer &l, int32_t read, sdk::Offer &offer) {
  return (read == l.weights.type && is_single_or_half(read) && l.sum_type == POLYCONV_F32) ||
         offer.reject("takes f32, f16 and bf16, summed in f32");
}

// Likewise, and images of u8 and u16 with weights of f32.
inline bool sums_images(const polyconv_layer &l) {
  const int32_t x = l.input.type, w = l.weights.type;
  const bool image = x == POLYCONV_U8 || x == POLYCONV_U16;
  return l.sum_type == POLYCONV_F32 && ((x == w && is_single_or_half(x)) || (image && w == POLYCONV_F32));
}
inline bool takes_images(bool sums, sdk::Offer &offer) {
  return sums || offer.reject("sums in f32: f32, f16, bf16 and images of u8 and u16");
}

inline bool takes_one_filter(const polyconv_layer &l, sdk::Offer &offer) {
  const auto number = [](int64_t v) { return static_cast<long long>(v); };
  return (l.weights.size[1] == 1 && l.input.size[1] == l.output.size[1]) ||
         offer.reject("takes one filter a channel, not %lld filters of %lld channels for %lld",
                      number(l.output.size[1]), number(l.weights.size[1]), number(l.input.size[1]));
}

// Offsets within every tensor.
inline bool takes_int32(const polyconv_layer &l, sdk::Offer &offer) {
  return fits_int32(l) || offer.reject("addresses with 32 bits, and a tensor has 2^31 elements or more");
}

inline bool takes_stride_2(const polyconv_layer &l, sdk::Offer &offer) {
  return (l.stride[1] == l.stride[2] && l.stride[1] <= 2 && l.dilation[1] == 1 && l.dilation[2] == 1) ||
         offer.reject("takes strides of 1 and 2 and no dilation");
}

// Square filters of 3, 5 and 7 taps, and where `even` of 4.
inline bool takes_odd_squares(const polyconv_layer &l, bool even, sdk::Offer &offer) {
  const int64_t n = l.weights.size[3];
  return (n == l.weights.size[4] && (n == 3 || n == 5 || n == 7 || (even && n == 4))) ||
         offer.reject("takes filters of 3x3, %s5x5 and 7x7, not %lldx%lld", even ? "4x4, " : "",
                      static_cast<long long>(n), static_cast<long long>(l.weights.size[4]));
}

// What an offer asks for of the workspace.
inline bool takes_workspace(const polyconv_request &request, sdk::Offer &offer, const char *what = "partial sums") {
  return offer.workspace_bytes <= request.policy->workspace_limit ||
         offer.reject("needs a workspace of %lld bytes for %s", static_cast<long long>(offer.workspace_bytes), what);
}
// Likewise of one config; nobody hears why not where `chosen` is NULL.
inline bool takes_workspace(int64_t bytes, int64_t limit, sdk::Offer *chosen) {
  return bytes <= limit || (chosen != nullptr && chosen->reject("needs a workspace of %lld bytes for partial sums",
                                                                static_cast<long long>(bytes)));
}

} // namespace polyconv::cuda
