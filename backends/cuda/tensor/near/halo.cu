// halo.cu - few channels on Hopper's tensor cores, every input fetched once. A block keeps all weights of 64
// output channels in shared memory. Two warpgroups take a patch each in turn, as one fetch of the input with its halo:
// a row of shared memory for every position. A tap is then the same rows from another one on, which a product's
// descriptor can say: the sums of all positions from the first to the last, those between two rows of the patch
// included, whose sums nobody wants. Of a volume a patch lies in one plane, and its sums meet the planes of the window
// one after the other, a fetch each. Channels are the rows of the product and positions its columns, so that weights,
// not activations, are what is read again for every product. While one warpgroup multiplies, the sums of the other
// leave.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores; 224 of 232 columns are wanted where rows have 56 outputs.
// SPDX-License-Identifier: Apache-2.0
#include "common/numbers.hpp"
#include "near/halo.hpp"
#include "wgmma/turned.cuh"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kTeams = 2, kThreads = 128 * kTeams;
constexpr int kLeaveRow = 128, kLeaveBytes = kHaloColumns * kLeaveRow;

// Shared memory: weights, patches, results on their way out, barriers. Steps: of 16 input channels; row: bytes of a
// position or of a filter's tap.
template <int Steps>
struct HaloMemory {
  static constexpr int row = halo_row(16 * Steps), steps = Steps;
  static constexpr int tap_bytes = kHaloChannels * row, patch_bytes = kHaloPositions * row;
  static constexpr int patches_at = halo_taps(row) * tap_bytes, leave_at = patches_at + kTeams * patch_bytes;
  static constexpr int barriers_at = leave_at + kTeams * kLeaveBytes;
  static constexpr int bytes = barriers_at + 64 + 1024;
  static_assert(patches_at % 1024 == 0 && patch_bytes % 1024 == 0 && leave_at % 1024 == 0, "swizzled");

  __device__ static uint64_t descriptor(uint32_t address) {
    return row == 128 ? ptx::matrix_descriptor(address) : ptx::narrow_descriptor(address);
  }
};

// ---------------------------------------------------------------- a patch comes

struct Patch {
  int32_t image, d, h, w; // its first output

  __device__ Patch(const HaloProduct &p, int32_t index) {
    const int32_t row = index / p.patches[1], plane = row / p.patches[0];
    image = plane / p.out[0];
    w = (index - row * p.patches[1]) * p.patch[1], h = (row - plane * p.patches[0]) * p.patch[0];
    d = plane - image * p.out[0];
  }
};

// The patches of a team, and within each the planes of the window.
struct Walker {
  int32_t index, plane = 0;

  __device__ void next(const HaloProduct &p, int32_t step) {
    if (++plane == p.taps[0]) plane = 0, index += step;
  }
};

template <class Memory>
__device__ inline void fetch(const HaloProduct &p, const Walker &at, uint32_t to, uint32_t barrier) {
  if (at.index >= p.count) return;
  const Patch patch(p, at.index);
  ptx::barrier_expect(barrier, p.positions * Memory::row);
  const int32_t w = patch.w - p.pad[2], h = patch.h - p.pad[1];
  if (p.volume)
    ptx::load_box(to, &p.input, barrier, 0, w, h, patch.d + at.plane * p.dilation[0] - p.pad[0], patch.image);
  else
    ptx::load_box(to, &p.input, barrier, 0, w, h, patch.image);
}

// ---------------------------------------------------------------- products

// Of one plane of the window, whose weights begin at `weights`.
template <class T, class Memory, bool Across>
__device__ inline void multiply_patch(float (&sums)[kHaloColumns / 2], const HaloProduct &p, uint32_t weights,
                                      uint32_t positions, bool begins) {
  constexpr int kStepA = Across ? 16 * 128 >> 4 : 2;
  uint64_t a = Across ? ptx::matrix_descriptor(weights) : Memory::descriptor(weights);
  const int32_t taps = p.taps[1] * p.taps[2];
  int32_t row = 0, column = 0;
  for (int32_t tap = 0; tap < taps; ++tap, a += Memory::tap_bytes >> 4) {
    const uint32_t shift = row * p.dilation[1] * p.pitch + column * p.dilation[2];
    const uint64_t b = Memory::descriptor(positions + shift * Memory::row);
    ptx::products_fence();
#pragma unroll
    for (int k = 0; k < Memory::steps; ++k)
      ptx::multiply<T, kHaloColumns, Across, false>(sums, a + k * kStepA, b + k * 2, k > 0 || tap > 0 || !begins);
    ptx::products_commit();
    ptx::products_wait<1>();
    if (++column == p.taps[2]) column = 0, ++row;
  }
}

