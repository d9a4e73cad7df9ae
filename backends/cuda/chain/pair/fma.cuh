// fma.cuh - a depthwise 3 x 3 and the 1 x 1 layer after it in f32: a block has a tile of pixels and, of all their
// results or a slice of them, the sums in registers. Chunk by chunk of the channels between, it filters a patch of
// inputs into shared memory, a strip of columns of four channels a thread, and multiplies what comes out by the chunk's
// weights, as a matrix product does. The next chunk's inputs and weights are on their way meanwhile.
//
// Filtered values lie [channel][pixel]; pixels change places from four channels to the next, so that a warp's strips of
// all four quads meet different banks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "common/ptx/numbers.cuh"
#include "pair/fma.hpp"

namespace polyconv::cuda::single {

__device__ inline int this_thread() {
  return static_cast<int>(threadIdx.x);
}

__device__ inline int turned(int pixel, int channel) {
  return pixel ^ (channel / 4 % 4 * 8);
}

__device__ inline float bounded(float v, const mobile::Ending &e) {
  return ptx::lesser(ptx::greater(v, e.low), e.high);
}

// A block's tile.
struct Place {
  int slice, x, y, image; // first column, row and image
  __device__ explicit Place(const Mobile &m) {
    auto i = static_cast<int>(blockIdx.x);
    slice = i % m.slices, i /= m.slices;
    x = i % m.tiles[1] * m.units[1], i /= m.tiles[1];
    y = i % m.tiles[0] * m.units[0], image = i / m.tiles[0] * m.images;
  }
};

template <int kShape>
class Block {
  static constexpr Shape s = kShapes[kShape];
  static constexpr int kVector = s.vector(), kVectors = s.channels / kVector;
  using Vector = std::conditional_t<kVector == 4, float4, float2>;
  using Strip = std::conditional_t<s.strip() == 4, float4, float2>;

 public:
  __device__ Block(const Pair &p, float *shared)
      : p_(p),
        m_(p.m),
        at_(p.m),
        filtered_(shared),
        weights_(filtered_ + kChunk * s.tile()),
        patches_(weights_ + 2 * s.weights()),
        offsets_(reinterpret_cast<int *>(patches_ + 2 * positions() * kPitch)) {}

  __device__ void run() {
    find_offsets();
    __syncthreads();
    fetch(0);
    const int chunks = (m_.hidden + kChunk - 1) / kChunk;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      await_copies();
      __syncthreads(); // and everybody is done with the chunk before
      if (chunk + 1 < chunks) fetch(chunk + 1);
      filter(chunk);
      __syncthreads();
      multiply(weights_ + chunk % 2 * s.weights() + 9 * kChunk);
    }
    leave();
  }

 private:
  __device__ int positions() const {
    return m_.images * m_.patch[0] * m_.patch[1];
  }

  // Of every position of the patch, in elements from the tile's first image; -1: padding.
  __device__ void find_offsets() {
    for (int i = this_thread(); i < positions(); i += s.threads()) {
      const int column = i % m_.patch[1], row = i / m_.patch[1] % m_.patch[0], image = i / m_.patch[1] / m_.patch[0];
      const int h = at_.y * s.step - m_.pad[0] + row, w = at_.x * s.step - m_.pad[1] + column;
      const bool inside = h >= 0 && h < m_.in[0] && w >= 0 && w < m_.in[1] && at_.image + image < m_.batch;
      offsets_[i] = inside ? static_cast<int>(image * m_.in_at.image) + h * m_.in_at.row + w * m_.in_at.pixel : -1;
    }
  }

  // Four floats of which `count` are there.
  __device__ void copy(float *to, const float *from, int count) const {
    if (m_.vectors_in) return copy_async<16>(to, from, count > 0);
#pragma unroll
    for (int i = 0; i < 4; ++i) copy_async<4>(to + i, from + i, i < count);
  }

