// banded_tf32.cu - forward 2D for few input channels, f32 under math tf32, compute capability 9.0: the tracks of
// banded.cu with elements rounded to TF32 on their way into shared memory.
//
// Floor: max(compulsory bytes / copy rate, products / half the rate of f16).
// SPDX-License-Identifier: Apache-2.0
#include "banded.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  if (request.layers[0]->input.type != POLYCONV_F32) return offer.reject("takes f32");
  if (request.policy->math < POLYCONV_MATH_TF32)
    return offer.reject("rounds the factors of its products: only under math tf32 or freer");
  offer.math = POLYCONV_MATH_TF32;
  return banded::supports(request, config, offer);
}

} // namespace

extern const sdk::Kernel kernel_banded_tf32;
const sdk::Kernel kernel_banded_tf32 = {
    "banded_tf32", POLYCONV_KERNEL_VARIANT, banded::kConfigNames, banded::kConfigCount, supports, banded::create};

} // namespace polyconv::cuda
