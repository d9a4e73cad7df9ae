// gemm1x1.cpp - pointwise convolution, stride 1, unpadded, f32 and f64: the matrix product with activations read in
// place. Channels last: every pixel is a row of k. Channels first: every channel is a row of pixels, which lie along
// the vectors. Only what a register tile cannot take whole (the last pixels of an image) is packed.
//
// Floor: the multiply-adds at the FMA rate; with few channels, the input and output once at the memory's.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/gemm/task.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, gemm1x1_task, const GemmPlan &plan, const GemmRun &run, const GemmShare &share)

namespace POLYCONV_ISA {

template <class T, bool ChannelsAlong>
struct InPlaceSource {
  const GemmPlan &plan;
  const T *input;
  T *scratch;
  Operand<T> tiles[kMaxTiles];

  POLYCONV_MEMBER void prepare(const PixelBlock &block, int64_t group, int64_t first, int64_t last) {
    const polyconv_tensor &t = plan.input;
    const T *in = input + t.offset + group * plan.group_in * t.stride[1];
    const int64_t pixel_stride = t.stride[4], channel_stride = t.stride[1];
    constexpr int kWhole = ChannelsAlong ? kTileThird : kLanes<T>;
    // Rows whole pages apart all fall into one set of the L1 cache: packing is cheaper.
    const bool aliased = ChannelsAlong && pixel_stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0;
    T *packed = scratch;
    for (int i = 0; i < block.tiles; ++i, packed += plan.tile_pixels * plan.row_stride) {
      const int64_t pixel = block.first + i * plan.tile_pixels, count = tile_count(plan, block, i);
      const int64_t image = pixel / plan.image_pixels, in_image = pixel % plan.image_pixels;
      if (!aliased && count % kWhole == 0 && in_image + count <= plan.image_pixels)
        tiles[i] = {in + image * t.stride[0] + in_image * pixel_stride + first * channel_stride,
                    ChannelsAlong ? pixel_stride : channel_stride};
      else
        tiles[i] = pack_tile<T, T, ChannelsAlong>(plan, in, pixel, count, first, last, packed);
    }
  }
  POLYCONV_MEMBER Operand<T> tile(int i) const { return tiles[i]; }
};

template <class T>
POLYCONV_INLINE void run_typed(const GemmPlan &plan, const GemmRun &run, const GemmShare &share) {
  const T *input = static_cast<const T *>(run.input);
  T *packed = static_cast<T *>(share.packed), *sums = static_cast<T *>(share.sums);
  if (plan.channels_along) {
    InPlaceSource<T, true> source = {plan, input, packed, {}};
    run_share<T, true>(plan, run, share, source, sums);
  } else {
    InPlaceSource<T, false> source = {plan, input, packed, {}};
    run_share<T, false>(plan, run, share, source, sums);
  }
}

void gemm1x1_task(const GemmPlan &plan, const GemmRun &run, const GemmShare &share) {
  if (plan.arithmetic == GemmArithmetic::kF64)
    run_typed<double>(plan, run, share);
  else
    run_typed<float>(plan, run, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/gemm/driver.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cpu {
namespace {

constexpr GemmTask kTask[] = POLYCONV_BY_ISA(gemm1x1_task);

bool takes(const polyconv_layer &layer, sdk::Offer &offer) {
  using namespace sdk;
  const polyconv_tensor &in = layer.input;
  if (in.type != POLYCONV_F32 && in.type != POLYCONV_F64) return offer.reject("takes f32 and f64, read in place");
  if (taps(layer) != 1) return offer.reject("takes one tap, not %d", static_cast<int>(taps(layer)));
  for (int i = 0; i < 3; ++i)
    if (layer.stride[i] != 1 || layer.pad_begin[i] != 0 || layer.pad_end[i] != 0)
      return offer.reject("takes stride 1 without padding");
  const bool last = gemm_channels_last(layer);
  if (!one_pixel_stride(in) || (last ? in.stride[kC] != 1 && in.size[kC] > 1 : in.stride[kW] != 1)) {
    offer.wants_layout = 1 + (last ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST);
    return offer.reject("reads the input in place: its %s must lie side by side, as the output's do",
                        last ? "channels" : "pixels");
  }
  return true;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  return choose_isa(config, offer, isa) && gemm_takes(request, offer) && takes(*request.layers[0], offer) &&
         gemm_offer(request, isa, true, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return gemm_create(request, static_cast<Isa>(config), true, kTask[config]);
}

} // namespace

const sdk::Kernel kernel_gemm1x1 = {"gemm1x1", 0, isa_names, kIsaCount, supports, create};

} // namespace polyconv::cpu
#endif
