// few_out_tf32.cu - forward 2D for few filters, f32 under math tf32: few_out with elements rounded to TF32 in
// registers.
//
// Floor: compulsory bytes / copy rate.
// SPDX-License-Identifier: Apache-2.0
#include "few/few_out.hpp"
#include "rounded.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return takes_f32(request, POLYCONV_MATH_TF32, offer) && few_out::supports(request, config, offer);
}

} // namespace

extern const sdk::Kernel kernel_few_out_tf32;
const sdk::Kernel kernel_few_out_tf32 = {"few_out_tf32",        0,        few_out::kConfigNames,
                                         few_out::kConfigCount, supports, few_out::create};

} // namespace polyconv::cuda
