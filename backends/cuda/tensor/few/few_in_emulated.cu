// few_in_emulated.cu - forward 2D for few input channels, f32 under math fp32_emulated: few_in with every factor as the
// sum of three bf16, six products of them, and sums in f32. Where a sum is not finite it is computed again in f32.
//
// Floor: compulsory bytes / copy rate, or 6 x 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "few/few_in.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_f32(request, POLYCONV_MATH_FP32_EMULATED, offer) &&
         few_in::supports(request, few_in::Products::kEmulated, config, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return few_in::create(request, few_in::Products::kEmulated, config);
}

} // namespace

POLYCONV_DEFINE_KERNEL(few_in_emulated, few_in::kConfigNames, supports, create);

} // namespace polyconv::cuda
