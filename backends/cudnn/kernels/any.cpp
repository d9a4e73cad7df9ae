// any.cpp - every engine of cuDNN that has the accuracy of its type: those of `direct`, FFT and Winograd. Never TF32,
// and no sums below f32. Floor: that of the problem, with the fewer operations that a transform leaves of it.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

namespace polyconv::cuda {
namespace {

// Engine 47 of cuDNN 9.19, which the search may take there, writes 0 where the sum is infinite. First layers of fewer
// channels keep it: it is cuDNN's best for them, and no case has shown it wrong there.
bool loses_infinity(const polyconv_layer &l) {
  const bool is_half = l.input.type == POLYCONV_F16 || l.input.type == POLYCONV_BF16;
  return l.direction == POLYCONV_FORWARD && is_half && l.input.size[1] == 8 && l.input.stride[1] == 1;
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op == POLYCONV_OP_CONVOLVE && request.count == 1 && loses_infinity(*request.layers[0]))
    return offer.reject("takes f16 and bf16 of other than 8 channels, channels last: of 8 it may lose infinities");
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
