// dense.cpp - forward convolution of many channels, every type: register tiles of pixels by output channels over the
// whole reduction, source pixels read in place where they lie as wanted; any padding mode, stride, dilation, layout.
//
// Floor: the multiply-adds at the FMA rate, less those that meet zero padding and are left out. Where the source cannot
// be read in place, bringing it into the cache adds 1 to 5 operations for each of its vectors, which all panels of
// output channels and all taps then share: below 3 % from 64 output channels on.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/dense/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, dense_task, const DensePlan &plan, const DenseArguments &arguments, const DenseShare &share)

namespace POLYCONV_ISA {

void dense_task(const DensePlan &plan, const DenseArguments &arguments, const DenseShare &share) {
  const bool pairs = plan.arithmetic == DenseArithmetic::kPairs;
  switch (plan.input.type) {
    case POLYCONV_F64: return run_dense<double, double>(plan, arguments, share);
    case POLYCONV_F32: return run_dense<float, float>(plan, arguments, share);
    case POLYCONV_F16: return run_dense<f16, float>(plan, arguments, share);
    case POLYCONV_BF16: return run_dense<bf16, float>(plan, arguments, share);
    case POLYCONV_U16: return run_dense<uint16_t, float>(plan, arguments, share);
    case POLYCONV_S8: return run_dense<int8_t, int32_t>(plan, arguments, share);
    case POLYCONV_U8:
      return pairs ? run_dense<uint8_t, int32_t>(plan, arguments, share)
                   : run_dense<uint8_t, float>(plan, arguments, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/dense/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr DenseTaskFunction kTask[] = POLYCONV_BY_ISA(dense_task);

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && dense_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return dense_create(request, static_cast<Isa>(config), kTask[config]);
}

} // namespace

const sdk::Kernel kernel_dense = {"dense", 0, isa_names, kIsaCount, supports, create};

} // namespace polyconv::cpu
#endif
