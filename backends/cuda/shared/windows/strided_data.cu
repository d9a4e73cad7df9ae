// strided_data.cu - the gradient of the input of depthwise layers, and of layers of few input channels, at stride 2: a
// thread walks down four columns, two rows at a time, and keeps in registers the gradients of as many rows as reach
// them. Where the general way (depthwise_data, tiles_data) makes a forward layer of each residue of the strides and
// copies their results together, here every result is written once. With several filters an input channel a thread
// keeps the sums of all its rows while the filters follow each other.
//
// Floor: max(2 N K P Q C n^2 / FMA rate, one read of the output's gradient and one write of the input's / copy rate).
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "common/conv.cuh"
#include "common/epilogue.cuh"
#include "common/host.hpp"
#include "windows/ends.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 128, kColumns = 4; // of the input, a thread's
constexpr int32_t kPairs = 8;               // of rows, that a thread walks down, at most
constexpr int kKept = 4;                    // the same where it keeps their sums

struct Descent {
  int32_t strips, stretches, pairs; // of four columns, of pairs of rows; pairs of a stretch
  int32_t first, end;               // pairs
  int32_t abreast;                  // results that are stored at once: 4, 2 or 1; 0 where each is finished first
};

// Input row 2 i + e - pad is reached through tap e + 2 t from output row i - t. Of columns, Odd says whether the
// padding is odd: four columns that begin at a multiple of 4 are reached from kSpan outputs, the first of them kFirst
// from half of the column and of the padding.
template <class T, int Taps, int Odd>
class Reached {
  static constexpr int kRows = (Taps + 1) / 2, kFirst = Odd - (Taps - 1) / 2, kSpan = (Taps - 1) / 2 + 2;

 public:
  __device__ Reached(const Conv<int32_t> &p, const T *y, int32_t column)
      : p_(p), y_(y), first_(column / 2 + p.pad[2] / 2 + kFirst) {}
  // On to the next row of outputs.
  __device__ void load(int32_t row) {
#pragma unroll
    for (int t = kRows - 1; t > 0; --t)
#pragma unroll
      for (int o = 0; o < kSpan; ++o) v_[t][o] = v_[t - 1][o];
#pragma unroll
    for (int o = 0; o < kSpan; ++o)
      if (row >= 0 && row < p_.output.size[3] && has(o))
        v_[0][o] = value(y_[row * p_.output.stride[3] + (first_ + o) * p_.output.stride[4]]);
  }
  // The two rows of sums that the rows up to `row` reach. No product with an output that is not there: weights may be
  // infinite.
  __device__ void sum(int32_t row, const float (&w)[Taps * Taps], float (&sums)[2][kColumns]) const {
#pragma unroll
    for (int t = 0; t < kRows; ++t) {
      if (row - t < 0 || row - t >= p_.output.size[3]) continue;
#pragma unroll
      for (int o = 0; o < kSpan; ++o) {
        if (!has(o)) continue;
#pragma unroll
        for (int e = 0; e < 2; ++e)
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            const int r = e + 2 * t, s = c + Odd - 2 * (o + kFirst);
            if (r < Taps && s >= 0 && s < Taps) sums[e][c] = fmaf(v_[t][o], w[r * Taps + s], sums[e][c]);
          }
      }
    }
  }

 private:
  __device__ bool has(int o) const {
    return first_ + o >= 0 && first_ + o < p_.output.size[4];
  }

  const Conv<int32_t> &p_;
  const T *y_;
  const int32_t first_;
  float v_[kRows][kSpan] = {};
};

template <class T, int Abreast>
struct alignas(Abreast * sizeof(T)) Few {
  T element[Abreast];
};

// Where thread i works.
struct Spot {
  int32_t n, c, column, begin, end; // pairs of rows

  __device__ Spot(const Conv<int32_t> &p, const Descent &s, int32_t i) {
    const int32_t line = i / s.strips, plane = line / s.stretches;
    column = (i - line * s.strips) * kColumns;
    n = plane / p.input.size[1], c = plane - n * p.input.size[1];
    begin = s.first + (line - plane * s.stretches) * s.pairs, end = min(begin + s.pairs, s.end);
  }
};

template <class T, int Taps>
__device__ inline void load_weights(const Conv<int32_t> &p, const T *weights, int32_t k, int32_t c,
                                    float (&w)[Taps * Taps]) {
#pragma unroll
  for (int tap = 0; tap < Taps * Taps; ++tap) w[tap] = value(weights[p.weights.at(k, c, 0, tap / Taps, tap % Taps)]);
}

