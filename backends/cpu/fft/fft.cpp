// fft.cpp - large filters over planes by Fourier transforms of tiles, under math fast: planes of f32, f16, bf16, u8 and
// u16, and any layout of them.
//
// Floor: two transforms there and back of n^2 complex values for two tiles, 10 log2(n) operations a value of one tile,
// whatever the size of the filter; of n^2 values (n - taps + 1)^2 are results.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/finish.hpp"
#include "cpu/common/load.hpp"
#include "cpu/fft/transform.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Where a tile of the batch lies: its plane, and its first result.
struct FftTile {
  int64_t image, channel, d, h, w;
};
POLYCONV_INLINE FftTile tile_at(const FftPlan &p, int64_t tile) {
  const int64_t column = tile % p.columns, row = tile / p.columns % p.rows, plane = tile / p.columns / p.rows;
  const int64_t depth = p.axis[0].out;
  return {plane / depth / p.channels, plane / depth % p.channels, plane % depth, row * p.step, column * p.step};
}

// A tile's inputs; coordinates beyond the padding, which no result reads, are 0.
template <class From>
POLYCONV_NOINLINE void load_tile(const FftPlan &p, const void *input, const FftTile &tile, float *out) {
  const Load<From, float> convert(0);
  const Axis &rows = p.axis[1], &line = p.axis[2];
  const int64_t stride = p.input.stride[4], first = tile.w - line.before;
  const float padding = static_cast<float>(p.pad_value);
  const From *plane = static_cast<const From *>(input) + p.input.offset + tile.image * p.input.stride[0] +
                      tile.channel * p.input.stride[1] + tile.d * p.input.stride[2];
  for (int64_t r = 0; r < p.size; ++r, out += p.pitch) {
    const int64_t y = tile.h - rows.before + r;
    const bool beyond = y >= rows.in + rows.after;
    const int64_t source = beyond ? -1 : inside(rows, y);
    const From *in = plane + source * p.input.stride[3];
    const AxisRun run = axis_run(first, 1, line.in, line.in + line.after, p.size);
    for (int64_t x = source < 0 ? 0 : run.last; x < p.size; ++x) out[x] = beyond || x >= run.last ? 0 : padding;
    if (source < 0) continue;
    load_run(convert, in + (first + run.a) * stride, stride, run.b - run.a, out + run.a);
    for (int64_t x = run.a > 0 ? 0 : run.b; x < run.last; x = x + 1 == run.a ? run.b : x + 1) {
      const int64_t from = inside(line, first + x);
      out[x] = from < 0 ? padding : convert.one(in + from * stride);
    }
  }
}

POLYCONV_INLINE void load_typed(const FftPlan &p, const void *input, const FftTile &tile, float *out) {
  switch (p.input.type) {
    case POLYCONV_F32: return load_tile<float>(p, input, tile, out);
    case POLYCONV_F16: return load_tile<f16>(p, input, tile, out);
    case POLYCONV_BF16: return load_tile<bf16>(p, input, tile, out);
    case POLYCONV_U16: return load_tile<uint16_t>(p, input, tile, out);
    case POLYCONV_U8: return load_tile<uint8_t>(p, input, tile, out);
    default: return;
  }
}

POLYCONV_NOINLINE void multiply_spectra(const float *a, const float *b, int64_t n, float *out) {
  for (int64_t i = 0; i < n; i += kF32Lanes) {
    const Complex v = times<false>({load(a + i), load(a + n + i)}, load(b + i), load(b + n + i));
    store(out + i, v.re);
    store(out + n + i, v.im);
  }
}

POLYCONV_NOINLINE void finish_tile(const FftPlan &p, const Epilogue &e, const FftTile &tile, int64_t k,
                                   const float *sums) {
  const int64_t height = p.axis[1].out - tile.h, width = p.axis[2].out - tile.w;
  const int64_t rows = height < p.step ? height : p.step, columns = width < p.step ? width : p.step;
  Row at = {tile.image, k, tile.d, tile.h, tile.w, 4};
  for (int64_t r = 0; r < rows; ++r, ++at.h) finish_row(e, sums + r * p.pitch, columns, at);
}

void fft_task(const FftPlan &p, const LayerRun &run, const ItemShare &share) {
  const int64_t square = p.square;
  float *tiles = reinterpret_cast<float *>(share.scratch), *products = tiles + 2 * square;
  for (int64_t pair = share.first; pair < share.last; ++pair) {
    const int64_t in_plane = p.rows * p.columns, pairs = (in_plane + 1) / 2;
    const int64_t first = pair / pairs * in_plane + pair % pairs * 2;
    const bool both = pair % pairs * 2 + 1 < in_plane;
    const FftTile a = tile_at(p, first), b = tile_at(p, both ? first + 1 : first);
    load_typed(p, run.input, a, tiles);
    load_typed(p, run.input, b, tiles + square);
    transform_square(p, tiles, tiles + square);
    for (int64_t f = 0; f < p.filters; ++f) {
      const int64_t k = a.channel * p.filters + f;
      multiply_spectra(tiles, static_cast<const float *>(run.weights) + k * 2 * square, square, products);
      transform_square_back(p, products, products + square);
      finish_tile(p, run.epilogue, a, k, products);
      if (both) finish_tile(p, run.epilogue, b, k, products + square);
    }
  }
}

void fft_spectrum(const FftPlan &plan, float *spectrum) {
  transform_square(plan, spectrum, spectrum + plan.square);
}

} // namespace polyconv::cpu::POLYCONV_ISA
