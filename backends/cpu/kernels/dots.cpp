// dots.cpp - forward convolution of many channels in bf16, s8 and u8 by instructions that multiply and add two or four
// channels in each 32-bit lane (AVX512-BF16 and AVX512-VNNI; BFDOT and USDOT of Arm, or SDOT for 8 bits alone): the
// register tiles of `dense`, whose elements are pairs or quads of channels.
//
// Floor: the multiply-adds at twice (bf16) or four times (8 bits) the FMA rate where a core has as many units for them
// as for FMA (Zen 5); half of that where it has one. Bringing the source in costs as in `dense`.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dense/plan.hpp"

#if defined(POLYCONV_DOTS)
#include "cpu/dense/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share) {
  switch (plan.input.type) {
#if !defined(POLYCONV_NEON) || defined(__ARM_FEATURE_MATMUL_INT8)
    case POLYCONV_BF16: return run_dense<bf16, float>(plan, arguments, share);
#endif
    case POLYCONV_S8: return run_dense<int8_t, int32_t>(plan, arguments, share);
    default: return run_dense<uint8_t, int32_t>(plan, arguments, share);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
#endif

#ifdef POLYCONV_DRIVER
#include "cpu/dense/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {

#if POLYCONV_HAVE_BYTE_DOTS
namespace isa_neon_dot {
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
}
constexpr DenseTaskFunction byte_dots_task = isa_neon_dot::dots_task;
#else
constexpr DenseTaskFunction byte_dots_task = nullptr;
#endif
#if POLYCONV_HAVE_DOTS
namespace POLYCONV_DOTS_ISA {
void dots_task(const DensePlan &plan, const DenseArguments &arguments, const GridShare &share);
}
constexpr DenseTaskFunction all_dots_task = POLYCONV_DOTS_ISA::dots_task;
#else
constexpr DenseTaskFunction all_dots_task = nullptr;
#endif

namespace {

// Configs are the instruction sets from kByteDots to kDots.
constexpr int32_t kConfigs = kDots - kByteDots + 1;

Isa isa_of(int32_t config) {
  return static_cast<Isa>(kByteDots + config);
}
constexpr bool is_built(Isa isa) {
  return isa == kDots ? POLYCONV_HAVE_DOTS : POLYCONV_HAVE_BYTE_DOTS;
}
DenseTaskFunction task_of(int32_t config) {
  return isa_of(config) == kDots ? all_dots_task : byte_dots_task;
}

bool takes_types(const polyconv_layer &layer, Isa isa, sdk::Offer &offer) {
  const int32_t in = layer.input.type, weights = layer.weights.type, zero = layer.weights_zero_point;
  if (in == POLYCONV_BF16) return isa == kDots || offer.reject("takes s8 and u8 activations with %s", words_of(isa));
  if (layer.sum_type != POLYCONV_S32) return offer.reject("takes bf16, s8 and u8 activations");
  const bool s8 = (weights == POLYCONV_S8 && zero == 0) || (weights == POLYCONV_U8 && zero == 128);
  return s8 || offer.reject("takes weights that less their zero point are s8: s8 with 0, u8 with 128; it is %d", zero);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (config < 0) {
    sdk::Offer best = offer;
    config = kConfigs == 1 || (is_built(kDots) && has_isa(kDots, best)) ? kConfigs - 1 : 0;
  }
  offer.config = config;
  const Isa isa = isa_of(config);
  if (!is_built(isa)) return offer.reject("the compiler of this build knows no %s", words_of(isa));
  if (!has_isa(isa, offer)) return false;
  if (request.op == POLYCONV_OP_CONVOLVE && request.count == 1 && !takes_types(*request.layers[0], isa, offer))
    return false;
  return dense_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return dense_create(request, isa_of(config), task_of(config));
}

} // namespace

const sdk::Kernel kernel_dots = {"dots", 0, &isa_names[kByteDots], kConfigs, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