// Sums that are the results, so many at once.
template <int Abreast, class T>
__device__ inline void store_sums(const Conv<int32_t> &p, T *x, const Spot &at, int32_t first,
                                  const float (&sums)[2][kColumns]) {
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    if (first + e < 0 || first + e >= p.result.size[3]) continue;
    T *const to = x + p.result.at(at.n, at.c, 0, first + e, at.column);
#pragma unroll
    for (int c = 0; c < kColumns; c += Abreast) {
      if (at.column + c >= p.result.size[4]) continue;
      Few<T, Abreast> few;
#pragma unroll
      for (int i = 0; i < Abreast; ++i) few.element[i] = static_cast<T>(sums[e][c + i]); // to nearest
      *reinterpret_cast<Few<T, Abreast> *>(to + c) = few;
    }
  }
}

// Finishing is much code: there once, in a loop, where one copy for each of a thread's sums took a minute to compile.
template <class T>
__device__ inline void store_pair(const Conv<int32_t> &p, const Descent &s, T *x, const Spot &at, int32_t row,
                                  const float (&sums)[2][kColumns]) {
  const int32_t first = 2 * row - p.pad[1];
  if (s.abreast == 4) return store_sums<4>(p, x, at, first, sums);
  if (s.abreast == 2) return store_sums<2>(p, x, at, first, sums);
  if (s.abreast == 1) return store_sums<1>(p, x, at, first, sums);
#pragma unroll 1
  for (int i = 0; i < 2 * kColumns; ++i) {
    const int32_t h = first + i / kColumns, w = at.column + i % kColumns;
    if (h < 0 || h >= p.result.size[3] || w >= p.result.size[4]) continue;
    float sum = sums[0][0];
#pragma unroll
    for (int j = 1; j < 2 * kColumns; ++j) sum = i == j ? sums[j / kColumns][j % kColumns] : sum;
    finish_and_store(p, x, sum, Place<int32_t>{at.n, at.c, 0, h, w});
  }
}

// Of a multiprocessor, at a time.
constexpr int blocks_of(int taps) {
  return taps == 3 ? 8 : taps == 5 ? 5 : 4;
}

// One filter a channel.
template <class T, int Taps, int Odd>
__global__ void __launch_bounds__(kThreads, blocks_of(Taps))
    descend(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Descent s, const T *y, const T *weights,
            T *x, int32_t count) {
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= count) return;
  const Spot at(p, s, i);
  float w[Taps * Taps];
  load_weights<T, Taps>(p, weights, at.c, 0, w);
  Reached<T, Taps, Odd> reached(p, y + p.output.at(at.n, at.c, 0, 0, 0), at.column);
  for (int32_t row = at.begin - (Taps - 1) / 2; row < at.end; ++row) {
    reached.load(row);
    if (row < at.begin) continue;
    float sums[2][kColumns] = {};
    reached.sum(row, w, sums);
    store_pair(p, s, x, at, row, sums);
  }
}

// Several.
template <class T, int Taps, int Odd>
__global__ void __launch_bounds__(kThreads, Taps == 7 ? 2 : 3)
    descend_again(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Descent s, const T *y,
                  const T *weights, T *x, int32_t count) {
  const int32_t i = static_cast<int32_t>(blockIdx.x) * kThreads + static_cast<int32_t>(threadIdx.x);
  if (i >= count) return;
  const Spot at(p, s, i);
  const int32_t channels = p.weights.size[1], filters = p.output.size[1] / p.groups, group = at.c / channels;
  float sums[kKept][2][kColumns] = {};
#pragma unroll 1
  for (int32_t k = group * filters; k < (group + 1) * filters; ++k) {
    float w[Taps * Taps];
    load_weights<T, Taps>(p, weights, k, at.c - group * channels, w);
    Reached<T, Taps, Odd> reached(p, y + p.output.at(at.n, k, 0, 0, 0), at.column);
#pragma unroll
    for (int m = -(Taps - 1) / 2; m < kKept; ++m) {
      reached.load(at.begin + m);
      if (m >= 0) reached.sum(at.begin + m, w, sums[m < 0 ? 0 : m]);
    }
  }
#pragma unroll
  for (int m = 0; m < kKept; ++m)
    if (at.begin + m < at.end) store_pair(p, s, x, at, at.begin + m, sums[m]);
}

using Launch = void (*)(const Conv<int32_t> &p, const Descent &s, const polyconv_arguments &a, int32_t count,
                        cudaStream_t stream);

template <class T, int Taps, int Odd>
void launch_descent(const Conv<int32_t> &p, const Descent &s, const polyconv_arguments &a, int32_t count,
                    cudaStream_t stream) {
  const bool single = p.output.size[1] == p.groups && p.weights.size[1] == 1; // one filter a channel, of its own
  const auto kernel = single ? descend<T, Taps, Odd> : descend_again<T, Taps, Odd>;
  kernel<<<static_cast<unsigned>(ceil_div(count, kThreads)), kThreads, 0, stream>>>(
      p, s, static_cast<const T *>(a.output), static_cast<const T *>(a.weights[0]), static_cast<T *>(a.input), count);
  check_launch("cuda-shared/strided_data");
}

