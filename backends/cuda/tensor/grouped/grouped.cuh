// grouped.cuh - small groups: a block has the weights of a slice, 64 channels of 16 bits or 32 of TF32, in shared
// memory and goes from patch to patch of the images, halo included, of which the next is copied in while one is
// multiplied. Each warp has pixels of one group. A matrix of the instruction is 16 pixels x 16 bytes of one tap's
// channels, so that groups of 8 channels waste nothing but half of the last instruction where taps are odd. What a
// position, pixel or chunk of k adds to an address is the same in every patch, and comes from tables.
//
// Shared memory is what holds this back: each tap reads the patch again. With 3 x 3 taps a step apart and groups of 16
// or 32 bytes, warps march down the patch instead: they keep 16 pixels' windows of three rows in registers, and load
// one row for each row of results. Sums have the same order, so the same bits.
//
// Groups of 4 channels of 16 bits come in pairs, each a group of 8 whose weights are zero where one group's channels
// meet the other's filters. Such a zero makes NaN of the other group's Inf or NaN; pixels with sums that are not finite
// are therefore summed again, each group without the activations of the other. Groups of 4 channels of TF32 fill 16
// bytes, and half of the channels of an instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/grid.cuh"
#include "grouped/patch.cuh"

namespace polyconv::cuda::tensor {

// The sums of a warp: 16 pixels of one group, which has so many channels out.
template <int Out>
using GroupSums = float[(Out + 7) / 8][4];

// Whether the lane's channels of the instruction are a group's: of 4 channels, it has 8.
template <int Out>
__device__ inline bool has_channels() {
  return Out >= 8 || static_cast<int>(threadIdx.x) % 4 * 2 < Out;
}

// Whether any lane has a sum that is not finite.
template <int Out>
__device__ inline bool any_infinite(const GroupSums<Out> &sums) {
  bool finite = true;
#pragma unroll
  for (int j = 0; j < Out / 8; ++j)
#pragma unroll
    for (int e = 0; e < 4; ++e) finite = finite && fabsf(sums[j][e]) < INFINITY;
  return __any_sync(~0u, !finite);
}

// The sums of a pair of groups anew: lanes that have the sums of one group take them from a pass without the other's
// activations, which come to lanes in the same order. pass(part, keep) sums with `keep` as a mask of activations.
template <class Pass>
__device__ inline void sum_apart(GroupSums<8> &sums, const Pass &pass) {
#pragma unroll 1
  for (int group = 0; group < 2; ++group) {
    const bool mine = static_cast<int>(threadIdx.x) % 4 / 2 == group;
    GroupSums<8> part[1] = {};
    pass(part, mine ? ~0u : 0u);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (mine) sums[0][e] = part[0][0][e];
  }
}

// The lane's biases. What changes no sum, where there are none.
template <int Out>
struct GroupBias {
  float2 pair[(Out + 7) / 8];

  // `channel`: of the lane's first pair.
  __device__ GroupBias(const float *bias, int channel) {
#pragma unroll
    for (int j = 0; j < (Out + 7) / 8; ++j)
      pair[j] = bias != nullptr && has_channels<Out>() ? make_float2(bias[channel + j * 8], bias[channel + j * 8 + 1])
                                                       : make_float2(-0.0f, -0.0f);
  }
};

// A pair of results into shared memory.
template <class T>
__device__ inline void stage_pair(unsigned char *to, float a, float b) {
  if constexpr (sizeof(T) == 4)
    *reinterpret_cast<float2 *>(to) = make_float2(a, b);
  else
    *reinterpret_cast<uint32_t *>(to) = pair_of(a, b, T());
}

// Bias and relu, and 16 pixels into shared memory as the result's rows, of which `left` are there. `to`: of the first
// pixel and the lane's first channel.
template <class G>
__device__ inline void stage_group(const GroupSums<G::out> &sums, const GroupBias<G::out> &bias, int32_t relu,
                                   unsigned char *to, int left) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4;
  if (!has_channels<G::out>()) return;
#pragma unroll
  for (int j = 0; j < G::tiles; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float a = __fadd_rn(sums[j][i * 2], bias.pair[j].x), b = __fadd_rn(sums[j][i * 2 + 1], bias.pair[j].y);
      if (relu && a < 0) a = 0;
      if (relu && b < 0) b = 0;
      if (row + i * 8 < left) stage_pair<typename G::T>(to + (row + i * 8) * G::out_position + j * 8 * G::bytes, a, b);
    }
}

