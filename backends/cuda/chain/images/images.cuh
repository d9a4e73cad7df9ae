// images.cuh - the kernel of images.hpp, one template over a net's list of layers. A warp goes down the rows of 16
// neighbouring sums x 8 channels: it keeps the windows of as many input rows as there are taps in registers, and the
// weights too, so that a row of sums costs the loads of one row. Of a window of maxima, rows meet in registers, and so
// do two columns, which are a lane's two rows of the matrix. Rounding keeps order: the largest of rounded values is the
// largest value, rounded.
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

// ---------------------------------------------------------------- a layer

// Rows of sums until windows are in the same registers again, and those of maxima where they were, unless that is far.
constexpr int period_of(const Shape &s) {
  const int ring = s.rows + s.ahead(), period = ring % s.step == 0 ? ring / s.step : ring;
  int both = period;
  while (both % s.pool != 0) both += period;
  return both <= 12 ? both : period;
}

// Of narrow inputs a warp has all channels, for which it reads the windows once; of others 8.
template <class T, int Which, int I>
class LayerOf {
  static constexpr Shape s = kNets[Which].layer[I];
  static constexpr int kRows = s.rows, kBlocks = s.row_blocks(), kGroups = s.out / 8,
                       kTogether = s.in == 4 ? kGroups : 1;
  static constexpr int kStep = s.step, kPool = s.pool, kAhead = s.ahead();
  static constexpr int kRing = kRows + kAhead, kPeriod = period_of(s), kWarps = kNets[Which].warps;
  // Many taps: a row of the input stays for itself and the next alone, and is added to all rows of sums that it meets.
  static constexpr bool kByRows = s.in >= 8 && kRows > 4 && s.step == 1;
  // Instructions of a sum wait for each other: several chains of them do not.
  static constexpr int kChains = s.in <= 4 ? 1 : kRows;

 public:
  // By each warp of a team.
  __device__ static void run(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int warp) {
    const Layer &l = p.layer[I];
    constexpr int kUnits = kGroups / kTogether;
    const int units = l.strips * l.shares * kUnits;
#pragma unroll 1
    for (int i = warp; i < units; i += kWarps) {
      int strip = i / kUnits, share = 0;
      for (; strip >= l.strips; strip -= l.strips) ++share;
      const Unit unit = {strip * 16, l.rows * share / l.shares * kPool, l.rows * (share + 1) / l.shares * kPool,
                         i % kUnits};
      LayerOf layer(p, memory, weights, biases, unit);
      if constexpr (kByRows)
        layer.march_by_rows(unit);
      else
        layer.march(unit);
    }
  }