  __device__ void fetch(int chunk) const {
    float *const patch = patches_ + chunk % 2 * positions() * kPitch, *const weights =
                                                                          weights_ + chunk % 2 * s.weights();
    const int first = chunk * kChunk;
    const auto *const input = static_cast<const float *>(m_.input) + at_.image * m_.in_at.image;
    const int quad = this_thread() % kQuads, channel = first + quad * 4;
    for (int i = this_thread() / kQuads; i < positions(); i += s.threads() / kQuads) {
      const int offset = offsets_[i];
      const int there = offset < 0 ? 0 : m_.hidden - channel;
      copy(patch + i * kPitch + quad * 4, there > 0 ? input + offset + channel : input, there);
    }
    const auto *const taps = static_cast<const float *>(m_.filters);
    for (int i = this_thread(); i < 9 * kQuads; i += s.threads()) {
      const int c = first + i % kQuads * 4;
      const bool there = c < p_.taps_row;
      copy(weights + i * 4, there ? taps + int64_t{i / kQuads} * p_.taps_row + c : taps, there ? 4 : 0);
    }
    const auto *const rows = static_cast<const float *>(m_.project);
    constexpr int kRow = s.results() / 4; // pieces
    for (int i = this_thread(); i < kChunk * kRow; i += s.threads()) {
      const int c = first + i / kRow, k = at_.slice * s.results() + i % kRow * 4;
      const bool there = c < m_.hidden && k < p_.weights_row;
      copy(weights + 9 * kChunk + i * 4, there ? rows + int64_t{c} * p_.weights_row + k : rows, there ? 4 : 0);
    }
    commit_copies();
  }

  __device__ void filter(int chunk) const {
    const float *const patch = patches_ + chunk % 2 * positions() * kPitch;
    const auto *const taps = reinterpret_cast<const float4 *>(weights_ + chunk % 2 * s.weights());
#pragma unroll 1
    for (int task = this_thread(); task < p_.tasks; task += s.threads()) {
      const int quad = task % kQuads, strips = task / kQuads, bands = p_.strips(strips), image = p_.bands(bands);
      const int x = (strips - bands * p_.strips.by) * s.strip(), y = (bands - image * p_.bands.by) * kStripRows;
      const int corner = (image * m_.patch[0] + y * s.step) * m_.patch[1] + x * s.step;
      float4 sums[kStripRows][s.strip()];
      begin(chunk * kChunk + quad * 4, sums);
      add_rows(patch + corner * kPitch + quad * 4, taps + quad, min(m_.units[0] - y, kStripRows), sums);
      const int pixel = (image * m_.units[0] + y) * m_.units[1] + x;
#pragma unroll
      for (int r = 0; r < kStripRows; ++r)
        if (y + r < m_.units[0]) put(sums[r], quad * 4, pixel + r * m_.units[1]);
    }
  }

  // Sums begin with the bias.
  __device__ void begin(int channel, float4 (&sums)[kStripRows][s.strip()]) const {
    float bias[4] = {};
    if (m_.filtered.bias != nullptr) {
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (channel + c < m_.hidden) bias[c] = __ldg(m_.filtered.bias + channel + c);
    }
#pragma unroll
    for (int r = 0; r < kStripRows; ++r)
#pragma unroll
      for (int j = 0; j < s.strip(); ++j) sums[r][j] = make_float4(bias[0], bias[1], bias[2], bias[3]);
  }

