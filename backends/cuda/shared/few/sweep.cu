// sweep.cu - the kernel of cuda-shared/few (few.hpp): a table of taps and the weights in shared memory, then tile
// after tile of pixels, whose inputs go from the first cache into registers a tap ahead of their products.
// SPDX-License-Identifier: Apache-2.0
#include "few/few.hpp"

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/ptx/async.cuh"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda::shared {
namespace {

// Channels outside, then taps; behind the last, taps that are nowhere.
__device__ inline void describe_taps(const Conv<int32_t> &p, const Few &s, FewTap *table) {
  const int32_t per_channel = s.axes.taps[0] * s.axes.taps[1] * s.axes.taps[2];
  for (auto k = static_cast<int32_t>(threadIdx.x); k < s.taps + kFewAhead; k += static_cast<int32_t>(blockDim.x)) {
    const int32_t c = k / per_channel, tap = k - c * per_channel, line = tap / s.axes.taps[2];
    const int32_t d = line / s.axes.taps[1], h = line - d * s.axes.taps[1], w = tap - line * s.axes.taps[2];
    const bool there = k < s.depth;
    table[k].distance = !there ? 0
                               : c * p.input.stride[1] + d * p.dilation[0] * p.input.stride[2] +
                                     h * p.dilation[1] * p.input.stride[3] + w * p.dilation[2] * p.input.stride[4];
    table[k].places = there ? s.axes.of(d, h, w) : kNowhere;
    table[k].weights = there ? p.weights.at(0, c, d, h, w) : 0;
  }
}

// [tap][filter of the block], then a bias each; zeros where there is no such tap or filter. A thread keeps to its
// filter.
__device__ inline void stage_filters(const Conv<int32_t> &p, const Few &s, const FewTap *table, const float *w,
                                     int32_t first, float *staged) {
  const int32_t width = s.filters(), filter = static_cast<int32_t>(threadIdx.x) % width;
  const bool there = first + filter < p.weights.size[0];
  const float *const from = w + (there ? (first + filter) * p.weights.stride[0] : 0);
  const int32_t step = static_cast<int32_t>(blockDim.x) / width;
#pragma unroll 4
  for (int32_t k = static_cast<int32_t>(threadIdx.x) / width; k < s.taps; k += step)
    copy_async<4>(staged + k * width + filter, from + table[k].weights, there && k < s.depth);
  const auto *const bias = static_cast<const float *>(p.epilogue.bias);
  if (static_cast<int32_t>(threadIdx.x) < width)
    staged[s.taps * width + filter] = s.plain != 0 && bias != nullptr && there ? bias[first + filter] : 0;
}

__device__ inline Place<int32_t> place_of(const Few &s, int32_t pixel) {
  const int32_t n = s.by_image(pixel), inside = pixel - n * s.by_image.by, line = s.by_line(inside);
  const int32_t d = s.by_plane(line);
  return {n, 0, d, line - d * s.by_plane.by, inside - line * s.by_line.by};
}

// A lane's part of a tile: sums of its pixels and filters.
template <int Pixels, int Filters>
class FewSums {
 public:
  float sums[Filters][Pixels] = {};

  __device__ FewSums(const Conv<int32_t> &p, const Few &s, const float *x, int32_t pixel) {
#pragma unroll
    for (int i = 0; i < Pixels; ++i) {
      const bool there = pixel + i * 32 < s.pixels;
      const Place<int32_t> o = place_of(s, there ? pixel + i * 32 : 0);
      const int32_t first[3] = {o.d * p.stride[0] - p.pad[0], o.h * p.stride[1] - p.pad[1],
                                o.w * p.stride[2] - p.pad[2]};
      outside_[i] = there ? s.axes.outside(first) : ~0u;
      at_[i] = x + p.input.at(o.n, 0, first[0], first[1], first[2]);
      asm volatile("" : "+l"(at_[i])); // one register pair, to which a distance is added in one instruction
    }
  }

  __device__ void multiply(const Few &s, const FewTap *table, const float *weights) {
    const int32_t width = s.filters();
    float inputs[kFewTurn][Pixels];
#pragma unroll
    for (int ahead = 0; ahead < kFewAhead; ++ahead) load(table[ahead], inputs[ahead]);
#pragma unroll 1
    for (int32_t k = 0; k < s.taps; k += kFewTurn, table += kFewTurn) {
#pragma unroll
      for (int turn = 0; turn < kFewTurn; ++turn, weights += width) {
        load(table[turn + kFewAhead], inputs[(turn + kFewAhead) % kFewTurn]);
        multiply_tap(weights, inputs[turn]);
      }
    }
  }

 private:
  __device__ void load(const FewTap &from, float (&inputs)[Pixels]) const {
    const int2 tap = *reinterpret_cast<const int2 *>(&from); // distance and places
#pragma unroll
    for (int i = 0; i < Pixels; ++i) {
      inputs[i] = 0;
      if ((outside_[i] & static_cast<uint32_t>(tap.y)) == 0) inputs[i] = __ldg(at_[i] + tap.x);
    }
  }
  __device__ void multiply_tap(const float *weights, const float (&inputs)[Pixels]) {
#pragma unroll
    for (int f = 0; f < Filters; f += kVector) {
      const Weights w = *reinterpret_cast<const Weights *>(weights + f);
#pragma unroll
      for (int e = 0; e < kVector; ++e)
#pragma unroll
        for (int i = 0; i < Pixels; ++i) sums[f + e][i] = fmaf(inputs[i], w.one[e], sums[f + e][i]);
    }
  }