// ---------------------------------------------------------------- results leave

// By one thread: a row of the patch at a time, for between rows lie positions whose sums nobody wants. What lies
// outside of the result is dropped.
__device__ inline void leave(const HaloProduct &p, const Patch &patch, int32_t channel, uint32_t from) {
  const int32_t rows = min(p.patch[0], p.out[1] - patch.h);
  for (int32_t row = 0; row < rows; ++row, from += p.pitch * kLeaveRow) {
    if (p.volume)
      ptx::store_box(&p.results, from, channel, patch.w, patch.h + row, patch.d, patch.image);
    else
      ptx::store_box(&p.results, from, channel, patch.w, patch.h + row, patch.image);
  }
  ptx::stores_commit();
}

// ---------------------------------------------------------------- the kernel

// All taps of 64 filters, rows of channels or, across, rows of filters: the same bytes.
template <class Memory, bool Across>
__device__ inline void fetch_weights(const HaloProduct &p, int32_t channel, uint32_t to, uint32_t barrier) {
  const int32_t taps = p.taps[0] * p.taps[1] * p.taps[2];
  ptx::barrier_expect(barrier, taps * Memory::tap_bytes);
  for (int32_t tap = 0; tap < taps; ++tap, to += Memory::tap_bytes) {
    if constexpr (Across) {
      const int32_t at = p.taps_reversed ? taps - 1 - tap : tap, line = at / p.taps[2];
      ptx::load_box(to, &p.weights, barrier, channel, at - line * p.taps[2], line % p.taps[1], line / p.taps[1], 0);
    } else {
      ptx::load_box(to, &p.weights, barrier, 0, tap, channel);
    }
  }
}

template <class T, int Steps, bool Across>
__global__ void __launch_bounds__(kThreads, 1) multiply_patches(const __grid_constant__ HaloProduct p) {
  using Memory = HaloMemory<Steps>;
  extern __shared__ unsigned char unaligned[];
  const uint32_t shared = (ptx::shared_address(unaligned) + 1023) / 1024 * 1024; // swizzled memory begins at 1024 bytes
  const int team = static_cast<int>(threadIdx.x / 128);
  const bool first = threadIdx.x % 128 == 0, leader = threadIdx.x % 32 == 0;
  const uint32_t positions = shared + Memory::patches_at + team * Memory::patch_bytes,
                 leaving = shared + Memory::leave_at + team * kLeaveBytes;
  const uint32_t weights_here = shared + Memory::barriers_at, patch_here = weights_here + 8 + team * 8,
                 turn = weights_here + 24 + team * 8, next_turn = weights_here + 24 + (1 - team) * 8;
  if (threadIdx.x == 0) {
    ptx::barrier_init(weights_here, 1);
    for (int t = 0; t < kTeams; ++t)
      ptx::barrier_init(weights_here + 8 + t * 8, 1), ptx::barrier_init(weights_here + 24 + t * 8, 4);
    ptx::barrier_init_fence();
  }
  if (threadIdx.x == 32) ptx::prefetch(&p.input), ptx::prefetch(&p.weights);
  __syncthreads();
  ptx::let_next_begin();
  const auto stream = static_cast<int32_t>(blockIdx.x) / p.channel_tiles;
  const auto step = static_cast<int32_t>(gridDim.x) / p.channel_tiles * kTeams;
  const int32_t channel = (static_cast<int32_t>(blockIdx.x) - stream * p.channel_tiles) * kHaloChannels;
  if (threadIdx.x == 0) {
    if (p.new_weights) ptx::await_previous(); // packing for later runs lets no kernel begin before its end
    fetch_weights<Memory, Across>(p, channel, shared, weights_here);
  }
  ptx::await_previous();

  Walker at = {stream + team * (step / kTeams)};
  if (first) fetch<Memory>(p, at, positions, patch_here);
  float bias[2];
  turned_bias(p.bias, channel, p.channels, bias);
  ptx::barrier_wait(weights_here, 0);
  float sums[kHaloColumns / 2];
  const uint32_t plane_bytes = p.taps[1] * p.taps[2] * Memory::tap_bytes;
  uint32_t number = 0;
  for (; at.index < p.count; ++number) {
    const Walker now = at;
    at.next(p, step);
    ptx::barrier_wait(patch_here, number & 1);
    ptx::barrier_wait(turn, (number & 1) ^ (team == 0 ? 1 : 0));
    multiply_patch<T, Memory, Across>(sums, p, shared + now.plane * plane_bytes, positions, now.plane == 0);
    if (leader) ptx::barrier_arrive(next_turn);
    ptx::products_wait<0>();
    if (first) ptx::stores_read<0>();
    ptx::meet(team + 1, 128); // the patch has been read, and so has what left before
    if (first) fetch<Memory>(p, at, positions, patch_here);
    if (at.plane > 0) continue; // sums meet the window's next plane
    put_turned<T, kHaloColumns>(sums, bias, p.relu != 0, leaving);
    ptx::fence_for_tma();
    ptx::meet(team + 1, 128);
    if (first) leave(p, Patch(p, now.index), channel, leaving);
  }
  if (first) ptx::stores_read<0>();
  // The first team may have a patch more: its turns go on until that patch's last plane.
  const auto rounds = static_cast<uint32_t>((p.count - stream + step - 1) / step * p.taps[0]);
  for (; number < rounds; ++number) {
    ptx::barrier_wait(turn, (number & 1) ^ (team == 0 ? 1 : 0));
    if (leader) ptx::barrier_arrive(next_turn);
  }
}

} // namespace