template <class T>
Launch find_launch(int64_t taps, bool odd) {
  if (taps == 3) return odd ? launch_descent<T, 3, 1> : launch_descent<T, 3, 0>;
  if (taps == 5) return odd ? launch_descent<T, 5, 1> : launch_descent<T, 5, 0>;
  return odd ? launch_descent<T, 7, 1> : launch_descent<T, 7, 0>;
}

Launch launch_for(const polyconv_layer &l) {
  const auto find = l.output.type == POLYCONV_F32   ? find_launch<float>
                    : l.output.type == POLYCONV_F16 ? find_launch<__half>
                                                    : find_launch<__nv_bfloat16>;
  return find(l.weights.size[3], l.pad_begin[2] % 2 != 0);
}

// One filter a channel, of its own.
bool is_single(const polyconv_layer &l) {
  return l.weights.size[0] == l.groups && l.weights.size[1] == 1;
}

// Of the results, where they are the sums; 0 where each is finished first.
int32_t stored_at_once(const polyconv_layer &l) {
  if (!bare(l) || l.result.type != l.output.type) return 0;
  int32_t width = shared::side_by_side(l.result, 0);
  while (l.result.size[4] % width != 0) width /= 2;
  return width;
}

Descent descent_of(const polyconv_layer &l) {
  Descent s = {};
  s.first = small(l.pad_begin[1] / 2), s.end = small((l.result.size[3] - 1 + l.pad_begin[1]) / 2 + 1);
  s.strips = small(ceil_div(l.result.size[4], kColumns));
  s.stretches = small(ceil_div(s.end - s.first, is_single(l) ? kPairs : kKept));
  s.pairs = small(ceil_div(s.end - s.first, s.stretches));
  s.abreast = stored_at_once(l);
  return s;
}

int64_t threads_of(const polyconv_layer &l, const Descent &s) {
  return l.result.size[0] * l.result.size[1] * s.stretches * s.strips;
}

// ---------------------------------------------------------------- supports

bool takes_shape(const polyconv_layer &l, sdk::Offer &offer) {
  if (!takes_2d(l, offer)) return false;
  if (l.weights.size[1] > 64)
    return offer.reject("takes groups of up to 64 input channels, not %" PRId64, l.weights.size[1]);
  if (!takes_odd_squares(l, false, offer)) return false;
  if (l.stride[1] != 2 || l.stride[2] != 2 || l.dilation[1] != 1 || l.dilation[2] != 1)
    return offer.reject("takes a stride of 2 and no dilation");
  if (l.pad_mode > POLYCONV_PAD_CONSTANT) return offer.reject("folds no gradient of the padding back");
  if (!takes_channels_first(has_neighbouring_columns(l.result), offer,
                            "walks along rows: wants columns to be neighbours"))
    return false;
  return true;
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.output.type;
  if (!takes_floats(l, type, offer)) return false;
  if (!takes_shape(l, offer) || fused_pooling_refused(l, offer)) return false;
  if (!takes_int32(l, offer)) return false;
  if (!takes_no_empty({&l.result}, offer)) return false;
  const Descent s = descent_of(l);
  if (threads_of(l, s) > INT32_MAX - kThreads) return offer.reject("launches less than 2^31 threads");
  const double bytes = type == POLYCONV_F32 ? 4 : 2, results = real(sdk::elements(l.result));
  const double stored = s.abreast == 1 ? 4 : bytes; // alone, a result of 2 bytes takes the time of one of 4
  const double memory = (real(sdk::elements(l.output)) * bytes + results * stored) / 3e6;
  offer.estimate_us = 5 + memory + (s.abreast == 0 ? 12 + results * 4e-6 : 0); // each finished alone
  if (is_single(l)) return true;
  // A quarter of the taps is a product of each result; weights, borders and addresses take several times as long.
  // Fitted to seven layers on an H200, when results that cannot be stored four at a time were finished one by one.
  const double taps = real(sdk::taps(l)), products = results * real(l.weights.size[0] / l.groups) * taps / 4;
  const double summing = products * (6.1 + 36 / taps) / (kHopperMultiprocessors * 128 * 1500.0);
  offer.estimate_us = 5 + std::max(memory, summing) + (l.result.size[4] % kColumns != 0 ? results * 43e-6 : 0);
  return true;
}

// ---------------------------------------------------------------- plan and run

class StridedData final : public CudaInstance {
 public:
  explicit StridedData(const polyconv_request &request)
      : CudaInstance(request), launch_(launch_for(layer_)), descent_(descent_of(layer_)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Descent s = descent_;
    s.abreast = shared::aligned_width(s.abreast, a.input, sdk::type_bytes(layer_.result.type));
    launch_(Conv<int32_t>(layer_, a), s, a, static_cast<int32_t>(threads_of(layer_, s)), stream);
  }

  const Launch launch_;
  const Descent descent_;
};

constexpr const char *kNames[] = {"4x2"};

} // namespace

POLYCONV_DEFINE_KERNEL(strided_data, kNames, supports, instance_of<StridedData>);

} // namespace polyconv::cuda