  static constexpr int kVector = Filters % 4 == 0 ? 4 : 2;
  struct alignas(4 * kVector) Weights {
    float one[kVector];
  };

  const float *at_[Pixels]; // where the windows begin
  uint32_t outside_[Pixels];
};

// Bias, relu, store. `biases`: of the thread's filters, zeros where there are none.
template <int Pixels, int Filters>
__device__ inline void store_plain(const Conv<int32_t> &p, const Few &s, float *y, const FewSums<Pixels, Filters> &tile,
                                   int32_t pixel, int32_t filter, const float *biases) {
  const bool biased = p.epilogue.bias != nullptr, relu = p.epilogue.activation == POLYCONV_ACT_RELU;
  float *to[Pixels];
#pragma unroll
  for (int i = 0; i < Pixels; ++i) {
    const Place<int32_t> o = place_of(s, min(pixel + i * 32, s.pixels - 1));
    to[i] = y + p.result.at(o.n, filter, o.d, o.h, o.w);
  }
#pragma unroll
  for (int f = 0; f < Filters; ++f) {
    const bool present = filter + f < p.weights.size[0];
#pragma unroll
    for (int i = 0; i < Pixels; ++i) {
      const float sum = tile.sums[f][i], v = biased ? add(sum, biases[f]) : sum;
      if (present && pixel + i * 32 < s.pixels) *to[i] = relu && v < 0 ? 0.0f : v;
      to[i] += p.result.stride[1];
    }
  }
}

// With any other epilogue. Filters move through the registers of the first, so that its code is there once.
template <int Pixels, int Filters>
__device__ inline void store_any(const Conv<int32_t> &p, const Few &s, float *y, FewSums<Pixels, Filters> *tile,
                                 int32_t pixel, int32_t filter) {
#pragma unroll 1
  for (int32_t f = filter; f < min(filter + Filters, p.weights.size[0]); ++f) {
#pragma unroll
    for (int i = 0; i < Pixels; ++i) {
      if (pixel + i * 32 >= s.pixels) continue;
      Place<int32_t> at = place_of(s, pixel + i * 32);
      at.c = f;
      finish_and_store(p, y, tile->sums[0][i], at);
    }
#pragma unroll
    for (int next = 1; next < Filters; ++next)
#pragma unroll
      for (int i = 0; i < Pixels; ++i) tile->sums[next - 1][i] = tile->sums[next][i];
  }
}

template <bool plain, int Pixels, int Filters>
__global__ void __launch_bounds__(32 * kFewWarps, 4)
    sweep(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Few s, const float *x, const float *w,
          float *y) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto *const table = reinterpret_cast<FewTap *>(shared);
  auto *const weights = reinterpret_cast<float *>(table + s.taps + kFewAhead);
  const int32_t lane = static_cast<int32_t>(threadIdx.x) % 32, warp = static_cast<int32_t>(threadIdx.x) / 32;
  const int32_t way = warp % s.ways, spot = warp / s.ways;
  const int32_t first = static_cast<int32_t>(blockIdx.y) * s.filters(), filter = first + way * Filters;
  describe_taps(p, s, table);
  ptx::await_previous();
  __syncthreads();
  stage_filters(p, s, table, w, first, weights);
  await_copies();
  __syncthreads();
#pragma unroll 1
  for (auto tile = static_cast<int32_t>(blockIdx.x); tile < s.tiles; tile += s.blocks) {
    int32_t pixel = (tile * s.spots + spot) * Pixels * 32 + lane;
    FewSums<Pixels, Filters> sums(p, s, x, pixel);
    sums.multiply(s, table, weights + way * Filters);
    asm volatile("" : "+r"(pixel)); // where results go is found now, not kept since before the products
    if constexpr (plain)
      store_plain(p, s, y, sums, pixel, filter, weights + s.taps * s.filters() + way * Filters);
    else
      store_any(p, s, y, &sums, pixel, filter);
  }
}

template <int Shape>
void launch_shape(const Conv<int32_t> &p, const Few &s, const float *x, const float *weights, float *y,
                  cudaStream_t stream) {
  constexpr int kPixels = kFewShapes[Shape].pixels, kFilters = kFewShapes[Shape].filters;
  const dim3 blocks(static_cast<unsigned>(s.blocks), static_cast<unsigned>(s.turns_k));
  launch_waiting(s.plain ? sweep<true, kPixels, kFilters> : sweep<false, kPixels, kFilters>, blocks, s.threads(),
                 static_cast<size_t>(s.shared_bytes()), stream, p, s, x, weights, y);
}

} // namespace

void launch_few(const Conv<int32_t> &p, const Few &s, const float *x, const float *weights, float *y,
                cudaStream_t stream) {
  (s.shape.pixels == kFewShapes[0].pixels ? launch_shape<0> : launch_shape<1>)(p, s, x, weights, y, stream);
}

} // namespace polyconv::cuda::shared
