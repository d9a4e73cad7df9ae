// any.cpp - every engine of cuDNN that has the accuracy of its type: those of `direct`, FFT and Winograd. Never TF32,
// and no sums below f32. Floor: that of the problem, with the fewer operations that a transform leaves of it.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  return cudnn::supports(request, POLYCONV_MATH_FAST, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  const int32_t type = request.layers[0]->input.type;
  cudnn::Rules rules = {};
  rules.transforms = true;
  rules.tensor_cores = type == POLYCONV_F16 || type == POLYCONV_BF16;
  rules.nondeterministic = request.policy->determinism == POLYCONV_DETERMINISM_NONE;
  return cudnn::make_instance(request, rules, "any");
}

} // namespace

extern const sdk::Kernel kernel_any;
const sdk::Kernel kernel_any = {
    "any",           POLYCONV_KERNEL_TRANSFORM | POLYCONV_KERNEL_NEEDS_BIND | POLYCONV_KERNEL_VARIANT,
    cudnn::kConfigs, 1,
    supports,        create};

} // namespace polyconv::cuda
