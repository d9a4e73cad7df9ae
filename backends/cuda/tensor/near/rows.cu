// rows.cu - large layers on Hopper's tensor cores with fewer bytes from the second cache. What ends their speed
// is power, of which fetches take a quarter. A tile is some whole rows of an image by 128 channels. Of 64 input
// channels, its rows and those above and below come once for each column of the window; what another row of the window
// reads is the same memory one row of the image further, which a product's descriptor can say. Two blocks of a cluster,
// with neighbouring channels of the same rows, fetch half of them each, for both. Weights come tap by tap. As in
// wgmma/turned.cuh, channels are the rows of products and pixels their columns.
//
// The second warpgroup is a tap or two behind the first one, so that one multiplies while the sums of the other leave.
// They leave by way of the same memory.
//
// Floor: 2 N K P Q C R S at the rate of the tensor cores. A tile of 224 x 128 and a 3 x 3 window gets 30 KiB a tap for
// 896 clocks of products, 23 of them from the second cache.
// SPDX-License-Identifier: Apache-2.0
#include "common/machine.hpp"
#include "near/rows.hpp"

#include "common/numbers.hpp"
#include "common/pipeline.cuh"
#include "common/ptx/cluster.cuh"
#include "common/ptx/hopper.cuh"
#include "wgmma/turned.cuh"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kGroups = 2, kThreads = 128 * (kGroups + 1);
constexpr int kBarrierBytes = 256;

// ---------------------------------------------------------------- rings

using Slots = Pipeline<>;

// This warp has read the slot before; `shared`: which both blocks of the cluster want to know.
__device__ inline void release_before(const Slots &slots, bool shared) {
  const uint32_t empty = slots.empty_before(), lane = threadIdx.x % 32;
  if (shared && lane < 2) ptx::arrive_in_cluster(ptx::address_in_cluster(empty, static_cast<int32_t>(lane)));
  if (!shared && lane == 0) ptx::barrier_arrive(empty);
}

// Where everything lies in shared memory.
struct RowsRoom {
  uint32_t leaving, patches, weights, barriers;

  __device__ RowsRoom(const RowsProduct &p, uint32_t shared) : leaving(shared) {
    patches = leaving + p.columns * 128, weights = patches + p.patch_slots * p.patch_slot;
    barriers = weights + kGroups * p.stages * kRowsTapBytes;
  }
  __device__ Slots patch_slots(const RowsProduct &p) const {
    return Slots(patches, barriers, p.patch_slots, p.patch_slot);
  }
  __device__ Slots weight_slots(const RowsProduct &p, int group) const {
    const uint32_t before = group * p.stages;
    return Slots(weights + before * kRowsTapBytes, barriers + 16 * (p.patch_slots + before), p.stages, kRowsTapBytes);
  }
  // At which a warpgroup tells that it has begun a tile, and that the sums of its last one have left.
  __device__ uint32_t begun(const RowsProduct &p, int group) const {
    return barriers + 16 * (p.patch_slots + kGroups * p.stages) + 8 * group;
  }
};

// ---------------------------------------------------------------- the producer

// The tile of a turn; neighbours share rows.
struct RowsTile {
  int32_t image, h, channel;

  __device__ static bool is_last(const RowsProduct &p, int32_t turn) { return p.last.rows > 0 && turn >= p.last.turn; }

  __device__ RowsTile(const RowsProduct &p, int32_t turn) {
    const bool last = is_last(p, turn);
    if (last) turn -= p.last.turn;
    int32_t band = turn / p.channel_tiles;
    channel = (turn - band * p.channel_tiles) * kRowsChannels;
    if (!last) {
      image = band / p.bands, h = (band - image * p.bands) * p.rows;
    } else if (band < p.last.first_bands) {
      image = p.last.image, h = p.last.h + band * p.last.rows;
    } else {
      band -= p.last.first_bands;
      image = band / p.last.bands, h = (band - image * p.last.bands) * p.last.rows;
      image += p.last.image + 1;
    }
  }
};

