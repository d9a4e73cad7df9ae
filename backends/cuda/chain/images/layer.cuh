// layer.cuh - a layer of images.cuh's nets. A warp goes down the rows of 16 neighbouring sums x 8 channels: it keeps
// the windows of as many input rows as there are taps in registers, and the weights too, so that a row of sums costs
// the loads of one row. Of a window of maxima, rows meet in registers, and so do two columns, which are a lane's two
// rows of the matrix. Rounding keeps order: the largest of rounded values is the largest value, rounded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/frames.cuh"

namespace polyconv::cuda::images {

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
  // Instructions of a sum wait for each other: several chains of them do not.
  static constexpr int kChains = s.in <= 4 || kRows > 4 ? 1 : kRows;

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
      LayerOf(p, memory, weights, biases, unit).march(unit);
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
  uint32_t b_[kTogether][kRows][kBlocks], row_[kRing][2 * kBlocks], best_[kTogether] = {};
};

} // namespace polyconv::cuda::images
