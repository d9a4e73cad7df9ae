// direct.cpp - the general convolution without a matrix: forward and backward data (hence transposed), every type,
// layout, stride, group and padding mode. Rows of the source are brought into scratch once for a block of result rows;
// register tiles run over channels and taps.
//
// Floor: the multiply-adds at the FMA rate; each source element is loaded once for each tap of D and (1 + (taps of H) /
// (rows of a block)) times. It beats the matrix product where output channels are few, and serves what that rejects.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/direct/gather.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, direct_task, const DirectPlan &plan, const DirectRun &run, const DirectShare &share)

namespace POLYCONV_ISA {

void direct_task(const DirectPlan &plan, const DirectRun &run, const DirectShare &share) {
  const bool integers = plan.epilogue.sum_type == POLYCONV_S32;
  switch (plan.source.type) {
    case POLYCONV_F64: return gather_share<double, double>(plan, run, share);
    case POLYCONV_F32: return gather_share<float, float>(plan, run, share);
    case POLYCONV_F16: return gather_share<f16, float>(plan, run, share);
    case POLYCONV_BF16: return gather_share<bf16, float>(plan, run, share);
    case POLYCONV_U16: return gather_share<uint16_t, float>(plan, run, share);
    case POLYCONV_S8: return gather_share<int8_t, int32_t>(plan, run, share);
    case POLYCONV_U8:
      return integers ? gather_share<uint8_t, int32_t>(plan, run, share)
                      : gather_share<uint8_t, float>(plan, run, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/direct/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr DirectTask kTask[] = POLYCONV_BY_ISA(direct_task);

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && direct_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return direct_create(request, static_cast<Isa>(config), kTask[config]);
}

} // namespace

const sdk::Kernel kernel_direct = {"direct", 0, isa_names, kIsaCount, supports, create};

} // namespace polyconv::cpu
#endif