// ---------------------------------------------------------------- any window

// 16 Count pixels of a patch. `patch` and `weights`: of the group, in shared memory. With `Some`, of the activations
// only those bits that are in `keep`.
template <class G, bool Some, int Count>
__device__ inline void sum_group(GroupSums<G::out> (&sums)[Count], const GroupedProduct &p, const GroupedRoom<G> &room,
                                 uint32_t patch, uint32_t weights, int first_pixel, uint32_t keep) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto zeros = static_cast<uint32_t>(__cvta_generic_to_shared(room.zeros));
  uint32_t begin[Count]; // of the windows of the lane's pixels
#pragma unroll
  for (int i = 0; i < Count; ++i) // beyond the last pixel: a copy, not stored
    begin[i] = patch + room.windows[min(first_pixel + i * 16 + lane % 16, p.tile_pixels() - 1)];
  weights += slot(lane % 8, lane / 8);
  const int32_t *shift = room.shifts + lane / 16;
#pragma unroll 2
  for (int left = p.chunks; left > 0; left -= kBlockChunks) {
    uint32_t b[G::tiles][4];
#pragma unroll
    for (int j = 0; j < G::tiles; ++j) load_matrices(b[j], weights + j * 8 * kRow);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (left <= 2 * step) break;
      const bool there = left - lane / 16 > 2 * step; // else zeros, where chunks are odd
      const uint32_t from = there ? shift[2 * step] : 0;
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        uint32_t a[4];
        load_matrices(a, there ? begin[i] + from : zeros);
        round_factors<typename G::T>(a);
        if constexpr (Some) {
#pragma unroll
          for (uint32_t &bits : a) bits &= keep;
        }
#pragma unroll
        for (int j = 0; j < G::tiles; ++j) multiply_add(sums[i][j], a, b[j] + 2 * step, typename G::T());
      }
    }
    weights += G::rows * kRow, shift += kBlockChunks;
  }
}

// A warp's share of a patch: of its units of 16 pixels.
template <class G, bool Pairs = false>
struct AnyWindow {
  static constexpr bool pairs = Pairs;
  uint32_t weights; // of the group, in shared memory

  __device__ explicit AnyWindow(uint32_t of_group) : weights(of_group) {}
  // `results`: of the lane's first channel.
  __device__ void sum(const GroupedProduct &p, const GroupedRoom<G> &room, uint32_t patch, unsigned char *results,
                      const GroupBias<G::out> &bias, int share, int shares) const {
    const int units = (p.tile_pixels() + 15) / 16, last = units * (share + 1) / shares;
    int unit = units * share / shares;
    for (; unit + 1 < last; unit += 2) sum_units<2>(p, room, patch, results, bias, unit * 16);
    if (unit < last) sum_units<1>(p, room, patch, results, bias, unit * 16);
  }

 private:
  // Two units read the weights once for both.
  template <int Count>
  __device__ void sum_units(const GroupedProduct &p, const GroupedRoom<G> &room, uint32_t patch, unsigned char *results,
                            const GroupBias<G::out> &bias, int pixel) const {
    GroupSums<G::out> sums[Count] = {};
    sum_group<G, false>(sums, p, room, patch, weights, pixel, 0);
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const int mine = pixel + i * 16;
      if constexpr (Pairs) {
        if (any_infinite<G::out>(sums[i]))
          sum_apart(sums[i], [&](GroupSums<8>(&part)[1], uint32_t keep) {
            sum_group<G, true>(part, p, room, patch, weights, mine, keep);
          });
      }
      stage_group<G>(sums[i], bias, p.relu, results + mine * G::out_position, p.tile_pixels() - mine);
    }
  }
};

// ---------------------------------------------------------------- 3 x 3, a step apart

template <class G, bool Pairs = false>
struct March {
  static constexpr bool pairs = Pairs;
  static constexpr int kChunks = G::chunks, kRowChunks = 3 * kChunks, kAll = 3 * kRowChunks; // of a tap, row, window
  static constexpr int kBlocks = (kAll + 3) / 4;
  static_assert(kChunks <= 2, "more take more registers than a warp has");

