// frames.cuh - where the rows of a layer of images.cuh's nets lie in shared memory, how a warp's windows come from
// there, and where its results go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/barrier.cuh"
#include "common/types.hpp"
#include "images/images.hpp"
#include "mobile/mobile.cuh"

namespace polyconv::cuda::images {

using mobile::as_pair;
using mobile::bits_of;
using mobile::lane_of;
using ptx::load_matrices;
using ptx::shared_address;

// NaN is greater than everything.
template <class T>
__device__ inline uint32_t larger(uint32_t a, uint32_t b) {
  return bits_of(__hmax2_nan(as_pair<T>(a), as_pair<T>(b)));
}

// The warps of an image.
template <int Which>
struct Team {
  static constexpr int kThreads = kNets[Which].threads();
  int index = static_cast<int>(threadIdx.x) / kThreads, thread = static_cast<int>(threadIdx.x) % kThreads;

  __device__ Team() {}
  __device__ void sync() const { ptx::meet(index + 1, kThreads); }
};

// What a warp takes of a layer: columns of sums from `x` on, for rows [begin, end), the channels of `group` on.
struct Unit {
  int x, begin, end, group;
};

// ---------------------------------------------------------------- frames

// Where a column lies in a row of positions of 8 or 16 channels, for readers of a step: such that eight positions that
// one matrix has lie in all banks.
template <int Channels, int ReadStep>
__device__ inline uint32_t column_at(int column, int half) {
  if constexpr (Channels == 16)
    return column * 32 + (half ^ (column >> 2 & 1)) * 16;
  else
    return (ReadStep == 2 ? column ^ (column >> 3 & 1) : column) * 16;
}

// The column of sums that row `row` of a matrix is, of 16.
template <int Pool>
__device__ inline int column_of(int row) {
  return Pool > 1 ? row % 8 * 2 + row / 8 : row;
}

// A row of the windows of a strip, the first operand of matrix instructions: of each block of the depth two registers.
template <int Which, int I>
class Windows {
  static constexpr Shape s = kNets[Which].layer[I];
  static constexpr int kIn = s.in, kColumns = s.columns, kStep = s.step, kPool = s.pool, kReadStep = s.read_step();
  static constexpr int kBlocks = s.row_blocks(), kPairs = kBlocks / 2, kRest = kBlocks % 2;

 public:
  static constexpr int kRegisters = 2 * kBlocks;

  __device__ Windows(const Layer &l, uint32_t memory, const Unit &u) : row_bytes_(l.row_bytes) {
    const int lane = lane_of(), t = lane % 4;
    memory += l.frame + u.begin * kStep * l.row_bytes;
    if constexpr (kIn == 1) {
      mask_ = (2 * t < kColumns ? 0xffffu : 0u) | (2 * t + 1 < kColumns ? 0xffff0000u : 0u); // else Inf times 0
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int begin = l.left - l.pad[1] + (u.x + column_of<kPool>(lane / 4 + 8 * h)) * kStep, odd = begin & 1;
        at_[h] = memory + odd * l.second + ((begin - odd) / 2 + t) * 4;
      }
    } else if constexpr (kIn == 4) {
      mask_ = kColumns % 2 != 0 && t > 1 ? 0u : ~0u; // the tap behind the last
      const int begin = l.left - l.pad[1] + (u.x + column_of<kPool>(lane % 16)) * kStep, odd = begin & 1;
      at_[0] = memory + odd * l.second + (begin - odd) * 8 + lane / 16 * 16;
    } else {
      const int column = (u.x + column_of<kPool>(lane % 16)) * kStep;
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        at_[i] = memory + (kIn == 16 ? column_at<16, kReadStep>(column + i, lane / 16)
                                     : column_at<8, kReadStep>(column + 2 * i + lane / 16, 0));
      if constexpr (kRest != 0) at_[kPairs] = memory + column_at<8, kReadStep>(column + kColumns - 1, 0);
    }
  }

