// few.cuh - the kernel of few.hpp. A warp goes down the rows of a layer's outputs: it keeps the windows
// of as many input rows as there are taps in registers, and the weights too, so that a row of outputs costs a row of
// loads. The two warps of an image have half of a layer's columns each, or of its channels, or of its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/barrier.cuh"
#include "images/few.hpp"
#include "mobile/mobile.cuh"

namespace polyconv::cuda::few {

using mobile::Bounds;
using mobile::lane_of;
using ptx::load_matrices;
using ptx::multiply_add;
using ptx::multiply_add_half;
using ptx::shared_address;

// The warps of an image.
struct Team {
  int index = static_cast<int>(threadIdx.x) / kTeam, thread = static_cast<int>(threadIdx.x) % kTeam;
  int half = thread / 32;

  __device__ Team() {}
  __device__ void sync() const { ptx::meet(index + 1, kTeam); }
};

// ---------------------------------------------------------------- frames

// Where a column lies in a row of positions of so many channels, for readers of a stride: such that eight positions
// that one matrix has lie in all banks. Rows are multiples of 16 positions.
template <int Channels, int Step>
__device__ inline uint32_t column_at(int column, int half) {
  if constexpr (Channels == 16)
    return column * 32 + (half ^ (column >> 2 & 1)) * 16;
  else
    return (Step == 2 ? column ^ (column >> 3 & 1) : column) * 16;
}

// Sums of 16 outputs of a row x 8 channels, `eight` of those before them, become words of the next frame.
template <int Channels, int Step>
class ToFrame {
 public:
  __device__ ToFrame(const Layer &next, uint32_t memory, int columns, int first, int eight)
      : row_bytes_(next.row_bytes) {
    const int lane = lane_of();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int x = first + lane / 4 + h * 8;
      there_[h] = x < columns;
      at_[h] = memory + next.frame + next.pad[0] * next.row_bytes + column_at<Channels, Step>(x + next.pad[1], eight) +
               lane % 4 * 4;
    }
  }
  // Row y, already bounded: two channels a word.
  __device__ void put(int y, uint32_t first, uint32_t second) const {
    if (there_[0]) ptx::store_word(at_[0] + y * row_bytes_, first);
    if (there_[1]) ptx::store_word(at_[1] + y * row_bytes_, second);
  }

 private:
  uint32_t at_[2];
  int row_bytes_;
  bool there_[2];
};

// The same into the result as it will lie in memory.
class ToResult {
 public:
  __device__ ToResult(const Chain &p, uint32_t memory, int columns, int results)
      : row_(columns * p.pixel_step * 2), channel_(p.channel_step * 2) {
    const int lane = lane_of();
    at_ = memory + p.waiting + (lane / 4 * p.pixel_step + lane % 4 * 2 * p.channel_step) * 2;
    second_ = 8 * p.pixel_step * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) there_[h] = lane / 4 + h * 8 < columns;
    left_ = results - lane % 4 * 2;
  }
  __device__ void put(int y, uint32_t first, uint32_t second) const {
    const uint32_t v[2] = {first, second};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t at = at_ + y * row_ + h * second_;
      if (there_[h] && left_ > 0) ptx::store_element(at, v[h] & 0xffff);
      if (there_[h] && left_ > 1) ptx::store_element(at + channel_, v[h] >> 16);
    }
  }

 private:
  uint32_t at_;
  int row_, channel_, second_, left_;
  bool there_[2];
};

// What surrounds the sums of 8 channels, of which a lane has two. Those that are not there stay 0, so that the next
// layer's zeros find nothing that is not finite.
template <class T>
struct Finish {
  Bounds<T> bounds;
  float begin[4]; // what a lane's four sums begin with
  uint32_t mask;

  template <class Layer>
  __device__ Finish(const Layer &l, uint32_t biases, int first) : bounds(mobile::Ending{nullptr, l.low, l.high}) {
    const int channel = first + lane_of() % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; ++e)
      begin[e] = __uint_as_float(ptx::load_settled(biases + (channel + e % 2) * 4)); // registers of own
    mask = (channel < l.results ? 0xffffu : 0u) | (channel + 1 < l.results ? 0xffff0000u : 0u);
  }
  __device__ uint32_t end(uint32_t v) const {
    return bounds.apply(v) & mask;
  }
  __device__ uint32_t end(float a, float b) const {
    return end(pair_of(a, b, T()));
  }
};

