// wgmma_planes.cu - the kernels of the Hopper product of channels first, and the packing of dense weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/instance.hpp"
#include "wgmma_planes.cuh"
#include "wgmma_planes.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const float *raw, float *packed, int64_t row, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t depth = weights.size[1] * weights.size[2] * weights.size[3] * weights.size[4];
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t k = i / row, place = i - k * row;
    packed[i] = place < depth ? raw[weights.at(weights.along_w(k * depth + place))] : 0.0f;
  }
}

} // namespace

int64_t dense_row(const polyconv_layer &l) {
  return (l.weights.size[1] * sdk::taps(l) + 3) / 4 * 4;
}

void pack_dense(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = l.weights.size[0] * dense_row(l);
  if (count == 0) return;
  pack<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(View<int64_t>(l.weights), static_cast<const float *>(raw),
                                                             static_cast<float *>(packed), dense_row(l), count);
  check_launch("cuda-tensor's packing");
}

// In the order of kPlanesShapes.
Launcher product_planes(int shape) {
#define POLYCONV_PLANES_LAUNCHER(pixels, channels, groups, teams, dense, name) \
  &launcher<PlanesTileOf<pixels, channels, groups, teams, dense>,              \
            multiply_planes<PlanesTileOf<pixels, channels, groups, teams, dense>>>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_PLANES_TILES(POLYCONV_PLANES_LAUNCHER)};
#undef POLYCONV_PLANES_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma
