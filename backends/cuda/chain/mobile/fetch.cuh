// fetch.cuh - from tile to tile, and how what mobile.hpp's chains work on gets into shared memory.
//
// Warps are few and wait for each other, so what is between the products must be short: no division from tile to tile,
// and a handful of instructions for 16 bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mobile/mobile.cuh"

namespace polyconv::cuda::mobile {

// A tile by its digits: slices, tiles across, down, groups of images.
struct Walk {
  int slice, x, y, group;

  __device__ Walk(int s, int column, int row, int images) : slice(s), x(column), y(row), group(images) {}
  __device__ Walk(const Mobile &m, int i) {
    slice = i % m.slices, i /= m.slices;
    x = i % m.tiles[1], i /= m.tiles[1];
    y = i % m.tiles[0], group = i / m.tiles[0];
  }
  __device__ void advance(const Mobile &m, const Walk &by) {
    slice += by.slice;
    int carry = slice >= m.slices;
    slice -= carry ? m.slices : 0;
    x += by.x + carry, carry = x >= m.tiles[1];
    x -= carry ? m.tiles[1] : 0;
    y += by.y + carry, carry = y >= m.tiles[0];
    y -= carry ? m.tiles[0] : 0;
    group += by.group + carry;
  }
  __device__ bool there(const Mobile &m) const { return group < m.groups_of_images; }
};

// What a block knows of its tiles, in shared memory: where each position lies in an image, in elements from the tile's
// first image, or -1; of two tiles. And the tiles themselves, of four, and the way from one to the next.
class Table {
 public:
  // Bytes: see shared_bytes().
  __device__ Table(const Mobile &m, uint32_t memory) : memory_(memory), positions_(m.positions()) {}
  __device__ uint32_t offsets(int tile) const { return memory_ + kHeaders + (1 + tile % 2) * positions_ * 4; }
  __device__ Tile tile(int i) const {
    const uint4 v = ptx::load_shared(memory_ + i % 4 * 16);
    return {static_cast<int>(v.x), static_cast<int>(v.y), static_cast<int>(v.z), static_cast<int>(v.w)};
  }
  __device__ Walk step() const {
    const uint4 v = ptx::load_shared(memory_ + 64);
    return {static_cast<int>(v.x), static_cast<int>(v.y), static_cast<int>(v.z), static_cast<int>(v.w)};
  }
  // What stays: image << 24 | row << 12 | column of every position, and the step.
  __device__ void begin(const Mobile &m) const {
    if (threadIdx.x == 0) {
      const Walk step(m, static_cast<int>(gridDim.x));
      ptx::store_words(memory_ + 64, make_uint4(step.slice, step.x, step.y, step.group));
    }
    for (int i = static_cast<int>(threadIdx.x); i < positions_; i += static_cast<int>(blockDim.x)) {
      const int column = i % m.patch[1], row = i / m.patch[1] % m.patch[0], image = i / m.patch[1] / m.patch[0];
      ptx::store_word(memory_ + kHeaders + i * 4, image << 24 | row << 12 | column);
    }
  }
  // The block's tile number i.
  __device__ void fill(const Mobile &m, int i, const Walk &walk) const {
    const int first = walk.group * m.images, y = walk.y * m.units[0] * m.rows, x = walk.x * m.units[1] * kUnitWidth;
    const int top = y * m.step - m.pad[0], left = x * m.step - m.pad[1];
    if (threadIdx.x == 0) ptx::store_words(memory_ + i % 4 * 16, make_uint4(first, y, x, walk.slice));
#pragma unroll 2
    for (int j = static_cast<int>(threadIdx.x); j < positions_; j += static_cast<int>(blockDim.x)) {
      const auto place = static_cast<int>(ptx::load_settled(memory_ + kHeaders + j * 4));
      const int image = place >> 24, h = top + (place >> 12 & 0xfff), w = left + (place & 0xfff);
      const bool inside = first + image < m.batch && static_cast<uint32_t>(h) < static_cast<uint32_t>(m.in[0]) &&
                          static_cast<uint32_t>(w) < static_cast<uint32_t>(m.in[1]);
      const int at = image * static_cast<int>(m.in_at.image) + h * m.in_at.row + w * m.in_at.pixel;
      ptx::store_word(offsets(i) + j * 4, inside ? at : -1);
    }
  }

