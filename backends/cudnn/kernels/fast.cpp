// fast.cpp - every engine of cuDNN that math `fast` admits: those of `any`, and tensor cores for f32, whose products
// they round to TF32. Sums are f32 still. Floor: that of the problem at the tensor cores' rate.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  const bool rounds = request.layers[0]->input.type == POLYCONV_F32;
  return cudnn::supports(request, rounds ? POLYCONV_MATH_TF32 : POLYCONV_MATH_FAST, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  cudnn::Rules rules = {};
  rules.transforms = true;
  rules.tensor_cores = request.layers[0]->input.type != POLYCONV_F64;
  rules.nondeterministic = request.policy->determinism == POLYCONV_DETERMINISM_NONE;
  return cudnn::make_instance(request, rules, "fast");
}

} // namespace

extern const sdk::Kernel kernel_fast;
const sdk::Kernel kernel_fast = {
    "fast",          POLYCONV_KERNEL_TRANSFORM | POLYCONV_KERNEL_NEEDS_BIND | POLYCONV_KERNEL_VARIANT,
    cudnn::kConfigs, 1,
    supports,        create};

} // namespace polyconv::cuda