// ---------------------------------------------------------------- layers

// R x S taps, S up to 8, on one channel, a step apart: 8 channels out. A warp has 16 outputs of a row, and the taps of
// one row are a reduction of 8.
template <int R, int S>
struct First {
  template <class T, class To>
  __device__ static void run(const Chain &p, uint32_t memory, uint32_t weights, uint32_t biases, int half,
                             const To &to) {
    const Layer &l = p.layer[0];
    const int lane = lane_of(), t = lane % 4, begin = p.left - l.pad[1] + half * 16 + lane / 4, odd = begin & 1;
    const uint32_t mask = (2 * t < S ? 0xffffu : 0u) | (2 * t + 1 < S ? 0xffff0000u : 0u); // else Inf times 0
    const Finish<T> finish(l, biases, 0);
    uint32_t b[R], x[R][2];
#pragma unroll
    for (int r = 0; r < R; ++r) b[r] = ptx::load_settled(weights + (r * 32 + lane) * 4);
    uint32_t from = memory + l.frame + odd * p.second + ((begin - odd) / 2 + t) * 4;
    const auto load = [&](uint32_t(&row)[2]) {
      row[0] = ptx::load_settled(from) & mask, row[1] = ptx::load_settled(from + 16) & mask; // 8 pixels on
      from += l.row_bytes;
    };
#pragma unroll
    for (int r = 0; r + 1 < R; ++r) load(x[r]);
#pragma unroll 1
    for (int y0 = 0; y0 < l.rows; y0 += R) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        if (y0 + i >= l.rows) break;
        load(x[(i + R - 1) % R]);
        float sum[4];
        ptx::multiply_onto<T>(sum, finish.begin, x[i][0], x[i][1], b[0]);
#pragma unroll
        for (int r = 1; r < R; ++r) multiply_add_half(sum, x[(i + r) % R][0], x[(i + r) % R][1], b[r], T());
        to.put(y0 + i, finish.end(sum[0], sum[1]), finish.end(sum[2], sum[3]));
      }
    }
  }
};

// R x S taps on Channels, Step apart, to N times 8 channels; up to 16 outputs of a row. Of two times 8 channels a warp
// has one, else half of the rows.
template <int Channels, int R, int S, int Step, int N>
struct Inner {
  static_assert(N <= 2, "a warp has 8 channels");
  static constexpr int kChannels = Channels, kStep = Step;
  static constexpr int kBlocks = S * Channels / 8; // of 8 channels, in a row of taps
  static constexpr int kPairs = kBlocks / 2, kRest = kBlocks % 2;
  static constexpr int kWindow = kPairs * 4 + kRest * 2; // registers of a row
  static constexpr int kPeriod = R % Step == 0 ? R / Step : R;

  // Where the windows of a row begin.
  struct Windows {
    uint32_t at[kPairs + kRest];
    int row_bytes;

    __device__ Windows(const Layer &l, uint32_t memory) : row_bytes(l.row_bytes) {
      const int lane = lane_of(), column = lane % 16 * Step;
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        at[i] = memory + l.frame +
                (Channels == 16 ? column_at<Channels, Step>(column + i, lane / 16)
                                : column_at<Channels, Step>(column + 2 * i + lane / 16, 0));
      if constexpr (kRest != 0) at[kPairs] = memory + l.frame + column_at<Channels, Step>(column + S - 1, 0);
    }
    __device__ void load(uint32_t (&row)[kWindow], int y) const {
#pragma unroll
      for (int i = 0; i < kPairs; ++i)
        load_matrices(reinterpret_cast<uint32_t(&)[4]>(row[4 * i]), at[i] + y * row_bytes);
      if constexpr (kRest != 0)
        load_matrices(reinterpret_cast<uint32_t(&)[2]>(row[4 * kPairs]), at[kPairs] + y * row_bytes);
    }
  };