__device__ inline void fetch_patches(const RowsProduct &p, const RowsTile &tile, Slots &slots) {
  const int32_t half = p.shared ? static_cast<int32_t>(blockIdx.x % 2) : 0;
  const int32_t h = tile.h - p.pad[0] + half * (p.patch_rows / 2);
  for (int32_t block = 0; block < p.depth_blocks; ++block)
#pragma unroll 1
    for (int32_t column = 0; column < p.taps[1]; ++column, slots.next()) {
      const int32_t w = column * p.dilation[1] - p.pad[1];
      const uint32_t to = slots.memory() + half * (p.patch_bytes / 2);
      slots.await_empty();
      ptx::barrier_expect(slots.full(), p.patch_bytes);
      if (p.shared)
        ptx::load_box_for(to, &p.input, slots.full(), block * 64, w, h, tile.image, 3);
      else
        ptx::load_box(to, &p.input, slots.full(), block * 64, w, h, tile.image);
    }
}

__device__ inline void fetch_weights(const RowsProduct &p, const RowsTile &tile, int group, Slots &slots) {
  for (int32_t block = 0; block < p.depth_blocks; ++block)
    for (int32_t column = 0; column < p.taps[1]; ++column)
#pragma unroll 1
      for (int32_t row = 0; row < p.taps[0]; ++row, slots.next()) {
        slots.await_empty();
        ptx::barrier_expect(slots.full(), kRowsTapBytes);
        ptx::load_box(slots.memory(), &p.weights, slots.full(), block * 64, row * p.taps[1] + column,
                      tile.channel + group * 64);
      }
}

// ---------------------------------------------------------------- the consumers

// This warpgroup has begun a tile, or has no more; the TMA has read what its last one left.
__device__ inline void tell_begun(uint32_t barrier) {
  if (threadIdx.x % 128 == 0) ptx::stores_read<0>();
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(barrier);
}

template <class T, int N>
__device__ inline void sum_up(float (&sums)[N / 2], const RowsProduct &p, Slots &patches, Slots &weights,
                              uint32_t begun) {
  const int32_t count = p.depth_blocks * p.taps[1], down = p.dilation[0] * p.pitch * 128;
#pragma unroll 1
  for (int32_t patch = 0; patch < count; ++patch, patches.next()) {
    patches.await_full();
    uint32_t rows = patches.memory();
#pragma unroll 1
    for (int32_t tap = 0; tap < p.taps[0]; ++tap, rows += down, weights.next()) {
      weights.await_full();
      const uint64_t a = ptx::matrix_descriptor(weights.memory()), b = ptx::matrix_descriptor(rows);
      ptx::products_fence();
#pragma unroll
      for (int k = 0; k < 4; ++k) ptx::multiply<T, N>(sums, a + k * 2, b + k * 2, k > 0 || tap > 0 || patch > 0);
      ptx::products_commit();
      ptx::products_wait<1>(); // the products of the tap before are done
      if (tap > 0 || patch > 0) weights.release_before();
      if (tap == 0 && patch > 0) release_before(patches, p.shared);
      if (tap == 1 && patch == 0) tell_begun(begun);
    }
  }
  ptx::products_wait<0>();
  weights.release_before(), release_before(patches, p.shared);
}

template <class T, int N>
__device__ inline void leave(const RowsProduct &p, const float (&sums)[N / 2], const RowsTile &tile, int group,
                             uint32_t memory, const CUtensorMap *map) {
  const int32_t channel = tile.channel + group * 64;
  float bias[2];
  turned_bias(p.bias, channel, p.channels, bias);
  put_turned<T, N>(sums, bias, p.relu != 0, memory);
  ptx::fence_for_tma();
  ptx::meet(group + 1, 128);
  if (threadIdx.x % 128 != 0 || channel >= p.channels) return;
  ptx::store_box(map, memory, channel, 0, tile.h, tile.image);
  ptx::stores_commit();
}

