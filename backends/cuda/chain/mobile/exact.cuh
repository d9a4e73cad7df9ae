// exact.cuh - a tile of these chains with every product on its own, from memory: for tiles in which something is
// not finite, where matrix instructions would multiply it by zeros that are no weights. Right, and far slower.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mobile/fetch.cuh"

namespace polyconv::cuda::mobile {

// Element (in, out) of packed fragments with `out_pairs` pairs of 8 a slice; see pack_fragments.
__host__ __device__ inline int64_t fragment_place(int64_t in, int64_t out, int64_t in_groups, int64_t out_pairs) {
  const int64_t slice = out / 16 / out_pairs, pair = out / 16 % out_pairs;
  const int64_t block = (slice * in_groups + in / 16) * out_pairs + pair;
  const int64_t lane = out % 8 * 4 + in % 8 / 2, word = out / 8 % 2 * 2 + in / 8 % 2;
  return block * (kFragmentBytes / 2) + lane * 8 + word * 2 + in % 2;
}

template <class T>
__device__ inline float bounded(float v, const Ending &e) {
  const Bounds<T> bounds(e);
  return floats<T>(bounds.apply(pair_of(v, v, T()))).x;
}

// What the depthwise layer reads at a place that is in the image.
template <class T>
__device__ inline float hidden_at(const Mobile &m, int image, int h, int w, int channel) {
  const T *const pixel =
      static_cast<const T *>(m.input) + image * m.in_at.image + h * int64_t{m.in_at.row} + w * int64_t{m.in_at.pixel};
  if (m.expand == nullptr) return static_cast<float>(pixel[channel]);
  float sum = m.expanded.bias != nullptr ? m.expanded.bias[channel] : 0.0f;
#pragma unroll 1
  for (int c = 0; c < m.channels; ++c) {
    const T weight = static_cast<const T *>(m.expand)[fragment_place(c, channel, m.channel_groups(), 1)];
    sum += static_cast<float>(pixel[c]) * static_cast<float>(weight);
  }
  return bounded<T>(sum, m.expanded);
}

// What the last layer reads.
template <class T>
__device__ inline float filtered_at(const Mobile &m, int image, int y, int x, int channel) {
  const T *const taps = static_cast<const T *>(m.filters) + channel * (kFilterBytes / 2);
  float sum = m.filtered.bias != nullptr ? m.filtered.bias[channel] : 0.0f;
#pragma unroll 1
  for (int r = 0; r < 3; ++r)
#pragma unroll 1
    for (int s = 0; s < 3; ++s) {
      const int h = y * m.step - m.pad[0] + r, w = x * m.step - m.pad[1] + s;
      const bool inside = h >= 0 && h < m.in[0] && w >= 0 && w < m.in[1];
      // Padding is multiplied too: zero times an infinite weight is NaN.
      sum += (inside ? hidden_at<T>(m, image, h, w, channel) : 0.0f) * static_cast<float>(taps[r * 3 + s]);
    }
  return bounded<T>(sum, m.filtered);
}

// All of a tile, by the whole block: a thread takes 16 channels of a pixel at a time.
template <class T>
__device__ inline void sum_exactly(const Mobile &m, const Tile &tile) {
  const int columns = m.units[1] * kUnitWidth, of_image = m.units[0] * m.rows * columns;
  const int all = m.images * of_image * m.pairs;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += static_cast<int>(blockDim.x)) {
    const int first = (tile.slice * m.pairs + i % m.pairs) * 16, pixel = i / m.pairs;
    const int image = tile.image + pixel / of_image, y = tile.y + pixel % of_image / columns,
              x = tile.x + pixel % columns;
    if (image >= m.batch || y >= m.out[0] || x >= m.out[1]) continue;
    float sum[16] = {};
#pragma unroll 1
    for (int c = 0; c < m.hidden; ++c) {
      const float v = filtered_at<T>(m, image, y, x, c);
#pragma unroll
      for (int k = 0; k < 16; ++k)
        sum[k] += v * static_cast<float>(
                          static_cast<const T *>(m.project)[fragment_place(c, first + k, m.hidden_groups(), m.pairs)]);
    }
    T *const to = pixel_at(static_cast<T *>(m.result), m.out_at, image, y, x);
    const T *const residual = pixel_at(static_cast<const T *>(m.residual), m.residual_at, image, y, x);
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      if (first + k >= m.results) continue;
      float v = sum[k] + (m.projected.bias != nullptr ? m.projected.bias[first + k] : 0.0f);
      if (m.residual != nullptr) v += m.residual_scale * static_cast<float>(residual[first + k]);
      to[first + k] = static_cast<T>(bounded<T>(v, m.projected));
    }
  }
}

// Tiles of a block that are to be summed again, by how many tiles it had before them.
struct Alarms {
  uint32_t *words;

  __device__ void clear(int tiles) const {
    for (int i = static_cast<int>(threadIdx.x); i <= tiles / 32; i += static_cast<int>(blockDim.x)) words[i] = 0;
  }
  __device__ void raise(int tile) const { atomicOr(words + tile / 32, 1u << tile % 32); }
  // Asked by the whole block where sums are there: whether they leave. Where the residual is the result itself, a tile
  // that is summed again finds there what it adds.
  __device__ bool let_leave(const Mobile &m, int tile) const {
    if (!m.in_place) return true;
    __syncthreads();
    return (words[tile / 32] >> tile % 32 & 1) == 0;
  }
  // Again, what the block has stored; nobody may be storing any more.
  template <class T>
  __device__ void answer(const Mobile &m) const {
    int before = 0;
#pragma unroll 1
    for (auto now = static_cast<int>(blockIdx.x); now < m.all_tiles(); now += static_cast<int>(gridDim.x), ++before) {
      if ((words[before / 32] >> before % 32 & 1) == 0) continue;
      const Walk walk(m, now);
      const int y = walk.y * m.units[0] * m.rows, x = walk.x * m.units[1] * kUnitWidth;
      sum_exactly<T>(m, {walk.group * m.images, y, x, walk.slice});
    }
  }
};

} // namespace polyconv::cuda::mobile
