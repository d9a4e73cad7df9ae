// grouped.cpp - several channels or filters a group, as few as a part of a vector, channels side by side: the sweeps of
// depthwise.cpp with vectors of results that are of several groups. Every type, kernel, stride, dilation, border.
//
// Floor: the multiply-adds, and beside them picking the channels of each lane's group: a pick for each multiply-add,
// but one for 6 of a 3x3 at stride 1 and for 2 at stride 2, whose rows and columns share what they read.
//
// A vector of results is of several groups, and lane by lane picks one channel after another of its own group from
// what it loads of a source pixel. So no lane idles, and nothing of another group is multiplied, not even by 0. A pick
// costs as much as a multiply-add (on Intel it takes one of the two units for these), so that what is picked is
// multiplied as often as the sweeps of depthwise convolution can: by the taps of three columns of results and R rows.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/task.hpp"
#include "cpu/tile/pick.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// What a vector of results reads of a source pixel: one vector of channels or two, which may overlap.
template <class T>
struct GroupedWindow {
  int64_t low, high; // their first channels
  int64_t ahead;     // elements from a pixel to the one that is fetched meanwhile
  Lanes<T> first;    // of each lane's group, its first channel, counted from `low`
};

// Of the results from c on.
template <class T>
POLYCONV_INLINE GroupedWindow<T> window_of(const DepthwisePlan &p, int64_t c) {
  const int64_t last = p.input.size[1] - kLanes<T>;
  GroupedWindow<T> window;
  window.ahead = kGroupedAhead * p.axis[2].step * p.input.stride[4];
  window.low = p.sources[c] < last ? p.sources[c] : last;
  window.high = window.low + kLanes<T> < last ? window.low + kLanes<T> : last;
  for (int lane = 0; lane < kLanes<T>; ++lane)
    window.first[lane] = static_cast<int32_t>(p.sources[c + lane] - window.low);
  return window;
}

// Of a source pixel, channel `channel` of each lane's group.
template <class From, class T, bool kTwo>
struct GroupedSource {
  static constexpr bool kBegins = false;
  Load<From, T> convert;
  GroupedWindow<T> window;
  Lanes<T> index;
  POLYCONV_MEMBER GroupedSource(int32_t zero_point, const GroupedWindow<T> &w) : convert(zero_point), window(w) {}
  POLYCONV_MEMBER void set_channel(int64_t channel) {
    index = window.first + static_cast<int32_t>(channel);
    if (kTwo) index += (index >= kLanes<T>)&static_cast<int32_t>(window.low + kLanes<T> - window.high);
  }
  POLYCONV_MEMBER Vector<T> operator()(const From *pixel) const {
    const Vector<T> low = convert.full(pixel + window.low);
    return kTwo ? picked(low, convert.full(pixel + window.high), index) : picked(low, index);
  }
};

// Adds source columns [First, Last), all channels of each lane's group; as add_columns.
template <int First, int Last, int K, int Step, class Source, class From, class T, int A, int R>
POLYCONV_INLINE void add_group(Source &source, const DepthwiseTile<From, T> &tile, int64_t channels,
                               const From *const *pixels, Vector<T> (&acc)[A][R]) {
  const T *from = tile.weights;
  for (int64_t channel = 0; channel < channels; ++channel, from += kDepthwiseUnit) {
    Vector<T> weights[K * K];
#pragma GCC unroll 64
    for (int i = 0; i < K * K; ++i) weights[i] = loaded(load(from + i * tile.row_stride));
    source.set_channel(channel);
    add_columns<First, Last, K, Step>(source, pixels, tile.line_pixels, weights, acc);
  }
}

// As depthwise_sweep; `count` of the vector's results exist.
template <int K, int Step, int R, bool kTwo, class From, class T>
POLYCONV_NOINLINE void grouped_sweep(const DepthwiseTile<From, T> &tile, const GroupedWindow<T> &window,
                                     int64_t channels, int64_t c, int count, const DepthwiseStore<T> &to) {
  constexpr int kSums = (K + Step - 1) / Step;
  GroupedSource<From, T, kTwo> source(tile.zero_point, window);
  Vector<T> acc[kSums][R] = {};
  const From *const *pixels = tile.pixels, *ahead = tile.ahead;
  add_group<0, K - Step, K, Step>(source, tile, channels, pixels, acc);
  for (int64_t x = 0, at = c; x < to.columns; ++x, at += to.column, pixels += Step) {
    if (ahead) ahead = fetch_rows<R * Step, Step>(tile, ahead);
#pragma GCC unroll 32
    for (int y = 0; y < (R - 1) * Step + K; ++y)
#pragma GCC unroll 2
      for (int i = K - Step; i < K; ++i) {
        const From *next = pixels[y * tile.line_pixels + i] + window.ahead;
        __builtin_prefetch(next + window.low);
        if (kTwo) __builtin_prefetch(next + window.high);
      }
    add_group<K - Step, K, K, Step>(source, tile, channels, pixels, acc);
    store_vectors<From>(to, at, to.row, to.rows, c, count, acc[0]);
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i)
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) acc[i][r] = i + 1 < kSums ? acc[i + 1][r] : Vector<T>{};
  }
}