  template <class T, class To>
  __device__ static void run(const Layer &l, uint32_t memory, uint32_t weights, uint32_t biases, int half,
                             const To &to) {
    const int lane = lane_of(), j = N == 2 ? half : 0;
    const int begin = N == 2 ? 0 : l.rows / 2 * half, end = N == 2 || half == 1 ? l.rows : l.rows / 2;
    const Finish<T> finish(l, biases, j * 8);
    const Windows windows(l, memory);
    uint32_t b[R][kBlocks], x[R][kWindow];
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int q = 0; q < kBlocks; ++q)
        b[r][q] = ptx::load_settled(weights + (((r * kBlocks + q) * N + j) * 32 + lane) * 4);
#pragma unroll
    for (int r = 0; r < R - Step; ++r) windows.load(x[r], begin * Step + r);
#pragma unroll 1
    for (int y0 = begin; y0 < end; y0 += kPeriod) {
#pragma unroll
      for (int i = 0; i < kPeriod; ++i) {
        if (y0 + i >= end) break;
#pragma unroll
        for (int d = R - Step; d < R; ++d) windows.load(x[(i * Step + d) % R], (y0 + i) * Step + d);
        float sum[R][4]; // a row of taps each: matrix instructions in a chain wait for each other
        constexpr float zeros[4] = {};
#pragma unroll
        for (int r = 0; r < R; ++r) {
          const auto &row = x[(i * Step + r) % R];
          ptx::multiply_onto<T>(sum[r], r == 0 ? finish.begin : zeros, reinterpret_cast<const uint32_t(&)[4]>(row[0]),
                                b[r][0], b[r][1]);
#pragma unroll
          for (int q = 1; q < kPairs; ++q)
            multiply_add(sum[r], reinterpret_cast<const uint32_t(&)[4]>(row[4 * q]), &b[r][2 * q], T());
          if constexpr (kRest != 0)
            multiply_add_half(sum[r], row[4 * kPairs], row[4 * kPairs + 1], b[r][2 * kPairs], T());
        }
#pragma unroll
        for (int r = 1; r < R; ++r)
#pragma unroll
          for (int e = 0; e < 4; ++e) sum[0][e] += sum[r][e];
        to.put(y0 + i, finish.end(sum[0][0], sum[0][1]), finish.end(sum[0][2], sum[0][3]));
      }
    }
  }
};

// ---------------------------------------------------------------- images in and out

// The next image of a team, on its way in registers. Words are pairs of pixels of a row.
template <class T>
struct Coming {
  uint32_t word[kWords];

  __device__ void fetch(const Chain &p, int thread, int64_t image) {
    const int pixels = p.size[0] * p.size[1];
    const auto *const from = static_cast<const uint16_t *>(p.input) + image * pixels;
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int first = (thread + i * kTeam) * 2;
      if (first >= pixels) continue;
      if (p.pairs)
        word[i] = *reinterpret_cast<const uint32_t *>(from + first);
      else
        word[i] = from[first] | (first + 1 < pixels ? from[first + 1] << 16 : 0u);
    }
  }
  // `places`: of both copies' frames, of each pixel.
  __device__ void arrive(const Chain &p, int thread, uint32_t frame, const uint16_t *places) const {
    const int pixels = p.size[0] * p.size[1];
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      const int first = (thread + i * kTeam) * 2;
      if (first >= pixels) continue;
      if (p.pairs) {
        const uint32_t to = frame + places[first];
        ptx::store_word(to, word[i]);
        ptx::store_element(to + p.second - 2, word[i] & 0xffff), ptx::store_element(to + p.second, word[i] >> 16);
        continue;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (first + h >= pixels) continue;
        const uint32_t to = frame + places[first + h], v = h ? word[i] >> 16 : word[i] & 0xffff;
        ptx::store_element(to, v), ptx::store_element(to + p.second - 2, v);
      }
    }
  }
};

// A result that waits in shared memory, into memory.
template <class Chain>
__device__ inline void send(const Chain &p, int thread, uint32_t waiting, int64_t image) {
  uint16_t *const to = static_cast<uint16_t *>(p.result) + image * p.results;
  const bool words = p.results % 2 == 0 && reinterpret_cast<uintptr_t>(p.result) % 4 == 0;
  const int count = words ? p.results / 2 : p.results;
#pragma unroll 1
  for (int i = thread; i < count; i += kTeam) {
    if (words)
      reinterpret_cast<uint32_t *>(to)[i] = ptx::load_settled(waiting + i * 4);
    else
      to[i] = static_cast<uint16_t>(ptx::load_settled(waiting + i / 2 * 4) >> i % 2 * 16);
  }
}