 private:
  static constexpr int kHeaders = kTableBytes;
  uint32_t memory_;
  int positions_;
};

__device__ inline void fetch_bytes(uint32_t to, const void *from, int bytes) {
  for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += static_cast<int>(blockDim.x) * 16)
    copy_async<16>(to + i, static_cast<const char *>(from) + i, true);
}

// Copies channels of every position of a patch, zeros outside the image: a position is some columns of 16 bytes, and a
// thread keeps to one column.
class Fetcher {
 public:
  __device__ Fetcher(const Mobile &m, int columns, int pitch) {
    const auto thread = static_cast<int>(threadIdx.x);
    const int at_once = static_cast<int>(blockDim.x) / columns, begin = thread / columns;
    column_ = thread % columns * 8;
    count_ = begin < at_once ? (m.positions() - begin + at_once - 1) / at_once : 0;
    from_ = begin * 4, from_step_ = at_once * 4;
    to_ = begin * pitch + column_ * 2, to_step_ = at_once * pitch;
  }
  // From `channel` on; Batch loads of offsets at a time.
  template <class T, int Batch>
  __device__ void fetch(const Mobile &m, uint32_t offsets, int image, int channel, uint32_t to) const {
    const T *const input = static_cast<const T *>(m.input) + image * m.in_at.image + channel + column_;
    const int left = m.channels - channel - column_;
    uint32_t from = offsets + from_;
    to += to_;
    if (!m.vectors_in) return copy_elements(input, left, from, to);
    const int bytes = left > 0 ? 16 : 0, first = left > 0 ? 0 : -channel - column_;
#pragma unroll 1
    for (int i = 0; i < count_; i += Batch) {
      int at[Batch];
#pragma unroll
      for (int j = 0; j < Batch; ++j, from += from_step_) at[j] = ptx::load_word_if(i + j < count_, from);
#pragma unroll
      for (int j = 0; j < Batch; ++j, to += to_step_) // an address is to be valid, read or not
        copy_async_if<16>(i + j < count_, to, input + max(at[j], first), at[j] >= 0 ? bytes : 0);
    }
  }

 private:
  template <class T>
  __device__ void copy_elements(const T *input, int left, uint32_t from, uint32_t to) const {
#pragma unroll 1
    for (int i = 0; i < count_; ++i, from += from_step_, to += to_step_) {
      const auto at = static_cast<int>(ptx::load_settled(from));
#pragma unroll 1
      for (int c = 0; c < 8; ++c) {
        const T v = at >= 0 && c < left ? input[at + c] : T(0.0f);
        ptx::store_element(to + c * 2, reinterpret_cast<const uint16_t &>(v));
      }
    }
  }

  int column_, count_, from_step_, to_step_;
  uint32_t from_, to_;
};

// -0 where there is none: it changes no sum.
__device__ inline void fill_bias(float *to, const float *from, int count, int padded) {
  for (int i = static_cast<int>(threadIdx.x); i < padded; i += static_cast<int>(blockDim.x))
    to[i] = from != nullptr && i < count ? from[i] : -0.0f;
}

// The weights of a chunk: filters, and behind them those of the last layer.
__device__ inline void fetch_weights(const Mobile &m, int slice, int chunk, uint32_t to) {
  const int of_chunk = m.chunk() / kGroup, first = chunk * of_chunk, groups = min(of_chunk, m.hidden_groups() - first);
  fetch_bytes(to, static_cast<const char *>(m.filters) + first * kGroup * kFilterBytes, groups * kGroup * kFilterBytes);
  const int64_t from = (static_cast<int64_t>(slice) * m.hidden_groups() + first) * m.pairs * kFragmentBytes;
  fetch_bytes(to + m.filter_bytes(), static_cast<const char *>(m.project) + from, groups * m.pairs * kFragmentBytes);
}

} // namespace polyconv::cuda::mobile
