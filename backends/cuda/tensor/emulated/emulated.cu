// emulated.cu - the Hopper product's kernels for f32 in parts, and the packing of their weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/instance.hpp"
#include "emulated/emulated.cuh"
#include "emulated/emulated.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const float *raw, const PackedParts parts, __nv_bfloat16 *packed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < parts.plane; i += step) {
    const int64_t c = i % parts.row;
    Place<int64_t> at = weights.along_c(i / parts.row * weights.size[1]);
    at.c = c;
    const float v = c < weights.size[1] ? raw[weights.at(at)] : 0.0f;
    for (int part = 0; part < kParts; ++part)
      packed[part * parts.plane + i - c + PackedParts::place_of(c)] = tensor::part_of(v, part);
  }
}

} // namespace

int64_t parts_bytes(const polyconv_layer &l) {
  return PackedParts(l).plane * kParts * 2;
}

void pack_parts(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const PackedParts parts(l);
  if (parts.plane == 0) return;
  pack<<<blocks_for(parts.plane, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const float *>(raw), parts, static_cast<__nv_bfloat16 *>(packed));
  check_launch("cuda-tensor's packing");
}

// In the order of kEmulatedShapes.
Launcher product_emulated(int shape) {
#define POLYCONV_EMULATED_LAUNCHER(pixels, channels, groups, teams, blocks) \
  &split_launcher<SplitTileOf<pixels, channels, groups, teams, blocks>>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_EMULATED_TILES(POLYCONV_EMULATED_LAUNCHER)};
#undef POLYCONV_EMULATED_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma
