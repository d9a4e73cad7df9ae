// tracks.cuh - up to 16 channels on warpgroup products: each input row is loaded into registers once and
// multiplied with all rows of taps that see it.
//
// A track is an output column of three neighbouring output rows. Its windows are rows of the product: the first
// operand, all channels of a row of taps as they lie in shared memory, channels last. The second operand is the weights
// of one, two or three rows of taps, those that the three output rows have for this input row: neighbours in shared
// memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/runs.cuh"

namespace polyconv::cuda::banded {

inline constexpr int kTeams = 2, kTeamTracks = 64; // warpgroups that multiply; rows of their products
inline constexpr int kTrackHelpers = 8;            // warps: one stores, the rest load
inline constexpr int kTrackThreads = (kTeams * 4 + kTrackHelpers) * 32;
inline constexpr int kTrackRows = 3;

// Where a thread's two tracks are.
struct Track {
  int32_t row, column; // in the band, of the first output
  bool exists;

  __device__ __forceinline__ Track(const Geometry &g, int32_t track) {
    const int32_t all = g.stretches * g.positions, stretch = quotient(g.magic, min(track, all - 1));
    row = stretch * kTrackRows;
    column = min(track, all - 1) - stretch * g.positions;
    exists = track < all;
  }
};

// A part of an input row of a thread's two tracks as first operands: lane t of a quad has words 2 t and 2 t + 1 of 8.
// Of the last `mine` is how many the lane has; the others are zero.
template <int steps>
__device__ __forceinline__ void load_windows(uint32_t (&a)[steps][4], uint32_t upper, uint32_t lower, int32_t mine) {
#pragma unroll
  for (int j = 0; j < steps; ++j) {
    uint32_t words[4] = {};
    if (j < steps - 4 || j < mine) {
      const uint2 above = ptx::load_words(upper + j * 32), below = ptx::load_words(lower + j * 32);
      words[0] = above.x, words[2] = above.y, words[1] = below.x, words[3] = below.y;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) a[j][i] = words[i];
  }
}

// The products of a tile: 64 tracks with a group's filters, `steps` for each of the parts of a row of taps.
template <class T, int steps, int filters, int parts>
class TrackProducts {
 public:
  float sums[kTrackRows][filters / 2]; // of a thread

  __device__ __forceinline__ TrackProducts(const Geometry &g, uint32_t weights, uint32_t upper, uint32_t lower)
      : weights_(ptx::plain_descriptor(weights, g.taps_h * filters * 16)),
        step_(2 * g.taps_h * filters),
        pitch_(g.pitch * g.plane * static_cast<int32_t>(sizeof(T))),
        upper_(upper),
        lower_(lower),
        mine_((g.taps_w * g.plane * static_cast<int32_t>(sizeof(T)) / 8 - static_cast<int32_t>(threadIdx.x) % 4 + 3) /
              4) {}

  // What the sums begin with; `exist`: filters of the group.
  __device__ __forceinline__ void begin(const float *bias, int32_t exist) {
#pragma unroll
    for (int i = 0; i < filters / 4; ++i) {
      const int32_t k = i / 2 * 8 + static_cast<int32_t>(threadIdx.x) % 4 * 2 + i % 2;
      const float v = bias != nullptr && k < exist ? __ldg(bias + k) : 0.0f;
#pragma unroll
      for (int row = 0; row < kTrackRows; ++row) sums[row][i / 2 * 4 + i % 2] = sums[row][i / 2 * 4 + 2 + i % 2] = v;
    }
  }

  // Rows of taps lie from the last to the first, so that those of neighbouring output rows follow each other. There are
  // three at least, and an odd number where a row is one part.
  __device__ __forceinline__ void multiply(const Geometry &g) {
    uint32_t even[steps][4], odd[steps][4];
    const int32_t taps = g.taps_h;
    settle();
    load<0>(even);
    if constexpr (parts == 1) {
      multiply_part<0, 1, 0>(even, taps - 1, odd);
      multiply_part<0, 2, 0>(odd, taps - 2, even);
      for (int32_t h = 2;; h += 2) {
        multiply_part<0, 3, 0>(even, taps - 1 - h, odd);
        if (h + 1 >= taps) break;
        multiply_part<0, 3, 0>(odd, taps - 2 - h, even);
      }
      multiply_part<1, 2, 0>(odd, 0, even);
      multiply_part<2, 1, 0, false>(even, 0, odd);
    } else {
      multiply_row<0, 1>(even, taps - 1, odd);
      multiply_row<0, 2>(even, taps - 2, odd);
      int32_t tap = taps - 3;
      do multiply_row<0, 3>(even, tap, odd);
      while (--tap >= 0);
      multiply_row<1, 2>(even, 0, odd);
      multiply_row<2, 1, false>(even, 0, odd);
    }
    settle();
  }

  // One of the thread's tracks to where results wait: of each eight filters two neighbours.
  __device__ __forceinline__ void leave(const Geometry &g, T *to, const Track &track, int half, int32_t rows,
                                        int32_t exist) const {
    const int32_t k = static_cast<int32_t>(threadIdx.x) % 4 * 2;
    T *at = to + k * g.waiting + track.row * g.output_w + track.column;
#pragma unroll
    for (int row = 0; row < kTrackRows; ++row, at += g.output_w) {
      if (!track.exists || track.row + row >= rows) break;
#pragma unroll
      for (int i = 0; i < filters / 4; ++i) {
        const float v = sums[row][i / 2 * 4 + half * 2 + i % 2];
        const int32_t beyond = i / 2 * 8 + i % 2;
        if (k + beyond < exist) at[beyond * g.waiting] = static_cast<T>(g.relu && v < 0 ? 0.0f : v);
      }
    }
  }

 private:
  // Nothing else defines or uses sums between here and there, or the compiler takes products one by one.
  __device__ __forceinline__ void settle() {
#pragma unroll
    for (int i = 0; i < kTrackRows * filters / 2; ++i)
      asm volatile("" : "+f"(sums[i / (filters / 2)][i % (filters / 2)])::"memory");
  }
  template <int part>
  __device__ __forceinline__ void load(uint32_t (&a)[steps][4]) {
    load_windows<steps>(a, upper_ + part * steps * 32, lower_ + part * steps * 32, mine_ - part * steps);
    if (part + 1 == parts) upper_ += pitch_, lower_ += pitch_;
  }
  // A part of an input row with `count` rows of taps, for output rows from `first` on; meanwhile what follows is
  // loaded.
  template <int first, int count, int part, bool more = true>
  __device__ __forceinline__ void multiply_part(uint32_t (&a)[steps][4], int32_t tap, uint32_t (&after)[steps][4]) {
    const uint64_t b = weights_ + static_cast<uint64_t>(tap * filters + part * steps * step_);
    ptx::products_fence();
#pragma unroll
    for (int j = 0; j < steps; ++j)
#pragma unroll
      for (int row = 0; row < count; ++row)
        ptx::multiply_held<T, filters>(sums[first + row], a[j], b + static_cast<uint64_t>(j * step_ + row * filters),
                                       1);
    ptx::products_commit();
    if (parts > 1) ptx::products_wait<0>(); // or ptxas takes these products one by one
    if (more) load<(part + 1) % parts>(after);
    if (parts == 1) ptx::products_wait<0>();
  }
  template <int first, int count, bool more = true>
  __device__ __forceinline__ void multiply_row(uint32_t (&even)[steps][4], int32_t tap, uint32_t (&odd)[steps][4]) {
    multiply_part<first, count, 0>(even, tap, odd);
    multiply_part<first, count, 1, more>(odd, tap, even);
  }

  const uint64_t weights_; // of the first product; the next are `step_` further, in 16 bytes
  const int32_t step_, pitch_;
  uint32_t upper_, lower_;
  const int32_t mine_; // products in which the lane has elements
};

// The same, but the compiler does not know: what follows from it is worked out when it is wanted, and no registers hold
// it until then.
__device__ __forceinline__ int32_t work_out_again(int32_t v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Warpgroups take the tiles of the block's bands in turn.
template <class T, int steps, int filters, int parts>
__device__ __forceinline__ void multiply_tiles(const Geometry &g, const Pointers &p, const Rings &rings,
                                               uint32_t weights, char *inputs, char *outputs, int32_t team) {
  constexpr auto kSize = static_cast<int32_t>(sizeof(T));
  const int32_t thread = static_cast<int32_t>(threadIdx.x) % 128, lane = thread % 32;
  const int32_t group = static_cast<int32_t>(blockIdx.x) % g.groups, first = group * filters;
  int32_t tile = team;
  Turn input, output;
  for (int32_t number = static_cast<int32_t>(blockIdx.x) / g.groups; number < g.bands;
       number += static_cast<int32_t>(gridDim.x) / g.groups) {
    for (; tile < g.tiles; tile += kTeams) {
      int32_t track = tile * kTeamTracks + thread / 32 * 16 + lane / 4;
      const Track upper(g, track), lower(g, track + 8);
      const uint32_t stage = ptx::shared_address(inputs) + input.stage * g.input_stage * kSize + lane % 4 * 8;
      TrackProducts<T, steps, filters, parts> products(
          g, weights, stage + (upper.row * g.pitch + upper.column * g.step_w) * g.plane * kSize,
          stage + (lower.row * g.pitch + lower.column * g.step_w) * g.plane * kSize);
      products.begin(p.bias == nullptr ? nullptr : p.bias + first, g.filters - first);
      ptx::barrier_wait(rings.input_full(input.stage), input.phase);
      products.multiply(g);
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(rings.input_empty(input.stage));

      ptx::barrier_wait(rings.output_empty(output.stage), output.phase ^ 1);
      const Band band(g, work_out_again(number));
      track = work_out_again(track);
      auto *const to =
          reinterpret_cast<T *>(outputs + output.stage * g.output_stage + output_skew(g, p, band, first, kSize));
      products.leave(g, to, Track(g, track), 0, band.rows, g.filters - first);
      products.leave(g, to, Track(g, track + 8), 1, band.rows, g.filters - first);
      ptx::fence_for_tma();
      __syncwarp();
      if (lane == 0) ptx::barrier_arrive(rings.output_full(output.stage));
    }
    tile -= g.tiles;
    input.advance(g.input_stages);
    output.advance(g.output_stages);
  }
}

// Elements as products take them: f32 is rounded to TF32.
__device__ __forceinline__ uint16_t as_factor(uint16_t element) {
  return element;
}
__device__ __forceinline__ float as_factor(float element) {
  return ptx::nearest_tf32(element);
}

// Warps bring a band into shared memory, channels last and with its padding, 8 bytes of a pixel at once. What lies
// outside is read from somewhere inside, for loads without branches follow each other at once.
template <class E>
__device__ inline void load_pixels(const Geometry &g, const Pointers &p, const Band &b, char *to, int32_t thread,
                                   int32_t threads) {
  constexpr int kAtOnce = 5, kUnit = 8 / sizeof(E); // pixels of a thread, elements
  const auto *const image = static_cast<const E *>(p.x) + b.image * g.x_image;
  const int32_t pixels = (g.stretches * kTrackRows + g.taps_h - 1) * g.pitch, width = g.input_row / g.inner;
  const int32_t plane = g.x_plane;
  for (int32_t first = thread; first < pixels; first += kAtOnce * threads) {
    int32_t at[kAtOnce];
    bool inside[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int32_t pixel = first + i * threads, row = pixel / g.pitch, h = row + b.first_row - g.pad_h,
                    w = pixel - row * g.pitch - g.pad_w;
      inside[i] = h >= 0 && h < g.input_h && w >= 0 && w < width;
      at[i] = inside[i] ? h * g.x_row + w * g.x_column : 0;
    }
    for (int32_t c = 0; c < g.plane; c += kUnit) {
      union {
        uint2 unit;
        E elements[kUnit];
      } loaded[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce * kUnit; ++i)
        loaded[i / kUnit].elements[i % kUnit] =
            as_factor(__ldg(image + (at[i / kUnit] + min(c + i % kUnit, g.channels - 1) * plane)));
#pragma unroll
      for (int i = 0; i < kAtOnce * kUnit; ++i)
        if (!inside[i / kUnit] || c + i % kUnit >= g.channels) loaded[i / kUnit].elements[i % kUnit] = 0;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (first + i * threads < pixels)
          *reinterpret_cast<uint2 *>(to + ((first + i * threads) * g.plane + c) * static_cast<int32_t>(sizeof(E))) =
              loaded[i].unit;
    }
  }
}

template <class E>
__device__ inline void load_tracks(const Geometry &g, const Pointers &p, const Rings &rings, char *inputs,
                                   int32_t thread) {
  Turn turn;
  for (int32_t number = static_cast<int32_t>(blockIdx.x) / g.groups; number < g.bands;
       number += static_cast<int32_t>(gridDim.x) / g.groups) {
    ptx::barrier_wait(rings.input_empty(turn.stage), turn.phase ^ 1);
    load_pixels<E>(g, p, Band(g, number), inputs + turn.stage * g.input_stage * static_cast<int32_t>(sizeof(E)), thread,
                   (kTrackHelpers - 1) * 32);
    ptx::barrier_arrive(rings.input_full(turn.stage));
    turn.advance(g.input_stages);
  }
}

template <class T, int steps, int filters, int parts>
__global__ void __launch_bounds__(kTrackThreads, 1)
    tracks(const __grid_constant__ Geometry g, const __grid_constant__ Pointers p) {
  extern __shared__ __align__(128) char shared[];
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const Rings rings = {ptx::shared_address(shared)};
  const int32_t group = static_cast<int32_t>(blockIdx.x) % g.groups, operands = g.taps_h * filters * steps * parts * 2;
  auto *const weights = reinterpret_cast<uint4 *>(shared + kBarrierBytes);
  char *const inputs = shared + kBarrierBytes + operands * 16, *const outputs =
                                                                   inputs + g.input_stages * g.input_stage *
                                                                                static_cast<int32_t>(sizeof(T));
  if (thread == 0) {
    for (int32_t i = 0; i < kMostStages; ++i) {
      ptx::barrier_init(rings.input_full(i), (kTrackHelpers - 1) * 32);
      ptx::barrier_init(rings.input_empty(i), g.tiles * 4);
      ptx::barrier_init(rings.output_full(i), g.tiles * 4);
      ptx::barrier_init(rings.output_empty(i), 1);
    }
    ptx::barrier_init_fence();
  }
#pragma unroll 4
  for (int32_t i = thread; i < operands; i += kTrackThreads) weights[i] = __ldg(p.weights + group * operands + i);
  ptx::fence_for_tma();
  __syncthreads();
  const int32_t warp = thread / 32 - kTeams * 4;
  if (warp < 0) {
    ptx::take_registers<184>();
    const int32_t team = __shfl_sync(~0u, thread / 128, 0);
    multiply_tiles<T, steps, filters, parts>(g, p, rings, ptx::shared_address(weights), inputs, outputs, team);
    return;
  }
  ptx::release_registers<72>();
  using Element = std::conditional_t<sizeof(T) == 2, uint16_t, float>;
  if (warp == 0)
    store_chunks<Element>(g, p, rings, outputs, group, [&](int32_t i, const Turn &) {
      const int32_t each = static_cast<int32_t>(gridDim.x) / g.groups,
                    number = static_cast<int32_t>(blockIdx.x) / g.groups + i * each;
      return number < g.bands ? Band(g, number) : Band(g, -1, 0);
    });
  else
    load_tracks<Element>(g, p, rings, inputs, thread - (kTeams * 4 + 1) * 32);
}

template <class T, int steps, int filters, int parts>
constexpr Variant track_variant() {
  return {{7, 1, kTrackRows, 16, steps * parts, filters / 8, false},
          parts == 1 ? Way::kTracks : Way::kTracksInParts,
          kTypeOf<T>,
          tracks<T, steps, filters, parts>,
          kTrackThreads,
          1};
}

} // namespace polyconv::cuda::banded