 private:
  __device__ __forceinline__ LayerOf(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, const Unit &u)
      : windows_(p.layer[I], memory, u), outlet_(p, memory, u) {
#pragma unroll
    for (int j = 0; j < kTogether; ++j) finish_[j] = Finish<T>(p.layer[I], biases, u.group + j);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int q = 0; q < kBlocks; ++q)
#pragma unroll
        for (int j = 0; j < kTogether; ++j)
          b_[j][r][q] = ptx::load_settled(weights + (((r * kBlocks + q) * kGroups + u.group + j) * 32 + lane_of()) * 4);
  }

  __device__ __forceinline__ void march(const Unit &u) {
#pragma unroll
    for (int r = 0; r < kRows - kStep + kAhead; ++r) windows_.load(row_[r]);
#pragma unroll 1
    for (int y = u.begin; y < u.end; y += kPeriod) {
#pragma unroll
      for (int i = 0; i < kPeriod; ++i) {
        if (y + i >= u.end) break;
        const int of_window = kPeriod % kPool == 0 ? i % kPool : (y + i) % kPool; // of maxima, the row
#pragma unroll
        for (int d = kRing - kStep; d < kRing; ++d) windows_.load(row_[(i * kStep + d) % kRing]);
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          float sum[4];
          multiply(sum, i, j);
          leave(sum, j, of_window);
        }
        if (of_window == kPool - 1) outlet_.next_row();
      }
    }
  }

  __device__ __forceinline__ void march_by_rows(const Unit &u) {
    constexpr int kTurn = 2 * kRows; // rows until sums and windows are in the same registers again
    const int count = u.end - u.begin, rows = count + kRows - 1;
    float sums[kRows][4];
    windows_.load(row_[0]);
#pragma unroll 1
    for (int y = 0; y < rows; y += kTurn) {
#pragma unroll
      for (int i = 0; i < kTurn; ++i) {
        if (y + i >= rows) break;
        if (y + i + 1 < rows) windows_.load(row_[(i + 1) % 2]);
#pragma unroll
        for (int q = 0; q < kBlocks; q += 2)
#pragma unroll
          for (int r = 0; r < kRows; ++r)
            if (y + i >= r && y + i - r < count) add_row(sums[(i - r + kTurn) % kRows], row_[i % 2], r, q);
        const int done = y + i + 1 - kRows;
        if (done < 0) continue;
        leave(sums[(i + 1) % kRows], 0, done % kPool);
        if (done % kPool == kPool - 1) outlet_.next_row();
      }
    }
  }

  // Blocks q and q + 1 of a row, as the r-th of a sum.
  __device__ __forceinline__ void add_row(float (&sum)[4], const uint32_t (&row)[2 * kBlocks], int r, int q) const {
    if (q + 1 == kBlocks) return ptx::multiply_add_half(sum, row[2 * q], row[2 * q + 1], b_[0][r][q], T());
    const auto &a = reinterpret_cast<const uint32_t(&)[4]>(row[2 * q]);
    if (q + r == 0)
      ptx::multiply_onto<T>(sum, finish_[0].begin, a, b_[0][r][q], b_[0][r][q + 1]);
    else
      ptx::multiply_add(sum, a, &b_[0][r][q], T());
  }

  // The sums of row i of a period.
  __device__ __forceinline__ void multiply(float (&sum)[4], int i, int j) const {
    constexpr float zeros[4] = {};
    float chain[kChains][4];
    const auto row = [&](int r) -> const uint32_t(&)[2 * kBlocks] { return row_[(i * kStep + r) % kRing]; };
    const auto add = [&](int r, bool begins, const uint32_t(&a)[4], uint32_t b0, uint32_t b1) {
      const uint32_t b[2] = {b0, b1};
      float(&to)[4] = chain[r % kChains];
      if (begins)
        ptx::multiply_onto<T>(to, r == 0 ? finish_[j].begin : zeros, a, b0, b1);
      else
        ptx::multiply_add(to, a, b, T());
    };
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int q = 0; q + 1 < kBlocks; q += 2)
        add(r, r < kChains && q == 0, reinterpret_cast<const uint32_t(&)[4]>(row(r)[2 * q]), b_[j][r][q],
            b_[j][r][q + 1]);
    if constexpr (kBlocks % 2 != 0) { // the last blocks of two rows are as deep as an instruction
      constexpr int q = kBlocks - 1;
#pragma unroll
      for (int r = 0; r + 1 < kRows; r += 2) {
        const uint32_t a[4] = {row(r)[2 * q], row(r)[2 * q + 1], row(r + 1)[2 * q], row(r + 1)[2 * q + 1]};
        add(r, kBlocks == 1 && r < kChains, a, b_[j][r][q], b_[j][r + 1][q]);
      }
      if constexpr (kRows % 2 != 0) {
        constexpr int r = kRows - 1;
        static_assert(kRows > 1 || kBlocks > 1, "a sum begins with a whole instruction");
        ptx::multiply_add_half(chain[r % kChains], row(r)[2 * q], row(r)[2 * q + 1], b_[j][r][q], T());
      }
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      sum[e] = chain[0][e];
#pragma unroll
      for (int c = 1; c < kChains; ++c) sum[e] += chain[c][e];
    }
  }

  __device__ __forceinline__ void leave(const float (&sum)[4], int j, int of_window) {
    const uint32_t left = pair_of(sum[0], sum[1], T()), right = pair_of(sum[2], sum[3], T());
    if constexpr (kPool == 1) {
      outlet_.put(j, 0, finish_[j].end(left)), outlet_.put(j, 1, finish_[j].end(right));
    } else {
      const uint32_t v = larger<T>(left, right);
      best_[j] = of_window == 0 ? v : larger<T>(best_[j], v);
      if (of_window != kPool - 1) return;
      uint32_t widest = best_[j];
      if constexpr (kPool == 4) widest = larger<T>(widest, __shfl_xor_sync(~0u, widest, 4));
      outlet_.put(j, 0, finish_[j].end(widest));
    }
  }

  Windows<Which, I> windows_;
  Outlet<Which, I> outlet_;
  Finish<T> finish_[kTogether];
  uint32_t b_[kTogether][kRows][kBlocks], row_[kByRows ? 2 : kRing][2 * kBlocks], best_[kTogether] = {};
};

