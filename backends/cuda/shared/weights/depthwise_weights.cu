// depthwise_weights.cu - the gradient of weights of depthwise layers, and of layers of one filter: a block sums one
// pair of channels, without shared memory. A thread walks down four columns of outputs and keeps in registers the
// gradients of as many rows as a window is high, so that every element is read once, but for a window's edges.
//
// Floor: max(2 N K P Q n^2 / FMA rate, one read of every element / copy rate). The second, up to 5 x 5.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/device/launch.hpp"
#include "common/host.hpp"
#include "common/implicit.cuh"
#include "common/ptx/grid.cuh"
#include "common/sums/bias_gradient.hpp"
#include "weights/weights.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int32_t kBlocks = kHopperMultiprocessors * 16; // to aim for
constexpr int32_t kStretches[] = {4, 8, 16, 32};         // rows that a thread walks down, at most
constexpr const char *kNames[] = {"4", "8", "16", "32"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;

// Blocks that share a multiprocessor: what registers allow.
constexpr int blocks_together(int taps, int step) {
  return taps <= 3 ? 7 - step : taps == 5 ? 4 : 3;
}

struct Walks {
  int32_t strips, stretches, rows; // of four columns, of rows; rows of a stretch
  int32_t parts;                   // blocks that share the images of a pair
  int32_t vectors;                 // a strip's gradients are read at once
  float *partials;                 // [weight][part], of several parts
  void *result;
};

// The planes of a pair in an image.
template <class T>
struct Planes {
  const T *x, *y;
};

template <class T, int Taps, int Step>
class WindowSums {
  static constexpr int kRows = (Taps - 1) / Step + 1;        // of outputs that read a row of inputs
  static constexpr int kInputs = (kStrip - 1) * Step + Taps; // under a strip

 public:
  float sum[Taps * Taps] = {};

  // Outputs [row, row + rows) of columns [column, column + 4). What a row needs is loaded a row ahead.
  __device__ void walk(const Conv<int32_t> &p, const Planes<T> &from, int32_t row, int32_t rows, int32_t column,
                       bool vectors) {
    const int32_t there = p.output.size[4] - column, left = column * Step - p.pad[2];
    uint32_t inside = 0; // a bit for each input under the strip
#pragma unroll
    for (int i = 0; i < kInputs; ++i)
      inside |= static_cast<uint32_t>(left + i) < static_cast<uint32_t>(p.input.size[4]) ? 1u << i : 0;
    float y[kRows][kStrip] = {}, next_x[Step][kInputs], next_y[kStrip] = {};
    const auto load = [&](int32_t m) {
      if (m < rows) load_gradients(from.y + (row + m) * p.output.stride[3] + column, there, vectors, next_y);
#pragma unroll
      for (int e = 0; e < Step; ++e) load_inputs(p, from.x, (row + m) * Step - p.pad[1] + e, left, inside, next_x[e]);
    };
    load(0);
#pragma unroll 1
    for (int32_t m = 0; m < rows + kRows - 1; ++m) {
      float x[Step][kInputs];
#pragma unroll
      for (int e = 0; e < Step; ++e)
#pragma unroll
        for (int i = 0; i < kInputs; ++i) x[e][i] = next_x[e][i];
#pragma unroll
      for (int t = kRows - 1; t >= 0; --t)
#pragma unroll
        for (int j = 0; j < kStrip; ++j) y[t][j] = t > 0 ? y[t - 1][j] : next_y[j];
      if (m + 1 < rows + kRows - 1) load(m + 1);
#pragma unroll
      for (int e = 0; e < Step; ++e)
#pragma unroll
        for (int t = 0; e + Step * t < Taps; ++t)
          if (m >= t && m - t < rows) multiply(e + Step * t, x[e], y[t], there);
    }
  }

 private:
  __device__ static void load_gradients(const T *from, int32_t there, bool vectors, float (&y)[kStrip]) {
    if (sizeof(T) == 4 && vectors) {
      const float4 v = *reinterpret_cast<const float4 *>(from);
      y[0] = v.x, y[1] = v.y, y[2] = v.z, y[3] = v.w;
      return;
    }
#pragma unroll
    for (int j = 0; j < kStrip; ++j)
      if (j < there) y[j] = value(from[j]);
  }
  __device__ static void load_inputs(const Conv<int32_t> &p, const T *from, int32_t h, int32_t left, uint32_t inside,
                                     float (&x)[kInputs]) {
    if (p.pad_mode > POLYCONV_PAD_CONSTANT) return load_folded(p, from, h, left, x);
    const float padding = p.template padding<float>();
    const T *const line = from + h * p.input.stride[3] + left;
    const uint32_t there = h >= 0 && h < p.input.size[3] ? inside : 0;
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      x[i] = padding;
      if (there >> i & 1) x[i] = value(line[i]);
    }
  }
  // Padding that mirrors or repeats.
  __device__ static void load_folded(const Conv<int32_t> &p, const T *from, int32_t h, int32_t left,
                                     float (&x)[kInputs]) {
    const T *const line = from + folded(h, p.input.size[3], p.pad_mode) * p.input.stride[3];
#pragma unroll 1
    for (int i = 0; i < kInputs; ++i) {
      const float v = value(line[folded(left + i, p.input.size[4], p.pad_mode)]);
#pragma unroll
      for (int at = 0; at < kInputs; ++at) x[at] = at == i ? v : x[at];
    }
  }
  __device__ void multiply(int r, const float (&x)[kInputs], const float (&y)[kStrip], int32_t there) {
#pragma unroll
    for (int j = 0; j < kStrip; ++j) {
      if (j >= there) break; // no product with what is not there: the input may be NaN
#pragma unroll
      for (int s = 0; s < Taps; ++s) sum[r * Taps + s] = fmaf(y[j], x[j * Step + s], sum[r * Taps + s]);
    }
  }
};

