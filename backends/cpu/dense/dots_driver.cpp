// dots_driver.cpp - offers the kernel dots, on the passes that this build has of it. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dense/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

// Of passes that this build may lack.
namespace POLYCONV_DOTS_ISA {
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
}
namespace isa_neon_dot {
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
}

namespace {

struct Config {
  Isa isa;
  DenseTaskFunction task; // NULL: this build has no such pass
};
// In the order of isa_names, the best last.
constexpr Config kConfigs[] = {
#if defined(__aarch64__)
    {kByteDots, POLYCONV_HAVE_BYTE_DOTS ? isa_neon_dot::dots_task : nullptr},
#endif
    {kDots, POLYCONV_HAVE_DOTS ? POLYCONV_DOTS_ISA::dots_task : nullptr}};
constexpr int32_t kBest = sizeof kConfigs / sizeof *kConfigs - 1;

bool takes_types(const polyconv_layer &layer, Isa isa, sdk::Offer &offer) {
  const int32_t in = layer.input.type, weights = layer.weights.type, zero = layer.weights_zero_point;
  if (in == POLYCONV_BF16) return isa == kDots || offer.reject("takes s8 and u8 activations with %s", words_of(isa));
  if (layer.sum_type != POLYCONV_S32) return offer.reject("takes bf16, s8 and u8 activations");
  const bool s8 = (weights == POLYCONV_S8 && zero == 0) || (weights == POLYCONV_U8 && zero == 128);
  return s8 || offer.reject("takes weights that less their zero point are s8: s8 with 0, u8 with 128; it is %d", zero);
}

bool takes(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  offer.config = config;
  const auto [isa, task] = kConfigs[config];
  if (task == nullptr) return offer.reject("the compiler of this build knows no %s", words_of(isa));
  if (!has_isa(isa, offer)) return false;
  if (request.op == POLYCONV_OP_CONVOLVE && request.count == 1 && !takes_types(*request.layers[0], isa, offer))
    return false;
  return dense_offer(request, isa, offer);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (config >= 0) return takes(request, config, offer);
  sdk::Offer unused = offer;
  const bool best = kBest == 0 || (POLYCONV_HAVE_DOTS && has_isa(kDots, unused));
  return takes(request, best ? kBest : 0, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return dense_create(request, kConfigs[config].isa, kConfigs[config].task);
}

} // namespace

const sdk::Kernel kernel_dots = {"dots", 0, &isa_names[kByteDots], kBest + 1, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