// ---------------------------------------------------------------- images in and out

// An image of a team on its way in, by words: pairs of pixels of a row, or pixels.
template <int Which>
struct Coming {
  static constexpr int kThreads = Team<Which>::kThreads;
  uint32_t word[kHeldWords];

  // Words from `from` on, kThreads apart.
  __device__ void fetch(const Chain &p, int thread, int64_t image, int from = 0) {
    const int pixels = p.size[0] * p.size[1], words = p.pairs ? pixels / 2 : pixels;
    const auto *const pixel = static_cast<const uint16_t *>(p.input) + image * pixels;
#pragma unroll
    for (int i = 0; i < kHeldWords; ++i) {
      const int k = min(from + thread + i * kThreads, words - 1);
      word[i] = p.pairs ? reinterpret_cast<const uint32_t *>(pixel)[k] : pixel[k];
    }
  }
  // Into both copies.
  __device__ void arrive(const Chain &p, int thread, uint32_t memory, int from = 0) const {
    const Layer &l = p.layer[0];
    const int row_words = p.pairs ? p.size[1] / 2 : p.size[1], words = p.size[0] * row_words;
    memory += l.frame + l.pad[0] * l.row_bytes + l.left * 2;
#pragma unroll
    for (int i = 0; i < kHeldWords; ++i) {
      const int k = from + thread + i * kThreads, y = p.by_words(k);
      if (k >= words) break;
      const uint32_t to = memory + y * l.row_bytes + (k - y * row_words) * (p.pairs ? 4 : 2);
      if (p.pairs)
        ptx::store_word(to, word[i]), ptx::store_element(to + l.second, word[i] >> 16);
      else
        ptx::store_element(to, word[i]);
      ptx::store_element(to + l.second - 2, word[i] & 0xffff);
    }
  }
  // All of an image.
  __device__ void bring(const Chain &p, int thread, uint32_t memory, int64_t image) {
    const int words = p.size[0] * p.size[1] / (p.pairs ? 2 : 1);
#pragma unroll 1
    for (int from = 0; from < words; from += kHeldWords * kThreads)
      fetch(p, thread, image, from), arrive(p, thread, memory, from);
  }
};

// A result that waits in shared memory, into memory.
template <int Which>
__device__ inline void send(const Chain &p, int thread, uint32_t waiting, int64_t image) {
  uint16_t *const to = static_cast<uint16_t *>(p.result) + image * p.results;
  const bool words = p.results % 2 == 0 && reinterpret_cast<uintptr_t>(p.result) % 4 == 0;
  const int count = words ? p.results / 2 : p.results;
#pragma unroll 1
  for (int i = thread; i < count; i += Team<Which>::kThreads) {
    if (words)
      reinterpret_cast<uint32_t *>(to)[i] = ptx::load_settled(waiting + i * 4);
    else
      to[i] = static_cast<uint16_t>(ptx::load_settled(waiting + i / 2 * 4) >> i % 2 * 16);
  }
}