  // Each row of inputs is read once; of `there` rows of outputs.
  __device__ void add_rows(const float *from, const float4 *taps, int there,
                           float4 (&sums)[kStripRows][s.strip()]) const {
    constexpr int kRows = (kStripRows - 1) * s.step + 3, kWidth = (s.strip() - 1) * s.step + 3;
    float4 w[9];
#pragma unroll
    for (int i = 0; i < 9; ++i) w[i] = taps[i * kQuads];
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (row >= 3 && there < kStripRows) break; // the patch ends
      float4 x[kWidth];
#pragma unroll
      for (int i = 0; i < kWidth; ++i)
        x[i] = *reinterpret_cast<const float4 *>(from + (row * m_.patch[1] + i) * kPitch);
#pragma unroll
      for (int r = 0; r < kStripRows; ++r) {
        const int tap = row - r * s.step;
        if (tap < 0 || tap > 2) continue;
#pragma unroll
        for (int j = 0; j < s.strip(); ++j)
#pragma unroll
          for (int t = 0; t < 3; ++t) add(x[j * s.step + t], w[tap * 3 + t], sums[r][j]);
      }
    }
  }

  __device__ static void add(const float4 &x, const float4 &w, float4 &sum) {
    sum.x = fmaf(x.x, w.x, sum.x), sum.y = fmaf(x.y, w.y, sum.y);
    sum.z = fmaf(x.z, w.z, sum.z), sum.w = fmaf(x.w, w.w, sum.w);
  }

  // A strip of four channels, bounded, to where the product reads it.
  __device__ void put(const float4 (&sums)[s.strip()], int channel, int pixel) const {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      Strip strip;
#pragma unroll
      for (int j = 0; j < s.strip(); ++j)
        reinterpret_cast<float *>(&strip)[j] = bounded(reinterpret_cast<const float *>(&sums[j])[c], m_.filtered);
      *reinterpret_cast<Strip *>(filtered_ + (channel + c) * s.tile() + turned(pixel, channel)) = strip;
    }
  }

  // The thread's first pixel and result channel; more of both follow in steps of 32 and of four vectors.
  __device__ static int first_pixel() {
    return this_thread() / 32 % s.along * 8 * s.pixels + this_thread() % 8 * 4;
  }
  __device__ static int first_channel() {
    return this_thread() / 32 / s.along * 4 * s.channels + this_thread() % 32 / 8 * kVector;
  }

  __device__ void multiply(const float *weights) {
    const int pixel = first_pixel();
    const float *const b = weights + first_channel();
#pragma unroll
    for (int k = 0; k < kChunk; ++k) {
      const float *const a = filtered_ + k * s.tile() + turned(pixel, k);
      float4 x[s.pixels / 4];
      Vector w[kVectors];
#pragma unroll
      for (int v = 0; v < s.pixels / 4; ++v) x[v] = *reinterpret_cast<const float4 *>(a + v * 32);
#pragma unroll
      for (int v = 0; v < kVectors; ++v)
        w[v] = *reinterpret_cast<const Vector *>(b + k * s.results() + v * 4 * kVector);
#pragma unroll
      for (int i = 0; i < s.pixels; ++i)
#pragma unroll
        for (int q = 0; q < s.channels; ++q) {
          const int j = i % 2 ? s.channels - 1 - q : q; // a product shares an operand with the one before
          sums_[i][j] = fmaf(reinterpret_cast<const float *>(x)[i], reinterpret_cast<const float *>(w)[j], sums_[i][j]);
        }
    }
  }

  __device__ void leave() const {
    const int first = at_.slice * s.results() + first_channel();
#pragma unroll
    for (int i = 0; i < s.pixels; ++i) {
      const int pixel = first_pixel() + i / 4 * 32 + i % 4;
      const int row = p_.columns(pixel), column = pixel - row * m_.units[1], above = p_.rows(row);
      const int image = at_.image + above, y = at_.y + row - above * m_.units[0], x = at_.x + column;
      if (above >= m_.images || image >= m_.batch || y >= m_.out[0] || x >= m_.out[1]) continue;
      const int64_t to = image * m_.out_at.image + int64_t{y} * m_.out_at.row + int64_t{x} * m_.out_at.pixel;
      const int64_t from =
          image * m_.residual_at.image + int64_t{y} * m_.residual_at.row + int64_t{x} * m_.residual_at.pixel;
#pragma unroll
      for (int v = 0; v < kVectors; ++v) store(i, v, first + v * 4 * kVector, to, from);
    }
  }

  // A vector of results of a pixel.
  __device__ void store(int i, int v, int k, int64_t to, int64_t from) const {
    if (k >= m_.results) return;
    Vector out, add = {};
    auto *const values = reinterpret_cast<float *>(&out), *const added = reinterpret_cast<float *>(&add);
    float *const result = static_cast<float *>(m_.result) + to + k;
    const auto *const residual = static_cast<const float *>(m_.residual);
    const int there = m_.results - k;
    const bool whole = m_.vectors_out && there >= kVector;
    if (residual != nullptr && whole) add = *reinterpret_cast<const Vector *>(residual + from + k);
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      if (residual != nullptr && !whole && j < there) added[j] = residual[from + k + j];
      float sum = sums_[i][v * kVector + j];
      if (m_.projected.bias != nullptr && j < there) sum += __ldg(m_.projected.bias + k + j);
      if (residual != nullptr) sum += m_.residual_scale * added[j];
      values[j] = bounded(sum, m_.projected);
      if (!whole && j < there) result[j] = values[j];
    }
    if (whole) *reinterpret_cast<Vector *>(result) = out;
  }

  const Pair &p_;
  const Mobile &m_;
  const Place at_;
  float *const filtered_, *const weights_, *const patches_;
  int *const offsets_;
  float sums_[s.pixels][s.channels] = {};
};

template <int kShape>
__global__ void __launch_bounds__(kShapes[kShape].threads(), kShapes[kShape].together)
    filter_and_multiply(const __grid_constant__ Pair p) {
  extern __shared__ __align__(16) float shared[];
  Block<kShape>(p, shared).run();
}

} // namespace polyconv::cuda::single
