// few.hpp - what the kernels of few channels (banded, few_in, few_out) ask alike on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cinttypes>

#include "common/instance.hpp"

namespace polyconv::cuda::few {

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int32_t narrow(int64_t v) {
  return static_cast<int32_t>(v);
}
inline double real(int64_t v) {
  return static_cast<double>(v);
}
inline int element_bytes(const polyconv_tensor &t) {
  return t.type == POLYCONV_F32 ? 4 : 2;
}

inline bool convolves_once(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  return true;
}

// Whether such a layer is what they all take; else rejects it in words.
inline bool takes(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (!is_2d(l)) return offer.reject("takes images of one or two dimensions");
  if (l.groups != 1) return offer.reject("takes one group, not %" PRId64, l.groups);
  if (l.pad_mode != POLYCONV_PAD_ZERO && (l.pad_mode != POLYCONV_PAD_CONSTANT || l.pad_value != 0))
    return offer.reject("pads with zeros only");
  if (!bias_and_relu_at_most(l)) return offer.reject("finishes with a bias and a relu at most");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  return true;
}

// One layer of f32 tensors whose products are rounded or split: only under a math mode or freer ones.
inline bool takes_f32(const polyconv_request &request, int32_t math, sdk::Offer &offer) {
  if (!convolves_once(request, offer)) return false;
  if (request.layers[0]->input.type != POLYCONV_F32) return offer.reject("takes f32");
  if (request.policy->math < math)
    return offer.reject("rounds or splits the factors of its products: only under math %s or freer",
                        math == POLYCONV_MATH_TF32 ? "tf32" : "fp32_emulated");
  offer.math = math;
  return true;
}
// One layer of f16 or bf16.
inline bool takes_16_bits(const polyconv_request &request, sdk::Offer &offer) {
  if (!convolves_once(request, offer)) return false;
  const int32_t type = request.layers[0]->input.type;
  return type == POLYCONV_F16 || type == POLYCONV_BF16 || offer.reject("takes f16 and bf16");
}

// The cheapest of a kernel's choices, of which the one for config i is choose(i), or that of the config that somebody
// wants; one without a variant where none serves.
template <class Choose>
auto cheapest(const Choose &choose, int32_t configs, int32_t wanted, sdk::Offer &offer) {
  decltype(choose(0)) best;
  for (int32_t i = 0; i < configs; ++i) {
    if (wanted >= 0 && i != wanted) continue;
    const auto other = choose(i);
    if (other.variant == nullptr || (best.variant != nullptr && best.us <= other.us)) continue;
    best = other;
    offer.config = i;
    offer.estimate_us = best.us;
  }
  return best;
}

} // namespace polyconv::cuda::few
