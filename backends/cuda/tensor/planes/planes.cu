// planes.cu - the kernels of the Hopper product of channels first, and the packing of dense weights.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "planes/near.cuh"
#include "planes/planes.hpp"

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
  polyconv_layer rows = l; // as the map of weights reads them: all of a filter in one tap
  rows.weights.size[1] *= sdk::taps(l);
  return packed_channels(rows);
}

void pack_dense(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = l.weights.size[0] * dense_row(l);
  if (count == 0) return;
  pack<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(View<int64_t>(l.weights), static_cast<const float *>(raw),
                                                             static_cast<float *>(packed), dense_row(l), count);
  check_launch("cuda-tensor's packing");
}

PlanesProduct make_planes(const polyconv_layer &l, const polyconv_arguments &a, const Shape &shape) {
  PlanesProduct p = {make_product(l, a, shape, 1), static_cast<const float *>(a.input), 1, {}, {}, {}, {}, {}, {}};
  p.boxes = 0;
  for (int axis = 0; axis < 3; ++axis) {
    p.in[axis] = small(l.input.size[2 + axis]), p.stride[axis] = small(l.stride[axis]);
    p.dilation[axis] = small(l.dilation[axis]), p.pad[axis] = small(l.pad_begin[axis]);
    p.tap_offset[axis] = l.dilation[axis] * l.input.stride[2 + axis];
  }
  return p;
}

Near make_near(const polyconv_layer &l, const PlanesShape &shape, int32_t vector) {
  const int64_t leave = leaves_turned(shape.channels, shape.reading) ? shape.groups * kTurnBytes : 0,
                most = kHopperShared - 1024 - 320 - leave; // less alignment, barriers
  int64_t before = 0, behind = 0;
  for (int axis = 0; axis < 3; ++axis) {
    before += l.pad_begin[axis] * l.input.stride[2 + axis];
    behind += ((l.weights.size[2 + axis] - 1) * l.dilation[axis] - l.pad_begin[axis]) * l.input.stride[2 + axis];
  }
  const int64_t first = (before + 3) / 4 * 4,
                pixels = (first + shape.pixels + std::max<int64_t>(behind, 0) + 3) / 4 * 4;
  const int64_t row = ((pixels + 16 - 8 + 31) / 32 * 32 + 8) * 4; // zeros behind, and a quad's rows in different banks
  const int64_t activations = kNearStages * 32 * row, weights = shape.channels * 128;
  const int64_t stages = std::min<int64_t>(8, (most - activations) / weights);
  if (stages < 2) return {};
  return {small(pixels / vector),
          small(first),
          small(first - before),
          small(row),
          small(weights),
          small(stages),
          small(activations + stages * weights + leave + 1024 + 320)};
}

namespace {

template <class Tile, void Kernel(PlanesProduct), int Shared>
PlanesLauncher launcher_of() {
  const auto prepare = [] { allow_shared(Kernel, kHopperShared); };
  const auto launch = [](const PlanesProduct &p, int multiprocessors, cudaStream_t stream) {
    const int64_t turns = static_cast<int64_t>(p.pixel_tiles) * p.channel_tiles;
    launch_early(Kernel, static_cast<unsigned>(std::min<int64_t>(turns, multiprocessors)), Tile::threads,
                 Shared > 0 ? Shared : p.near.shared_bytes, stream, p);
  };
  return {prepare, launch};
}

template <int Pixels, int Channels, int Groups, int Teams, Reading Way>
PlanesLauncher planes_launcher() {
  if constexpr (Way == Reading::kNear) {
    static_assert(Teams == 1, "near tiles are all warpgroups' alike");
    using Tile = NearTileOf<Pixels, Channels, Groups>;
    return launcher_of<Tile, multiply_near_planes<Tile>, 0>();
  } else {
    using Tile = PlanesTileOf<Pixels, Channels, Groups, Teams, Way>;
    return launcher_of<Tile, multiply_planes<Tile>, Tile::shared_bytes>();
  }
}

} // namespace

// In the order of kPlanesShapes.
PlanesLauncher product_planes(int shape) {
#define POLYCONV_PLANES_LAUNCHER(pixels, channels, groups, teams, reading, name) \
  &planes_launcher<pixels, channels, groups, teams, Reading::reading>,
  static constexpr PlanesLauncher (*kLaunchers[])() = {POLYCONV_PLANES_TILES(POLYCONV_PLANES_LAUNCHER)};
#undef POLYCONV_PLANES_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma
