// rounded.hpp - the question of kernels that multiply f32 tensors on the tensor cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cuda {

// One layer of f32 input whose products' factors are rounded or split: only under a math mode or freer ones.
inline bool takes_f32(const polyconv_request &request, int32_t math, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  if (request.layers[0]->input.type != POLYCONV_F32) return offer.reject("takes f32");
  if (request.policy->math < math)
    return offer.reject("rounds or splits the factors of its products: only under math %s or freer",
                        math == POLYCONV_MATH_TF32 ? "tf32" : "fp32_emulated");
  offer.math = math;
  return true;
}
// The same before all that a kernel asks else.
template <int32_t Math, bool (*Supports)(const polyconv_request &, int32_t, sdk::Offer &)>
bool supports_f32(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_f32(request, Math, offer) && Supports(request, config, offer);
}
inline bool takes_f32_weights(const polyconv_request &request, int32_t math, sdk::Offer &offer) {
  return takes_f32(request, math, offer) &&
         (request.layers[0]->weights.type == POLYCONV_F32 || offer.reject("takes f32 weights"));
}

} // namespace polyconv::cuda
