// sums.cuh - where the sums of a tile lie in threads, and how they leave: through shared memory, so that neighbouring
// threads store neighbouring elements in either layout, with the epilogue on the way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/epilogue.cuh"
#include "product/product.hpp"
#include "product/sources.cuh"

namespace polyconv::cuda::gemm {

// What is the same for every thread, and where threads stand in a tile. Sums lie in vectors of 16 bytes: vector v of a
// thread's pixels is at pixel(v), and consecutive lanes have consecutive vectors.
template <class T, class Tile>
struct Frame {
  static constexpr int vector = 16 / sizeof(T);
  static constexpr int row = Tile::pixels + vector; // of activations in shared memory; more than the tile, so that
                                                    // turned vectors spread over the banks
  static constexpr int pixel_vectors = Tile::thread_pixels / vector;
  static constexpr int channel_vectors = Tile::thread_channels / vector;
  static constexpr int activations = Tile::depth * row, weights = Tile::depth * Tile::channels;
  static constexpr int stage = activations + weights; // elements of one

  // Blocks that share a multiprocessor: what the registers of the sums allow.
  static constexpr int sum_bytes = Tile::thread_pixels * Tile::thread_channels * sizeof(T);
  static constexpr bool wide = sum_bytes > 256 || sizeof(T) == 8;
  static constexpr int blocks = (wide ? 256 : sum_bytes > 128 ? 384 : 512) / Tile::threads;

  int pixel, channel; // of the thread's first vectors

  __device__ Frame() : Frame(static_cast<int>(threadIdx.x)) {}
  __device__ explicit Frame(int thread) {
    const int warp = thread / 32, lane = thread % 32;
    // Pairs of lanes share pixels, so that every quarter of a warp reads few different addresses of either operand.
    pixel = warp % Tile::warps_along * Tile::warp_pixels + (lane >> 1 & 7) * vector;
    channel = warp / Tile::warps_along * Tile::warp_channels + ((lane & 1) | lane >> 4 << 1) * vector;
  }
};

template <class T>
struct alignas(16) Vector {
  T element[16 / sizeof(T)];
};

template <class T, class Tile>
using Sums = T[Tile::thread_pixels][Tile::thread_channels];

// Shared memory when the sums leave: half of the channels at a time, then what is known of pixels and channels.
template <class T, class Tile>
struct Leaving {
  using F = Frame<T, Tile>;
  static constexpr int parts = F::channel_vectors > 1 ? 2 : 1, part = Tile::channels / parts;
  static constexpr int warp_part = Tile::warp_channels / parts;
  static constexpr int row_of_pixels = Tile::pixels + F::vector, row_of_channels = part + F::vector; // both ways
  static constexpr int staged =
      row_of_pixels * part > row_of_channels *Tile::pixels ? row_of_pixels *part : row_of_channels *Tile::pixels;
  static_assert(Tile::threads % Tile::pixels == 0 || Tile::pixels % Tile::threads == 0, "threads keep their pixel");
  static_assert(Tile::threads % part == 0, "threads keep their channel");

  T sums[staged], scale[Tile::channels], bias[Tile::channels];
  int64_t offset[Tile::pixels]; // of channel 0 in the result
  Pixel pixel[Tile::pixels];

  // The tile's channel of row y of a part.
  __device__ static int channel_of(int y, int of) {
    return y / warp_part * Tile::warp_channels + of * warp_part + y % warp_part;
  }
};

// Puts one part of the thread's sums where threads that are neighbours in memory find them.
template <class T, class Tile, int Part>
__device__ inline void stage_part(T *staged, const Sums<T, Tile> &sums, bool channels_inner) {
  using F = Frame<T, Tile>;
  using L = Leaving<T, Tile>;
  const F at;
  constexpr int vectors = F::channel_vectors / L::parts;
  const int warp_channel = at.channel / Tile::warp_channels * L::warp_part;
#pragma unroll
  for (int pv = 0; pv < F::pixel_vectors; ++pv)
#pragma unroll
    for (int cv = 0; cv < vectors; ++cv) {
      const int pixel = at.pixel + pv * 8 * F::vector;
      const int channel = warp_channel + at.channel % Tile::warp_channels + cv * 4 * F::vector;
#pragma unroll
      for (int line = 0; line < F::vector; ++line) {
        Vector<T> v;
#pragma unroll
        for (int e = 0; e < F::vector; ++e)
          v.element[e] = channels_inner ? sums[pv * F::vector + line][(Part * vectors + cv) * F::vector + e]
                                        : sums[pv * F::vector + e][(Part * vectors + cv) * F::vector + line];
        T *to = channels_inner ? staged + (pixel + line) * L::row_of_channels + channel
                               : staged + (channel + line) * L::row_of_pixels + pixel;
        *reinterpret_cast<Vector<T> *>(to) = v;
      }
    }
}

// Element (x, y) of a part, for every pair that is this thread's: neighbouring threads are neighbours in memory.
template <class T, class Tile, int Unroll, class Body>
__device__ inline void for_elements(bool channels_inner, const Body &body) {
  constexpr int part = Leaving<T, Tile>::part;
  const int thread = threadIdx.x;
  if (channels_inner) {
    const int y = thread % part;
#pragma unroll Unroll
    for (int x = thread / part; x < Tile::pixels; x += Tile::threads / part) body(x, y);
  } else if constexpr (Tile::threads >= Tile::pixels) {
    const int x = thread % Tile::pixels;
#pragma unroll Unroll
    for (int y = thread / Tile::pixels; y < part; y += Tile::threads / Tile::pixels) body(x, y);
  } else {
#pragma unroll 1
    for (int x = thread; x < Tile::pixels; x += Tile::threads)
#pragma unroll Unroll
      for (int y = 0; y < part; ++y) body(x, y);
  }
}

// Partial sums lie channels outside, whatever the result does.
__device__ inline bool inner_of(const Product &p) {
  return p.conv.channels_inner && p.splits == 1;
}

// What relu leaves between, clipped or not; NaN stays.
template <class T>
struct Bounds {
  T low, high;