template <class T, int Taps, int Step>
__global__ void __launch_bounds__(kThreads, (blocks_together(Taps, Step)))
    walk_planes(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Walks s, const T *x, const T *dy) {
  ptx::await_previous();
  __shared__ float folded_sums[kWarps][Taps * Taps];
  const int32_t pair = static_cast<int32_t>(blockIdx.x) / s.parts, part = static_cast<int32_t>(blockIdx.x) % s.parts;
  const int32_t channels = p.weights.size[1], k = pair / channels;
  const int32_t c = k / (p.output.size[1] / p.groups) * channels + pair % channels;
  const auto begin = static_cast<int32_t>(int64_t{p.output.size[0]} * part / s.parts);
  const auto end = static_cast<int32_t>(int64_t{p.output.size[0]} * (part + 1) / s.parts);
  WindowSums<T, Taps, Step> sums;
  const int32_t in_image = s.strips * s.stretches;
  for (int32_t i = threadIdx.x; i < (end - begin) * in_image; i += kThreads) {
    const int32_t image = i / in_image, rest = i - image * in_image, stretch = rest / s.strips;
    const int32_t n = begin + image, row = stretch * s.rows, column = (rest - stretch * s.strips) * kStrip;
    sums.walk(p, {x + p.input.at(n, c, 0, 0, 0), dy + p.output.at(n, k, 0, 0, 0)}, row,
              min(s.rows, p.output.size[3] - row), column, s.vectors != 0);
  }
  const int32_t warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < Taps * Taps; ++i) {
    float sum = sums.sum[i];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
    if (lane == 0) folded_sums[warp][i] = sum;
  }
  __syncthreads();
  const int32_t tap = threadIdx.x;
  if (tap >= Taps * Taps) return;
  float sum = folded_sums[0][tap];
#pragma unroll
  for (int other = 1; other < kWarps; ++other) sum += folded_sums[other][tap];
  const int32_t weight = pair * Taps * Taps + tap;
  if (s.parts == 1)
    store(s.result, p.epilogue.result_type, p.result.at(p.weights.along_w(weight)), sum);
  else
    s.partials[int64_t{weight} * s.parts + part] = sum;
}

// ---------------------------------------------------------------- instances

using Launch = void (*)(const Conv<int32_t> &p, const Walks &s, const void *x, const void *dy, unsigned blocks,
                        cudaStream_t stream);

template <class T, int Taps, int Step>
void launch_walks(const Conv<int32_t> &p, const Walks &s, const void *x, const void *dy, unsigned blocks,
                  cudaStream_t stream) {
  launch_waiting(walk_planes<T, Taps, Step>, blocks, kThreads, 0, stream, p, s, static_cast<const T *>(x),
                 static_cast<const T *>(dy));
}

template <class T>
Launch find_launch(int64_t taps, int64_t step) {
  if (taps == 1) return step == 1 ? launch_walks<T, 1, 1> : launch_walks<T, 1, 2>;
  if (taps == 2) return step == 1 ? launch_walks<T, 2, 1> : launch_walks<T, 2, 2>;
  if (taps == 3) return step == 1 ? launch_walks<T, 3, 1> : launch_walks<T, 3, 2>;
  if (taps == 5) return step == 1 ? launch_walks<T, 5, 1> : launch_walks<T, 5, 2>;
  return step == 1 ? launch_walks<T, 7, 1> : launch_walks<T, 7, 2>;
}