// ---------------------------------------------------------------- the patches of a layer

HaloProduct halo_product(const polyconv_layer &l) {
  HaloProduct best;
  const int64_t reach_h = (l.weights.size[3] - 1) * l.dilation[1], reach_w = (l.weights.size[4] - 1) * l.dilation[2];
  const int64_t out_h = l.output.size[3], out_w = l.output.size[4];
  double least = 0;
  for (int64_t across = 1; across <= out_w; ++across) {
    const int64_t columns = ceil_div(out_w, across), pitch = columns + reach_w;
    if (pitch > 256 || columns * (across - 1) >= out_w) continue;
    // Products reach over all columns from each tap's first position on, and none beyond the patch's memory.
    if (reach_h * pitch + reach_w + kHaloColumns > kHaloPositions) continue;
    const int64_t most = std::min((kHaloColumns + reach_w) / pitch, kHaloPositions / pitch - reach_h);
    if (most < 1) continue;
    const int64_t down = ceil_div(out_h, most), rows = ceil_div(out_h, down), patches = across * down;
    if (rows + reach_h > 256 || (best.pitch != 0 && static_cast<double>(patches) >= least)) continue;
    least = static_cast<double>(patches);
    best.patch[0] = static_cast<int32_t>(rows), best.patch[1] = static_cast<int32_t>(columns);
    best.patches[0] = static_cast<int32_t>(down), best.patches[1] = static_cast<int32_t>(across);
    best.pitch = static_cast<int32_t>(pitch);
    best.positions = static_cast<int32_t>((rows + reach_h) * pitch);
    if (across > 64) break;
  }
  return best;
}

// ---------------------------------------------------------------- launch

namespace {
using Kernel = void (*)(HaloProduct);
// What a kernel of so many steps is launched with.
struct Way {
  Kernel f16[2], bf16[2]; // the second of weights across
  int bytes;
};
template <int Steps>
constexpr Way way() {
  return {{multiply_patches<__half, Steps, false>, multiply_patches<__half, Steps, true>},
          {multiply_patches<__nv_bfloat16, Steps, false>, multiply_patches<__nv_bfloat16, Steps, true>},
          HaloMemory<Steps>::bytes};
}
const Way &way_of(const HaloProduct &p) {
  static constexpr Way ways[] = {way<1>(), way<2>(), way<3>(), way<4>()};
  return ways[p.steps - 1];
}
Kernel kernel_of(const HaloProduct &p, bool bf16, bool across) {
  return (bf16 ? way_of(p).bf16 : way_of(p).f16)[across ? 1 : 0];
}
} // namespace

void prepare_halo(const HaloProduct &p, bool bf16, bool across) {
  allow_shared(kernel_of(p, bf16, across), way_of(p).bytes);
}

void launch_halo(const HaloProduct &p, bool bf16, bool across, int multiprocessors, cudaStream_t stream) {
  const int32_t streams = std::min(p.count, std::max(1, multiprocessors / p.channel_tiles));
  const auto blocks = static_cast<unsigned>(streams * p.channel_tiles);
  launch_early(kernel_of(p, bf16, across), blocks, kThreads, way_of(p).bytes, stream, p);
}

} // namespace polyconv::cuda::wgmma