  __device__ explicit Bounds(const Epilogue &e)
      : low(e.activation == POLYCONV_ACT_NONE ? T(-INFINITY) : T(0)),
        high(e.activation == POLYCONV_ACT_CLIPPED_RELU ? static_cast<T>(e.alpha) : T(INFINITY)) {}
  __device__ T operator()(T v) const { return v < low ? low : v > high ? high : v; }
};

// Where p.vectors: 16 bytes of channels at a time. `first`: the tile's first channel.
template <class T, class Tile>
__device__ inline void store_vectors(const Product &p, const Leaving<T, Tile> &l, int part, int pixels, int channels,
                                     int64_t first) {
  using L = Leaving<T, Tile>;
  constexpr int vector = 16 / sizeof(T), lanes = L::part / vector;
  const Epilogue &e = p.conv.epilogue;
  const int thread = threadIdx.x, y = thread % lanes * vector, c = L::channel_of(y, part);
  if (c >= channels) return;
  const auto at = [](const T *from) { return *reinterpret_cast<const Vector<T> *>(from); };
  const Vector<T> scale = at(l.scale + c), bias = at(l.bias + c);
  const Bounds<T> bounds(e);
  T *const result = static_cast<T *>(p.result) + first + c;
  const auto *residual = static_cast<const T *>(e.residual);
  if (residual) residual += p.conv.residual.offset - p.conv.result.offset + first + c;
#pragma unroll 4
  for (int x = thread / lanes; x < pixels; x += Tile::threads / lanes) {
    Vector<T> v = at(l.sums + x * L::row_of_channels + y), r = {};
    if (residual) r = at(residual + l.offset[x]);
#pragma unroll
    for (int i = 0; i < vector; ++i) {
      T &value = v.element[i];
      value = add(multiply(value, scale.element[i]), bias.element[i]);
      if (residual) value = add(value, multiply(static_cast<T>(e.residual_scale), r.element[i]));
      value = bounds(value);
    }
    *reinterpret_cast<Vector<T> *>(result + l.offset[x]) = v;
  }
}

template <class T, class Tile>
__device__ inline void store_part(const Product &p, const Leaving<T, Tile> &l, int part, int64_t pixel, int32_t channel,
                                  int32_t group) {
  using L = Leaving<T, Tile>;
  const Epilogue &e = p.conv.epilogue;
  const bool partial = p.splits > 1, inner = inner_of(p);
  const int pixels = static_cast<int>(min(p.pixels - pixel, int64_t{Tile::pixels}));
  const int channels = p.group_out - channel;
  const int64_t apart = partial ? p.partials_row : p.conv.result.stride[1],
                first = (static_cast<int64_t>(group) * p.group_out + channel) * apart;
  if (p.vectors && inner) return store_vectors<T, Tile>(p, l, part, pixels, channels, first);
  const auto scaled = [&](int x, int y, int c) {
    const T sum = inner ? l.sums[x * L::row_of_channels + y] : l.sums[y * L::row_of_pixels + x];
    return add(multiply(sum, l.scale[c]), l.bias[c]);
  };
  constexpr int32_t kType = sizeof(T) == 8 ? POLYCONV_F64 : POLYCONV_F32;
  if (partial || (!e.residual && e.save == POLYCONV_SAVE_NONE && e.activation <= POLYCONV_ACT_CLIPPED_RELU &&
                  e.result_type == kType)) {
    const Bounds<T> bounds(e);
    T *const result = static_cast<T *>(partial ? p.partials : p.result) + first;
    for_elements<T, Tile, 4>(inner, [&](int x, int y) {
      const int c = L::channel_of(y, part);
      const T v = scaled(x, y, c);
      if (x < pixels && c < channels) result[l.offset[x] + c * apart] = partial ? v : bounds(v);
    });
    return;
  }
  for_elements<T, Tile, 1>(inner, [&](int x, int y) {
    const int c = L::channel_of(y, part);
    if (x >= pixels || c >= channels) return;
    const Pixel o = l.pixel[x];
    const Place<int64_t> at = {o.n, static_cast<int64_t>(group) * p.group_out + channel + c, o.d, o.h, o.w};
    store(p.result, e.result_type, l.offset[x] + first + c * apart,
          finish_scaled(p.conv, scaled(x, y, c), at, p.activations));
  });
}

// Where p.rows: out of registers, 16 bytes of pixels at a time, of which eight lanes store a whole line.
template <class T, class Tile>
__device__ inline void leave_rows(const Product &p, const Sums<T, Tile> &sums, int64_t pixel, int32_t channel,
                                  int32_t group) {
  using F = Frame<T, Tile>;
  const F at;
  const Epilogue &e = p.conv.epilogue;
  const Bounds<T> bounds(e);
  T *to[F::pixel_vectors];
  bool there[F::pixel_vectors];
#pragma unroll
  for (int pv = 0; pv < F::pixel_vectors; ++pv) {
    const int64_t mine = pixel + at.pixel + pv * 8 * F::vector;
    const Pixel o = pixel_at(p, min(mine, p.pixels - 1));
    there[pv] = mine < p.pixels;
    to[pv] = static_cast<T *>(p.result) + p.conv.result.at(o.n, 0, o.d, o.h, o.w);
  }
#pragma unroll
  for (int j = 0; j < Tile::thread_channels; ++j) {
    const int32_t in_group = channel + at.channel + j / F::vector * 4 * F::vector + j % F::vector;
    if (in_group >= p.group_out) continue;
    const int64_t c = static_cast<int64_t>(group) * p.group_out + in_group;
    const T scale = e.scale ? load<T>(e.scale, e.scale_type, c) : T(1);
    const T bias = e.bias ? load<T>(e.bias, e.bias_type, c) : T(-0.0); // changes no sum, zeros included
#pragma unroll
    for (int pv = 0; pv < F::pixel_vectors; ++pv) {
      Vector<T> v;
#pragma unroll
      for (int i = 0; i < F::vector; ++i)
        v.element[i] = bounds(add(multiply(sums[pv * F::vector + i][j], scale), bias));
      if (there[pv]) *reinterpret_cast<Vector<T> *>(to[pv] + c * p.conv.result.stride[1]) = v;
    }
  }
}

// The end of a tile: every thread has its sums, and nobody uses shared memory any more.
template <class T, class Tile>
__device__ inline void leave(const Product &p, const Sums<T, Tile> &sums, void *shared, int64_t pixel, int32_t channel,
                             int32_t group) {
  auto &l = *static_cast<Leaving<T, Tile> *>(shared);
  const Epilogue &e = p.conv.epilogue;
  const bool partial = p.splits > 1, inner = inner_of(p);
  if (p.rows && !partial) return leave_rows<T, Tile>(p, sums, pixel, channel, group);
  for (int i = threadIdx.x; i < Tile::pixels; i += Tile::threads) {
    const Pixel o = pixel_at(p, min(pixel + i, p.pixels - 1));
    l.pixel[i] = o;
    l.offset[i] = partial ? blockIdx.y * p.partials_row * p.groups * p.group_out + pixel + i
                          : p.conv.result.at(o.n, 0, o.d, o.h, o.w);
  }
  for (int i = threadIdx.x; i < Tile::channels; i += Tile::threads) {
    const int64_t c = static_cast<int64_t>(group) * p.group_out + min(channel + i, p.group_out - 1);
    l.scale[i] = e.scale && !partial ? load<T>(e.scale, e.scale_type, c) : T(1);
    l.bias[i] = e.bias && !partial ? load<T>(e.bias, e.bias_type, c) : T(-0.0); // changes no sum, zeros included
  }
  const auto leave_part = [&](auto part) {
    constexpr int kPart = decltype(part)::value;
    if (inner)
      stage_part<T, Tile, kPart>(l.sums, sums, true);
    else
      stage_part<T, Tile, kPart>(l.sums, sums, false);
    __syncthreads();
    store_part<T, Tile>(p, l, kPart, pixel, channel, group);
    __syncthreads();
  };
  leave_part(std::integral_constant<int, 0>{});
  if constexpr (Leaving<T, Tile>::parts == 2) leave_part(std::integral_constant<int, 1>{});
}

} // namespace polyconv::cuda::gemm
