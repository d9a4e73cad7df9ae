// few_in_tf32.cu - forward 2D for few input channels, f32 under math tf32: few_in with elements rounded to TF32 on
// their way into shared memory.
//
// Floor: compulsory bytes / copy rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "few/few_in.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_f32(request, POLYCONV_MATH_TF32, offer) &&
         few_in::supports(request, few_in::Products::kTf32, config, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return few_in::create(request, few_in::Products::kTf32, config);
}

} // namespace

POLYCONV_DEFINE_KERNEL(few_in_tf32, few_in::kConfigNames, supports, create);

} // namespace polyconv::cuda