  uint32_t b[kBlocks][G::tiles][4];

  __device__ explicit March(uint32_t weights) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int j = 0; j < G::tiles; ++j)
        load_matrices(b[block][j], weights + (block * G::rows + j * 8) * kRow + slot(lane % 8, lane / 8));
  }

  // The chunks of a row for three taps and 16 pixels; the address is the lane's of the first two.
  using Windows = uint32_t[kRowChunks][2];
  __device__ static void load(Windows &row, uint32_t address) {
#pragma unroll
    for (int q = 0; q + 1 < kRowChunks; q += 2) {
      uint32_t pair[4];
      load_matrices(pair, address + q / kChunks * G::position);
      round_factors<typename G::T>(pair);
      row[q][0] = pair[0], row[q][1] = pair[1], row[q + 1][0] = pair[2], row[q + 1][1] = pair[3];
    }
    if constexpr (kRowChunks % 2 != 0) {
      load_matrices(row[kRowChunks - 1], address + (kRowChunks - 1) * G::position);
      round_factors<typename G::T>(row[kRowChunks - 1]);
    }
  }

  // A row of 16 results from the windows of three rows, the first of which is `first`; with `Some`, only from those
  // bits of activations that are in `keep`.
  template <bool Some>
  __device__ void multiply(GroupSums<G::out> &sums, const Windows (&rows)[3], int first, uint32_t keep) const {
#pragma unroll
    for (int q = 0; q < kAll; q += 2) {
      const uint32_t *low = rows[(first + q / kRowChunks) % 3][q % kRowChunks];
      const uint32_t *high = rows[(first + (q + 1) / kRowChunks) % 3][(q + 1) % kRowChunks];
      const bool odd = q + 1 == kAll;
      uint32_t a[4] = {low[0], low[1], odd ? 0 : high[0], odd ? 0 : high[1]};
      if constexpr (Some) {
#pragma unroll
        for (uint32_t &bits : a) bits &= keep;
      }
#pragma unroll
      for (int j = 0; j < G::tiles; ++j) multiply_add(sums[j], a, b[q / 4][j] + q % 4, typename G::T());
    }
  }

  __device__ void sum(const GroupedProduct &p, const GroupedRoom<G> &, uint32_t patch, unsigned char *results,
                      const GroupBias<G::out> &bias, int share, int shares) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, row_bytes = p.row * G::position;
    const int begin = p.tile[0] * share / shares, end = p.tile[0] * (share + 1) / shares;
    const int second = lane / 16 * (kChunks == 1 ? G::position : kChunk); // of two chunks
    for (int x = 0; x < p.tile[1]; x += 16) {
      const int column = min(x + lane % 16, p.tile[1] - 1); // beyond the last: a copy, not stored
      uint32_t address = patch + begin * row_bytes + column * G::position + second;
      Windows rows[3];
      load(rows[0], address), load(rows[1], address + row_bytes);
      address += 2 * row_bytes;
#pragma unroll 1
      for (int y = begin; y < end; y += 3) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
          if (y + i >= end) break;
          load(rows[(i + 2) % 3], address);
          address += row_bytes;
          GroupSums<G::out> sums = {};
          multiply<false>(sums, rows, i, 0);
          if constexpr (Pairs) {
            if (any_infinite<G::out>(sums))
              sum_apart(sums, [&](GroupSums<8>(&part)[1], uint32_t keep) { multiply<true>(part[0], rows, i, keep); });
          }
          stage_group<G>(sums, bias, p.relu, results + ((y + i) * p.tile[1] + x) * G::out_position, p.tile[1] - x);
        }
      }
    }
  }
};

// ---------------------------------------------------------------- the kernel