// ---------------------------------------------------------------- the kernel

// Bytes of shared memory before a layer's weights, and before its biases, which lie behind all weights.
template <int Which, int I>
inline constexpr int kWeightsAt = weight_words(kNets[Which], I) * 4;
template <int Which, int I>
inline constexpr int kBiasesAt = kWeightsAt<Which, kNets[Which].layers> + I *kBiases * 4;

template <int Which>
inline constexpr int kCommonBytes = common_bytes(kNets[Which]);

// What stays for all images: weights, biases, and zeros for padding.
template <int Which>
__device__ inline void fill(const Chain &p, unsigned char *shared) {
  constexpr int kLayers = kNets[Which].layers;
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  auto *to = reinterpret_cast<uint32_t *>(shared);
#pragma unroll 1
  for (int i = 0; i < kLayers; ++i) {
    const int words = p.layer[i].words;
    for (int k = thread; k < words; k += threads) to[k] = static_cast<const uint32_t *>(p.layer[i].weights)[k];
    to += words;
  }
  for (int k = thread; k < kLayers * kBiases; k += threads) {
    const Layer &l = p.layer[k / kBiases];
    const int channel = k % kBiases;
    reinterpret_cast<float *>(to)[k] = l.bias != nullptr && channel < l.results ? l.bias[channel] : -0.0f;
  }
  for (int k = thread * 16; k < p.teams * p.image_bytes; k += threads * 16)
    *reinterpret_cast<uint4 *>(shared + kCommonBytes<Which> + k) = uint4{};
}

// Layer I and those behind it; `between` runs when the first one has read its input.
template <class T, int Which, int I, class Between>
__device__ __forceinline__ void run_layers(const Chain &p, const Team<Which> &team, uint32_t memory, uint32_t weights,
                                           const Between &between) {
  LayerOf<T, Which, I>::run(p, memory, weights + kWeightsAt<Which, I>, weights + kBiasesAt<Which, I>, team.thread / 32);
  team.sync();
  if constexpr (I == 0) between();
  if constexpr (I + 1 < kNets[Which].layers) run_layers<T, Which, I + 1>(p, team, memory, weights, between);
}

template <class T, int Which>
__global__ void __launch_bounds__(kNets[Which].most_teams *Team<Which>::kThreads, 1)
    fuse_images(const __grid_constant__ Chain p) {
  extern __shared__ __align__(16) unsigned char shared[];
  fill<Which>(p, shared);
  __syncthreads();
  const Team<Which> team;
  const uint32_t weights = shared_address(shared);
  const uint32_t memory = weights + kCommonBytes<Which> + team.index * p.image_bytes;
  const int step = static_cast<int>(gridDim.x) * p.teams;
  int image = team.index * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  if (image >= p.batch) return;
  Coming<Which> coming;
  coming.bring(p, team.thread, memory, image);
#pragma unroll 1
  for (; image < p.batch; image += step) {
    const bool more = image + step < p.batch;
    team.sync();
    if (p.held && more) coming.fetch(p, team.thread, image + step); // while the first layer takes few registers
    run_layers<T, Which, 0>(p, team, memory, weights, [&] {
      if (p.held && more) coming.arrive(p, team.thread, memory);
    });
    send<Which>(p, team.thread, memory + p.waiting, image);
    if (!p.held && more) coming.bring(p, team.thread, memory, image + step);
  }
}

template <int Which>
Kernel fused(int32_t type) {
  return of_half(type, [](auto t) -> Kernel { return fuse_images<decltype(t), Which>; });
}

} // namespace polyconv::cuda::images

#define POLYCONV_INSTANCE(net) template images::Kernel images::fused<net>(int32_t);
