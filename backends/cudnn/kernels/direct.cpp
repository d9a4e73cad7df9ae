// direct.cpp - cuDNN's engines that multiply and add as the strict mode does: no FFT, no Winograd, and for f32 no
// tensor cores. f16 and bf16 products are exact in f32 and sums stay f32, so their tensor core engines are as strict;
// but not for groups, which such engines join to fill their tiles, so that a NaN reaches outputs of other groups. Where
// the plan allows TF32, the tensor cores' engines serve f32 too.
// Floor: that of the problem; which engine comes how near is cuDNN's secret.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

namespace polyconv::cuda {
namespace {

bool is_half(int32_t type) {
  return type == POLYCONV_F16 || type == POLYCONV_BF16;
}

bool rounds_to_tf32(const polyconv_request &request) {
  return request.policy->math >= POLYCONV_MATH_TF32 && request.layers[0]->input.type == POLYCONV_F32;
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  return cudnn::supports(request, rounds_to_tf32(request) ? POLYCONV_MATH_TF32 : POLYCONV_MATH_STRICT, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  cudnn::Rules rules = {};
  const polyconv_layer &layer = *request.layers[0];
  rules.tensor_cores = rounds_to_tf32(request) || (is_half(layer.input.type) && layer.groups == 1);
  rules.nondeterministic = request.policy->determinism == POLYCONV_DETERMINISM_NONE;
  return cudnn::make_instance(request, rules, "direct");
}

} // namespace

extern const sdk::Kernel kernel_direct;
const sdk::Kernel kernel_direct = {
    "direct", POLYCONV_KERNEL_NEEDS_BIND | POLYCONV_KERNEL_VARIANT, cudnn::kConfigs, 1, supports, create};

} // namespace polyconv::cuda
