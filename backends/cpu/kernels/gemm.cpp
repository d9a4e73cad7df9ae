// gemm.cpp - implicit matrix multiplication, forward, every type: activations are gathered (im2col) block by block into
// the cache and multiplied with packed weights; any padding mode, stride, dilation, groups and strides.
//
// Floor: the multiply-adds at the FMA rate. Packing adds about 4 vector operations for each vector of activations,
// which every panel of output channels then reuses: 4 % at 64 output channels, less above.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, gemm_task, const GemmPlan &plan, const GemmRun &run, const GemmShare &share)

namespace POLYCONV_ISA {

// Activations packed into the task's scratch, a block of pixels and of k at a time.
template <class From, class T, bool ChannelsAlong>
struct PackedSource {
  const GemmPlan &plan;
  const From *input;
  T *scratch;
  Operand<T> tiles[kMaxTiles];

  POLYCONV_MEMBER void prepare(const PixelBlock &block, int64_t group, int64_t first, int64_t last) {
    const From *in = input + plan.input.offset + group * plan.group_in * plan.input.stride[1];
    T *packed = scratch;
    for (int i = 0; i < block.tiles; ++i, packed += plan.tile_pixels * plan.row_stride)
      tiles[i] = pack_tile<From, T, ChannelsAlong>(plan, in, block.first + i * plan.tile_pixels,
                                                   tile_count(plan, block, i), first, last, packed);
  }
  POLYCONV_MEMBER Operand<T> tile(int i) const { return tiles[i]; }
};

template <class From, class T>
POLYCONV_NOINLINE void run_typed(const GemmPlan &plan, const GemmRun &run, const GemmShare &share) {
  const From *input = static_cast<const From *>(run.input);
  T *packed = static_cast<T *>(share.packed), *sums = static_cast<T *>(share.sums);
  if (plan.channels_along) {
    PackedSource<From, T, true> source = {plan, input, packed, {}};
    run_share<T, true>(plan, run, share, source, sums);
  } else {
    PackedSource<From, T, false> source = {plan, input, packed, {}};
    run_share<T, false>(plan, run, share, source, sums);
  }
}

void gemm_task(const GemmPlan &plan, const GemmRun &run, const GemmShare &share) {
  const bool pairs = plan.arithmetic == GemmArithmetic::kPairs;
  switch (plan.input.type) {
    case POLYCONV_F64: return run_typed<double, double>(plan, run, share);
    case POLYCONV_F32: return run_typed<float, float>(plan, run, share);
    case POLYCONV_F16: return run_typed<f16, float>(plan, run, share);
    case POLYCONV_BF16: return run_typed<bf16, float>(plan, run, share);
    case POLYCONV_U16: return run_typed<uint16_t, float>(plan, run, share);
    case POLYCONV_S8: return run_typed<int8_t, int32_t>(plan, run, share);
    case POLYCONV_U8:
      return pairs ? run_typed<uint8_t, int32_t>(plan, run, share) : run_typed<uint8_t, float>(plan, run, share);
    default: return;
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/gemm/driver.hpp"
#include "cpu/kernels.hpp"

namespace polyconv::cpu {
namespace {

constexpr GemmTask kTask[] = POLYCONV_BY_ISA(gemm_task);

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && gemm_takes(request, offer) && gemm_offer(request, isa, false, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return gemm_create(request, static_cast<Isa>(config), false, kTask[config]);
}

} // namespace

const sdk::Kernel kernel_gemm = {"gemm", 0, isa_names, kIsaCount, supports, create};

} // namespace polyconv::cpu
#endif