// ---------------------------------------------------------------- the kernel

template <class T, int N>
__device__ inline void multiply_group(const RowsProduct &p, const RowsRoom &room, int group) {
  Slots patches = room.patch_slots(p), weights = room.weight_slots(p, group);
  const uint32_t mine = room.begun(p, group), other = room.begun(p, 1 - group);
  const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
  uint32_t number = 0; // of tiles
  if (group == 1) ptx::barrier_wait(other, 0);
  const auto multiply = [&](auto &sums, int32_t i, const CUtensorMap *map) {
    constexpr int kColumns = sizeof sums / sizeof *sums * 2;
    sum_up<T, kColumns>(sums, p, patches, weights, mine);
    // The first warpgroup's sums leave when the second one has begun the tile; the second one's, when the first has
    // begun the next tile.
    ptx::barrier_wait(other, (number + group) & 1);
    leave<T, kColumns>(p, sums, RowsTile(p, i), group, room.leaving, map);
  };
  int32_t i = begin;
  for (; i < p.turns && !RowsTile::is_last(p, i); i += step, ++number) {
    float sums[N / 2];
    multiply(sums, i, &p.results);
  }
  if (i < p.turns) {
    float sums[kRowsLastColumns / 2];
    multiply(sums, i, &p.last_results);
  }
  if (group == 0)
    tell_begun(mine);
  else if (threadIdx.x % 128 == 0)
    ptx::stores_read<0>();
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads, 1) multiply_rows(const __grid_constant__ RowsProduct p) {
  extern __shared__ unsigned char unaligned[];
  const RowsRoom room(p, (ptx::shared_address(unaligned) + 1023) / 1024 * 1024); // swizzled memory begins at 1024 bytes
  const auto group = static_cast<int>(warp_in_block() / 4);
  if (threadIdx.x == 0) {
    room.patch_slots(p).init(1, 4 * (p.shared ? 2 * kGroups : kGroups));
    for (int g = 0; g < kGroups; ++g) room.weight_slots(p, g).init(1, 4), ptx::barrier_init(room.begun(p, g), 4);
    ptx::barrier_init_fence();
  }
  if (threadIdx.x == 32) ptx::prefetch(&p.input), ptx::prefetch(&p.weights), ptx::prefetch(&p.results);
  if (p.shared) ptx::cluster_arrive(), ptx::cluster_wait();
  __syncthreads();
  ptx::let_next_begin();
  if (group == kGroups) {
    ptx::release_registers<40>();
    const auto warp = static_cast<int>(warp_in_block() % 4);
    const auto begin = static_cast<int32_t>(blockIdx.x), step = static_cast<int32_t>(gridDim.x);
    if (threadIdx.x % 32 != 0 || warp > kGroups) return;
    Slots slots = warp < kGroups ? room.weight_slots(p, warp) : room.patch_slots(p);
    if (warp == kGroups || p.new_weights) ptx::await_previous(); // as in wgmma/product.cuh
    for (int32_t i = begin; i < p.turns; i += step) {
      if (warp == kGroups)
        fetch_patches(p, RowsTile(p, i), slots);
      else
        fetch_weights(p, RowsTile(p, i), warp, slots);
    }
  } else {
    ptx::take_registers<232>();
    ptx::await_previous();
    multiply_group<T, N>(p, room, group);
    if (p.shared) ptx::cluster_arrive_released(), ptx::cluster_wait(); // the other block may still arrive here
  }
}

using Kernel = void (*)(RowsProduct);
Kernel kernel_of(const RowsProduct &p, bool bf16) {
  if (p.columns == 224) return bf16 ? multiply_rows<__nv_bfloat16, 224> : multiply_rows<__half, 224>;
  return bf16 ? multiply_rows<__nv_bfloat16, 256> : multiply_rows<__half, 256>;
}

// ---------------------------------------------------------------- launch