// P columns of one row, any kernel: as depthwise_any.
template <int P, bool kTwo, class From, class T>
POLYCONV_NOINLINE void grouped_any(const DepthwiseTile<From, T> &tile, const GroupedWindow<T> &window, int64_t channels,
                                   const DepthwiseRows &rows, const Axis &w, int64_t c, int count,
                                   const DepthwiseStore<T> &to) {
  GroupedSource<From, T, kTwo> source(tile.zero_point, window);
  Vector<T> acc[P] = {};
  for (int64_t i = 0; i < rows.count; ++i) {
    const T *weights = tile.weights + rows.taps[i].first * w.taps * tile.row_stride;
    for (int64_t k = 0; k < w.taps; ++k) {
      const From *const *first = tile.pixels + i * tile.line_pixels + k * w.dilation, *pixels[P];
#pragma GCC unroll 8
      for (int j = 0; j < P; ++j) pixels[j] = first[j * w.step];
      for (int64_t channel = 0; channel < channels; ++channel, weights += kDepthwiseUnit) {
        const Vector<T> weight = load(weights);
        source.set_channel(channel);
#pragma GCC unroll 8
        for (int j = 0; j < P; ++j) acc[j] = multiply_add(source(pixels[j]), weight, acc[j]);
      }
    }
  }
  store_vectors<From>(to, c, to.column, to.columns, c, count, acc);
}

// What depthwise_share is told to do with a block of channels.
struct GroupedFilter {
  template <class From, class T>
  POLYCONV_MEMBER static void filter(const DepthwiseGroup<From, T> &group, int64_t x, int64_t columns, int64_t c,
                                     int64_t end, const DepthwiseStore<T> &to) {
    const DepthwisePlan &p = group.plan;
    DepthwiseTile<From, T> tile = tile_at(group, x, columns, c);
    tile.row_stride = p.group_in * kDepthwiseUnit;
    const int64_t unit = p.axis[0].taps * p.axis[1].taps * p.axis[2].taps * tile.row_stride;
    for (; c < end; c += kLanes<T>, tile.ahead += tile.ahead ? kLanes<T> * columns * p.axis[2].step : 0) {
      const int count = end - c < kLanes<T> ? static_cast<int>(end - c) : kLanes<T>;
      tile.weights = static_cast<const T *>(group.run.weights) + c / kDepthwiseUnit * unit + c % kDepthwiseUnit;
      const GroupedWindow<T> window = window_of<T>(p, c);
      const bool two = p.sources[c + count - 1] + p.group_in > window.low + kLanes<T>;
      two ? filter_vector<true>(group, tile, window, c, count, to)
          : filter_vector<false>(group, tile, window, c, count, to);
    }
  }

 private:
  template <int Step, bool kTwo, class From, class T>
  POLYCONV_MEMBER static void sweep_rows(const DepthwisePlan &p, const DepthwiseTile<From, T> &tile,
                                         const GroupedWindow<T> &window, int64_t c, int count,
                                         const DepthwiseStore<T> &to) {
    if constexpr (kManyRegisters)
      if (p.tile_rows == kDepthwiseRows)
        return grouped_sweep<3, Step, kDepthwiseRows, kTwo>(tile, window, p.group_in, c, count, to);
    grouped_sweep<3, Step, kDepthwiseFew, kTwo>(tile, window, p.group_in, c, count, to);
  }
  template <bool kTwo, class From, class T>
  POLYCONV_MEMBER static void filter_vector(const DepthwiseGroup<From, T> &group, const DepthwiseTile<From, T> &tile,
                                            const GroupedWindow<T> &window, int64_t c, int count,
                                            const DepthwiseStore<T> &to) {
    const DepthwisePlan &p = group.plan;
    const DepthwiseRows rows = {group.taps, group.lines};
    if constexpr (Unrolled<From>::value)
      if (p.square)
        return p.axis[2].step == 2 ? sweep_rows<2, kTwo>(p, tile, window, c, count, to)
                                   : sweep_rows<1, kTwo>(p, tile, window, c, count, to);
    if (p.tile_columns == kDepthwiseColumns)
      return grouped_any<kDepthwiseColumns, kTwo>(tile, window, p.group_in, rows, p.axis[2], c, count, to);
    grouped_any<kGroupedColumns, kTwo>(tile, window, p.group_in, rows, p.axis[2], c, count, to);
  }
};

void grouped_task(const DepthwisePlan &plan, const LayerRun &run, const ItemShare &share) {
  depthwise_typed<GroupedFilter>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