Launch launch_for(const polyconv_layer &l) {
  const auto find = l.input.type == POLYCONV_F32   ? find_launch<float>
                    : l.input.type == POLYCONV_F16 ? find_launch<__half>
                                                   : find_launch<__nv_bfloat16>;
  return find(l.weights.size[3], l.stride[1]);
}

// ---------------------------------------------------------------- supports

int64_t pairs_of(const polyconv_layer &l) {
  return l.weights.size[0] * l.weights.size[1];
}

Walks walks_of(const polyconv_layer &l, int config) {
  Walks s = {};
  s.strips = small(ceil_div(l.output.size[4], kStrip));
  s.stretches = small(ceil_div(l.output.size[3], kStretches[config]));
  s.rows = small(ceil_div(l.output.size[3], s.stretches));
  const int64_t images = l.output.size[0], in_image = int64_t{s.strips} * s.stretches;
  const int64_t parts = std::min({ceil_div(kBlocks, pairs_of(l)), ceil_div(images * in_image, kThreads), images});
  // Of a part; one fewer where threads then have a walk fewer.
  int64_t each = ceil_div(images, parts);
  if (each > 1 && ceil_div((each - 1) * in_image, kThreads) < ceil_div(each * in_image, kThreads)) --each;
  s.parts = small(ceil_div(images, each));
  return s;
}

int64_t partials_bytes(const polyconv_layer &l, const Walks &s) {
  return s.parts == 1 ? 0 : aligned_bytes(sdk::elements(l.weights) * s.parts * 4);
}

// Microseconds. Every pair reads its planes; what other pairs read too comes from L2. Threads walk one stretch after
// the other, blocks as many side by side as registers allow; alone they wait for every row. Fitted to 130 times of 33
// layers on an H200: 23 % rms; the choice takes 1 % longer than the fastest.
double estimate(const polyconv_layer &l, const Walks &s) {
  const double bytes = l.input.type == POLYCONV_F32 ? 4 : 2, pairs = real(pairs_of(l)), step = real(l.stride[1]);
  const auto taps = static_cast<int>(l.weights.size[3]);
  const double planes = real(sdk::spatial(l.input) + sdk::spatial(l.output)) * real(l.output.size[0]);
  const double inputs = 3 * step + taps; // loads of a row of inputs, and their test
  const double issued = kStrip * real(sdk::taps(l)) + inputs * (bytes == 4 ? 4 : 20) * step + 40;
  const int64_t images = ceil_div(l.output.size[0], s.parts);
  const double rows = real(ceil_div(images * s.strips * s.stretches, kThreads)) * (s.rows + (taps - 1) / step);
  const double waiting = rows * 0.4, issuing = rows * issued / 900;               // of a block
  const int64_t blocks = ceil_div(pairs_of(l) * s.parts, kHopperMultiprocessors), // of a multiprocessor
      together = blocks_together(taps, static_cast<int>(l.stride[1])), rest = blocks % together;
  const double walking = real(blocks / together) * std::max(real(together) * issuing, waiting) +
                         (rest > 0 ? std::max(real(rest) * issuing, waiting) : 0);
  const double moving = pairs * planes * bytes / 3e6;
  return 4 + std::max(walking, moving) + 0.3 * std::min(walking, moving) + real(partials_bytes(l, s)) * 2 / 1e6 +
         bias_gradient_us(l);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!takes_windows(request, offer, false, true)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.weights.size[0] != l.groups)
    return offer.reject("sums every pair of channels by itself: takes groups of one filter, not %" PRId64,
                        l.weights.size[0] / l.groups);
  return pairs_of(l) <= 1 << 20 || offer.reject("takes up to 2^20 pairs of channels");
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  offer_cheapest(kConfigCount, config, offer, [&](int32_t c) { return estimate(l, walks_of(l, c)); });
  offer.workspace_bytes = partials_bytes(l, walks_of(l, offer.config)) + bias_gradient_bytes(l);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class DepthwiseWeights final : public CudaInstance {
 public:
  DepthwiseWeights(const polyconv_request &request, int config)
      : CudaInstance(request), launch_(launch_for(layer_)), walks_(walks_of(layer_, config)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Walks s = walks_;
    s.partials = static_cast<float *>(a.workspace), s.result = a.weights[0];
    s.vectors = has_vectors(layer_.output, a.output);
    const Conv<int32_t> p(layer_, a);
    launch_(p, s, a.input, a.output, static_cast<unsigned>(pairs_of(layer_) * s.parts), stream);
    if (s.parts > 1)
      add_parts(p, s.partials, s.parts, static_cast<int32_t>(sdk::elements(layer_.weights)), a.weights[0], stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + partials_bytes(layer_, s), stream);
  }

  const Launch launch_;
  const Walks walks_;
};

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_weights, kNames, supports, instance_of<DepthwiseWeights>);

} // namespace polyconv::cuda
