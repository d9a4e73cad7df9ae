// matrix.cpp - forward convolution in bf16, f16, s8 and u8, and of f32 in parts of bf16, on the tile registers of AMX:
// 16 positions by 16 output channels at an instruction, source pixels read in place or brought into a strip.
//
// Floor: 2 x 16 x 16 x 32 operations of bf16 (twice as many of 8 bits) in 16 cycles; f16 takes four such products, f32
// six. The rest of a tile is lost where a line's positions, channels in or channels out are no multiples of 16, 32, 16.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/matrix/plan.hpp"

#if defined(POLYCONV_TILES) // the passes with tiles, real or soft
#include "cpu/matrix/task.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

void matrix_task(const MatrixPlan &plan, const MatrixArguments &arguments, const GridShare &share);
void matrix_task(const MatrixPlan &plan, const MatrixArguments &arguments, const GridShare &share) {
  switch (plan.products) {
    case MatrixProducts::kBf16: return run_matrix<Bf16Products>(plan, arguments, share);
    case MatrixProducts::kF16: return run_matrix<F16Products>(plan, arguments, share);
    case MatrixProducts::kThree: return run_matrix<ThreeProducts>(plan, arguments, share);
    case MatrixProducts::kSix: return run_matrix<SixProducts>(plan, arguments, share);
    case MatrixProducts::kIntegers: break;
  }
  if (plan.signed_input)
    plan.signed_weights ? run_matrix<IntegerProducts<true, true>>(plan, arguments, share)
                        : run_matrix<IntegerProducts<true, false>>(plan, arguments, share);
  else
    plan.signed_weights ? run_matrix<IntegerProducts<false, true>>(plan, arguments, share)
                        : run_matrix<IntegerProducts<false, false>>(plan, arguments, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
#endif

#ifdef POLYCONV_DRIVER
#include "cpu/kernels.hpp"
#include "cpu/matrix/driver.hpp"

namespace polyconv::cpu {

#if POLYCONV_HAVE_AMX || defined(POLYCONV_SOFT_TILES)
namespace POLYCONV_TILES_ISA {
void matrix_task(const MatrixPlan &plan, const MatrixArguments &arguments, const GridShare &share);
}
using POLYCONV_TILES_ISA::matrix_task;
#else
constexpr MatrixTaskFunction matrix_task = nullptr;
#endif

namespace {

constexpr const char *kConfigs[] = {"amx", "amx_three"};

bool has_tiles(sdk::Offer &offer) {
#if defined(POLYCONV_SOFT_TILES)
  return (void)offer, true;
#elif POLYCONV_HAVE_AMX
  return has_isa(kAmx, offer);
#else
  return offer.reject("the compiler of this build knows no AMX");
#endif
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const bool fast = request.policy->math == POLYCONV_MATH_FAST && request.layers[0]->input.type == POLYCONV_F32;
  offer.config = config >= 0 ? config : fast ? 1 : 0;
  return has_tiles(offer) && matrix_offer(request, offer.config == 1, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return matrix_create(request, config == 1, matrix_task);
}

} // namespace

const sdk::Kernel kernel_matrix = {"matrix", 0, kConfigs, 2, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