// ---------------------------------------------------------------- the kernel

// Shared memory: weights, biases, places, images.
struct Room {
  uint32_t weights[kLayers], biases;
  uint16_t *places;
  unsigned char *mine; // of this team

  __device__ Room(unsigned char *shared, const Chain &p, const Team &team) {
    uint32_t at = shared_address(shared);
#pragma unroll
    for (int i = 0; i < kLayers; ++i) weights[i] = at, at += p.layer[i].blocks * kBlockWords * 4;
    biases = at;
    places = reinterpret_cast<uint16_t *>(shared + p.weight_words() * 4 + kLayers * kBiases * 4);
    mine = shared + p.common_bytes() + team.index * p.image_bytes;
  }
  // What stays for all images.
  __device__ void fill(const Chain &p, const Team &team, unsigned char *shared) const {
    const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    auto *to = reinterpret_cast<uint32_t *>(shared);
    for (int l = 0; l < p.layers; ++l) {
      const int words = p.layer[l].blocks * kBlockWords;
      for (int i = thread; i < words; i += threads) to[i] = static_cast<const uint32_t *>(p.layer[l].weights)[i];
      to += words;
    }
    for (int i = thread; i < kLayers * kBiases; i += threads) {
      const Layer &l = p.layer[i / kBiases];
      const int channel = i % kBiases;
      reinterpret_cast<float *>(to)[i] = l.bias != nullptr && channel < l.results ? l.bias[channel] : -0.0f;
    }
    const Layer &first = p.layer[0];
    for (int i = thread; i < p.size[0] * p.size[1]; i += threads)
      places[i] =
          static_cast<uint16_t>((i / p.size[1] + first.pad[0]) * first.row_bytes + (i % p.size[1] + p.left) * 2);
    for (int i = team.thread * 16; i < p.image_bytes; i += kTeam * 16) *reinterpret_cast<uint4 *>(mine + i) = uint4{};
  }
};

// Four layers, each what its type says.
template <class T, class A, class B, class C, class D>
__global__ void __launch_bounds__(kMostTeams *kTeam, 1) fuse_few(const __grid_constant__ Chain p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Team team;
  const Room room(shared, p, team);
  room.fill(p, team, shared);
  __syncthreads();
  const uint32_t memory = shared_address(room.mine);
  const int thread = team.thread, half = team.half;
  const int64_t step = static_cast<int64_t>(gridDim.x) * p.teams;
  int64_t image = static_cast<int64_t>(team.index) * gridDim.x + blockIdx.x;
  if (image >= p.batch) return;
  const auto biases = [&](int layer) { return room.biases + layer * kBiases * 4; };
  Coming<T> coming;
  coming.fetch(p, thread, image);
#pragma unroll 1
  for (; image < p.batch; image += step) {
    coming.arrive(p, thread, memory + p.layer[0].frame, room.places);
    team.sync();
    if (image + step < p.batch) coming.fetch(p, thread, image + step);
    A::template run<T>(p, memory, room.weights[0], biases(0), half,
                       ToFrame<B::kChannels, B::kStep>(p.layer[1], memory, p.layer[0].columns, half * 16, 0));
    team.sync();
    B::template run<T>(p.layer[1], memory, room.weights[1], biases(1), half,
                       ToFrame<C::kChannels, C::kStep>(p.layer[2], memory, p.layer[1].columns, 0, half));
    team.sync();
    C::template run<T>(p.layer[2], memory, room.weights[2], biases(2), half,
                       ToFrame<D::kChannels, D::kStep>(p.layer[3], memory, p.layer[2].columns, 0, 0));
    team.sync();
    D::template run<T>(p.layer[3], memory, room.weights[3], biases(3), half,
                       ToResult(p, memory, p.layer[3].columns, p.layer[3].results));
    team.sync();
    send(p, thread, memory + p.waiting, image);
  }
}

// The LeNet of strides in place of pooling: 5 x 5; 4 x 4, two apart; 3 x 3; 3 x 3.
template <class T>
Kernel strided() {
  return fuse_few<T, First<5, 5>, Inner<8, 4, 4, 2, 2>, Inner<16, 3, 3, 1, 1>, Inner<8, 3, 3, 1, 1>>;
}

} // namespace polyconv::cuda::few