// Where the last round of tiles can be one of fewer rows, which every block has one of at most.
void shorten_last(const polyconv_layer &l, int blocks, RowsProduct &p) {
  const int32_t turns = p.pixel_tiles * p.channel_tiles, whole = turns / blocks * blocks;
  const int32_t rows = kRowsLastColumns / p.pitch;
  p.turns = turns;
  if (whole == 0 || whole == turns || whole % p.channel_tiles != 0 || rows < 1 || rows >= p.rows) return;
  RowsProduct::Last last;
  const int32_t band = whole / p.channel_tiles, height = small(l.output.size[3]);
  last.rows = rows, last.turn = whole, last.image = band / p.bands;
  last.h = (band - last.image * p.bands) * p.rows;
  last.first_bands = (height - last.h + rows - 1) / rows, last.bands = (height + rows - 1) / rows;
  const int64_t bands = last.first_bands + (l.output.size[0] - 1 - last.image) * last.bands;
  if (bands * p.channel_tiles > blocks) return;
  p.turns = whole + small(bands * p.channel_tiles), p.last = last;
}

} // namespace

RowsProduct rows_product(const polyconv_layer &l, int columns, int multiprocessors) {
  RowsProduct p;
  const int64_t width = l.output.size[4], height = l.output.size[3];
  const int64_t reach = (l.weights.size[3] - 1) * l.dilation[1];
  if (width > columns || columns / width + reach > 256) return p; // 256: of a box
  p.columns = columns;
  p.pitch = small(width), p.rows = small(std::min(columns / width, height));
  p.patch_rows = p.rows + small(reach), p.patch_bytes = p.patch_rows * p.pitch * 128;
  p.patch_slot = (p.patch_bytes + 1023) / 1024 * 1024;
  p.bands = small(ceil_div(height, p.rows)), p.pixel_tiles = small(l.output.size[0] * p.bands);
  p.channels = small(l.output.size[1]), p.channel_tiles = small(ceil_div(p.channels, kRowsChannels));
  for (int axis = 0; axis < 2; ++axis) {
    p.taps[axis] = small(l.weights.size[3 + axis]), p.dilation[axis] = small(l.dilation[1 + axis]);
    p.pad[axis] = small(l.pad_begin[1 + axis]);
  }
  p.depth_blocks = small(ceil_div(l.weights.size[1], 64));
  constexpr double kLimit = 1 << 30;
  if (!(real(p.pixel_tiles) * real(p.channel_tiles) < kLimit)) return p;
  p.shared = p.channel_tiles % 2 == 0 && p.patch_bytes % 2048 == 0 && p.patch_rows % 2 == 0;
  p.relu = l.epilogue.activation == POLYCONV_ACT_RELU;
  const int most = p.shared ? multiprocessors / 2 * 2 : multiprocessors;
  p.blocks = std::clamp(p.pixel_tiles * p.channel_tiles, 1, most); // an empty batch has no tiles
  shorten_last(l, p.blocks, p);
  for (p.patch_slots = 3; p.patch_slots >= 2; --p.patch_slots) {
    const int stages = (kHopperShared - rows_shared_bytes(p)) / (kGroups * kRowsTapBytes);
    if (stages < 3) continue;
    p.stages = std::min(stages, 6);
    break;
  }
  return p;
}

int rows_shared_bytes(const RowsProduct &p) {
  return 1024 + p.columns * 128 + p.patch_slots * p.patch_slot + kGroups * p.stages * kRowsTapBytes + kBarrierBytes;
}

void prepare_rows(const RowsProduct &p, bool bf16) {
  allow_shared(kernel_of(p, bf16), kHopperShared);
}

void launch_rows(const RowsProduct &p, bool bf16, cudaStream_t stream) {
  launch_clusters(kernel_of(p, bf16), p.shared ? 2 : 1, static_cast<unsigned>(p.blocks), kThreads, rows_shared_bytes(p),
                  stream, p);
}

} // namespace polyconv::cuda::wgmma