// What block `block` of `blocks` does of a product.
template <class G, class Way>
__device__ __forceinline__ void convolve_patches(const GroupedProduct &p, int32_t block, int32_t blocks) {
  ptx::await_previous();
  using T = typename G::T;
  extern __shared__ __align__(128) unsigned char shared[];
  const GroupedRoom<G> room(shared, p);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = warp % G::count;
  const int32_t slice = block % p.slices, step = blocks / p.slices;
  int32_t now = block / p.slices;
  const int32_t before = slice * G::slice, channels = p.channels - before;
  const int32_t out_before = slice * G::out_slice, out_channels = p.out_channels - out_before;
  const T *const input = static_cast<const T *>(p.input) + before;
  T *const result = static_cast<T *>(p.result) + out_before;
  const int channel = group * G::out + static_cast<int>(threadIdx.x) % 4 * 2;
  const bool there = group * G::in < channels; // the last slice may have fewer groups
  const GroupBias<G::out> bias(there ? p.bias : nullptr, out_before + channel);

  if constexpr (Way::pairs)
    fill_paired_weights(p, slice, room.weights);
  else
    fill_weights<G>(p, slice, room.weights);
  room.fill(p);
  commit_copies();
  __syncthreads();
  fetch_patch(p, input, channels, Patch(p, now), room, room.patches);
  commit_copies();
  await_groups<1>();
  __syncthreads();
  const Way way(static_cast<uint32_t>(__cvta_generic_to_shared(room.weights)) +
                static_cast<uint32_t>(group * p.blocks() * G::rows * kRow));

  const auto patches = static_cast<uint32_t>(__cvta_generic_to_shared(room.patches)) + group * G::in * G::bytes;
  const uint32_t patch_bytes = p.positions() * G::position;
  uint32_t place = 0; // of the patch that is multiplied
  for (; now < p.patches; now += step, place = patch_bytes - place) {
    if (now + step < p.patches)
      fetch_patch(p, input, channels, Patch(p, now + step), room, room.patches + (patch_bytes - place));
    commit_copies();
    await_groups<1>();
    __syncthreads();
    if (there) way.sum(p, room, patches + place, room.results + channel * G::bytes, bias, warp / G::count, G::shares);
    __syncthreads();
    store_patch(p, result, out_channels, Patch(p, now), room);
  }
}

template <class G, class Way>
__global__ void __launch_bounds__(kGroupedThreads, blocks_together(G::in, G::out, G::bytes))
    convolve_groups(const __grid_constant__ GroupedProduct p) {
  convolve_patches<G, Way>(p, static_cast<int32_t>(blockIdx.x), static_cast<int32_t>(gridDim.x));
}

// make(groups, pairs): a kernel for groups of so many channels, of 4 of 16 bits in pairs; NULL where none takes them.
template <class T, class Make>
auto of_groups(int64_t in, int64_t out, const Make &make) -> decltype(make(Groups<T, 8, 8>(), std::false_type())) {
  const auto is = [&](int64_t of_input, int64_t of_result) { return in == of_input && out == of_result; };
  constexpr std::false_type kAlone;
  using Pairs = std::bool_constant<sizeof(T) == 2>;
  if (is(4, 4)) return make(std::conditional_t<Pairs::value, Groups<T, 8, 8>, Groups<T, 4, 4>>(), Pairs());
  if (is(8, 8)) return make(Groups<T, 8, 8>(), kAlone);
  if (is(8, 16)) return make(Groups<T, 8, 16>(), kAlone);
  if (is(16, 8)) return make(Groups<T, 16, 8>(), kAlone);
  if (is(16, 16)) return make(Groups<T, 16, 16>(), kAlone);
  if (is(24, 24)) return make(Groups<T, 24, 24>(), kAlone);
  return is(32, 32) ? make(Groups<T, 32, 32>(), kAlone) : nullptr;
}
// Likewise for a layer.
template <class Make>
auto of_groups(const polyconv_layer &l, const Make &make) {
  const int64_t in = l.weights.size[1], out = l.output.size[1] / l.groups;
  switch (l.input.type) {
    case POLYCONV_F16: return of_groups<__half>(in, out, make);
    case POLYCONV_BF16: return of_groups<__nv_bfloat16>(in, out, make);
    default: return of_groups<float>(in, out, make);
  }
}

// Several products, each with blocks of its own.
template <class G, class Way>
__global__ void __launch_bounds__(kGroupedThreads, blocks_together(G::in, G::out, G::bytes))
    convolve_parts(const __grid_constant__ GroupedParts all) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  int32_t which = 0, before = 0;
#pragma unroll
  for (int i = 0; i < kMostGroupedParts - 1; ++i)
    if (i < all.parts - 1 && block >= all.end[i]) which = i + 1, before = all.end[i];
  convolve_patches<G, Way>(all.part[which], block - before, all.end[which] - before);
}

} // namespace polyconv::cuda::tensor