  // The next row.
  __device__ void load(uint32_t (&row)[kRegisters]) {
    if constexpr (kIn == 1) {
#pragma unroll
      for (int h = 0; h < 2; ++h) row[h] = ptx::load_settled(at_[h] + offset_) & mask_;
    } else {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) load_matrices(reinterpret_cast<uint32_t(&)[4]>(row[4 * i]), address(i));
      if constexpr (kRest != 0) load_matrices(reinterpret_cast<uint32_t(&)[2]>(row[4 * kPairs]), address(kPairs));
      if constexpr (kIn == 4) row[kRegisters - 2] &= mask_, row[kRegisters - 1] &= mask_;
    }
    offset_ += row_bytes_;
  }

 private:
  __device__ uint32_t address(int i) const {
    return (kIn == 4 ? at_[0] + i * 32 : at_[i]) + offset_;
  }

  uint32_t at_[kIn == 1 ? 2 : kIn == 4 ? 1 : kPairs + kRest], mask_ = 0, offset_ = 0;
  int row_bytes_;
};

// Where the results of a strip go: the next layer's frame, or the result as it will lie in memory. A lane has one pixel
// of a window of maxima, or two.
template <int Which, int I>
class Outlet {
  static constexpr bool kLast = I + 1 == kNets[Which].layers;
  static constexpr int kNext = kLast ? I : I + 1, kPool = kNets[Which].layer[I].pool;
  static constexpr int kIn = kNets[Which].layer[kNext].in, kReadStep = kNets[Which].layer[kNext].read_step(); // its

 public:
  static constexpr int kPixels = kPool == 1 ? 2 : 1;

  __device__ Outlet(const Chain &p, uint32_t memory, const Unit &u) {
    const int lane = lane_of(), t = lane % 4, channel = u.group * 8 + t * 2;
    const Layer &l = p.layer[I], &next = p.layer[kNext];
    left_ = l.results - channel;
    row_ = kLast ? l.columns * p.pixel_step * 2 : next.row_bytes;
    channel_ = p.channel_step * 2, second_ = next.second - 8;
    const int first = u.begin / kPool * row_;
#pragma unroll
    for (int h = 0; h < kPixels; ++h) {
      const int column = (u.x + column_of<kPool>(lane / 4 + 8 * h)) / kPool;
      there_[h] = column < l.columns && (kPool < 4 || lane / 4 % 2 == 0) && (kLast || kIn > 4 || t < 2);
      if constexpr (kLast)
        at_[h] = memory + p.waiting + first + (channel * p.channel_step + column * p.pixel_step) * 2;
      else
        at_[h] = memory + next.frame + next.pad[0] * next.row_bytes + first + t * 4 +
                 (kIn == 4 ? (next.left + column) * 8 : column_at<kIn, kReadStep>(column + next.pad[1], u.group));
    }
  }
  // 8 channels of `group` more: two of a pixel.
  __device__ void put(int group, int pixel, uint32_t v) const {
    if (!there_[pixel]) return;
    if constexpr (kLast) {
      const uint32_t at = at_[pixel] + group * 8 * channel_;
      if (left_ > 8 * group) ptx::store_element(at, v & 0xffff);
      if (left_ > 8 * group + 1) ptx::store_element(at + channel_, v >> 16);
    } else {
      ptx::store_word(at_[pixel], v);
      if constexpr (kIn == 4) ptx::store_word(at_[pixel] + second_, v);
    }
  }
  __device__ void next_row() {
#pragma unroll
    for (uint32_t &at : at_) at += row_;
  }

 private:
  uint32_t at_[kPixels];
  int row_, channel_, second_, left_;
  bool there_[kPixels];
};

// What surrounds the sums of 8 channels, of which a lane has two. Those that are not there stay 0, so that the next
// layer's zeros find nothing that is not finite.
template <class T>
struct Finish {
  mobile::Bounds<T> bounds;
  float begin[4]; // what a lane's four sums begin with
  uint32_t mask;

  Finish() = default;
  __device__ Finish(const Layer &l, uint32_t biases, int group) : bounds(mobile::Ending{nullptr, l.low, l.high}) {
    const int channel = group * 8 + lane_of() % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      begin[e] = __uint_as_float(ptx::load_settled(biases + (channel + e % 2) * 4)); // registers of own
    mask = (channel < l.results ? 0xffffu : 0u) | (channel + 1 < l.results ? 0xffff0000u : 0u);
  }
  __device__ uint32_t end(uint32_t v) const {
    return bounds.apply(v) & mask;
  }
};

} // namespace polyconv::cuda::images
