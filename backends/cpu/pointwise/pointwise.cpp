// pointwise.cpp - 1x1 convolution of f32, channels first, stride 1, unpadded: a matrix product with pixels along the
// vectors, read and written in place.
//
// Floor: the multiply-adds at the FMA rate; with few channels, the input and output once at the memory's.
//
// A task: tiles of pixels, each against every panel of output channels, so that the tile's pixels stay in the cache.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/finish.hpp"
#include "cpu/pointwise/tile.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int64_t kJoinAhead = 8; // channels that joined pixels are fetched ahead

// The first pixel of a group's first channel.
POLYCONV_INLINE const float *source_of(const PointwisePlan &p, const LayerRun &run, int64_t image, int64_t group) {
  return static_cast<const float *>(run.input) + p.input.offset + image * p.input.stride[0] +
         group * p.group_in * p.input.stride[1];
}

// `channels` rows of `pixels` pixels, side by side in whole vectors; the lanes beyond are zero. The next tile's lines
// are fetched meanwhile.
POLYCONV_INLINE void copy_tile(const float *in, int64_t stride, int64_t channels, int64_t pixels, int64_t width,
                               float *out) {
  for (int64_t c = 0; c < channels; ++c, in += stride, out += width) {
    __builtin_prefetch(in + width);
    for (int64_t i = 0; i < width; i += kF32Lanes) {
      const int64_t rest = pixels - i;
      store(out + i, rest >= kF32Lanes ? load(in + i) : load_partial(in + i, static_cast<int>(rest)));
    }
  }
}

// The last pixels of `images` images, the first at `in`, side by side in one vector; the lanes beyond are zero.
POLYCONV_INLINE void join_pixels(const PointwisePlan &p, const float *in, int64_t images, float *out) {
  const int pixels = static_cast<int>(p.joined_pixels);
  for (int64_t c = 0; c < p.group_in; ++c, in += p.input.stride[1], out += kF32Lanes) {
    store(out, F32{});
    for (int64_t i = 0; i < images; ++i) {
      const float *image = in + i * p.input.stride[0];
      __builtin_prefetch(image + kJoinAhead * p.input.stride[1]);
      store_partial(out + i * pixels, load_partial(image, pixels), pixels);
    }
  }
}

// The vector that images [image, image + images) share against panels [first, last) of one group.
POLYCONV_INLINE void run_joined(const PointwisePlan &p, const LayerRun &run, const GridShare &share, int64_t image,
                                int64_t images, int64_t group, int64_t first, int64_t last) {
  const int64_t pixel = p.pixels - p.joined_pixels;
  float *source = reinterpret_cast<float *>(share.scratch);
  float *sums = reinterpret_cast<float *>(share.scratch + p.sums_at);
  join_pixels(p, source_of(p, run, image, group) + pixel, images, source);
  PointwiseTile tile = {};
  tile.source = source, tile.source_stride = kF32Lanes;
  tile.weight_stride = p.panel_channels, tile.channels = p.group_in;
  tile.result = sums, tile.result_stride = kF32Lanes, tile.last_lanes = kF32Lanes;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = piece(p.group_out, p.panels, panel), rows = piece(p.group_out, p.panels, panel + 1) - begin;
    tile.weights = static_cast<const float *>(run.weights) + (group * p.panels + panel) * p.group_in * p.panel_channels;
    pointwise_tile_of<1>(rows, tile);
    for (int64_t i = 0; i < images; ++i) {
      const Row row = {image + i, group * p.group_out + begin, 0, 0, pixel, 4};
      finish_rows(run.epilogue, sums + i * p.joined_pixels, kF32Lanes, rows, p.joined_pixels, row);
    }
  }
}

// `pixels` of one image, a tile's, against panels [first, last) of one group.
POLYCONV_INLINE void run_pixels(const PointwisePlan &p, const LayerRun &run, const GridShare &share, int64_t image,
                                int64_t pixel, int64_t pixels, int64_t group, int64_t first, int64_t last) {
  const Epilogue &e = run.epilogue;
  const int64_t vectors = (pixels + kF32Lanes - 1) / kF32Lanes;
  PointwiseTile tile = {};
  tile.source = source_of(p, run, image, group) + pixel;
  tile.source_stride = p.input.stride[1];
  if (p.copies || pixels % kF32Lanes != 0) {
    float *copy = reinterpret_cast<float *>(share.scratch);
    copy_tile(tile.source, tile.source_stride, p.group_in, pixels, vectors * kF32Lanes, copy);
    tile.source = copy;
    tile.source_stride = vectors * kF32Lanes;
  }
  tile.weight_stride = p.panel_channels;
  tile.channels = p.group_in;
  float *sums = reinterpret_cast<float *>(share.scratch + p.sums_at);
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t begin = piece(p.group_out, p.panels, panel), rows = piece(p.group_out, p.panels, panel + 1) - begin;
    const Row row = {image, group * p.group_out + begin, 0, 0, pixel, 4};
    tile.weights = static_cast<const float *>(run.weights) + (group * p.panels + panel) * p.group_in * p.panel_channels;
    tile.result = sums;
    tile.result_stride = p.tile_pixels;
    tile.last_lanes = kF32Lanes;
    if (p.stores_tiles) {
      tile.result = static_cast<float *>(e.output) + row_offset(e.result, row);
      tile.result_stride = e.result.stride[1];
      tile.last_lanes = static_cast<int>(pixels - (vectors - 1) * kF32Lanes);
      tile.bias = e.bias ? static_cast<const float *>(e.bias) + row.k : nullptr;
      tile.relu = e.rules.activation == POLYCONV_ACT_RELU;
      tile.stream = run.stream && pixels % kF32Lanes == 0;
    }
    if (vectors == 1)
      pointwise_tile_of<1>(rows, tile);
    else if (vectors == 2)
      pointwise_tile_of<2>(rows, tile);
    else
      pointwise_tile_of<kPointwiseWide>(rows, tile);
    if (!p.stores_tiles) finish_rows(e, sums, p.tile_pixels, rows, pixels, row);
  }
}

// One tile of one image against panels [first, last) of one group. What is left of a wide one goes as narrow ones.
POLYCONV_INLINE void run_tile(const PointwisePlan &p, const LayerRun &run, const GridShare &share, int64_t image,
                              int64_t pixel, int64_t group, int64_t first, int64_t last) {
  const int64_t left = p.pixels - p.joined_pixels - pixel,
                end = left < p.tile_pixels ? pixel + left : pixel + p.tile_pixels;
  const int64_t step = left < p.tile_pixels ? 2 * kF32Lanes : p.tile_pixels;
  for (; pixel < end; pixel += step)
    run_pixels(p, run, share, image, pixel, end - pixel < step ? end - pixel : step, group, first, last);
}

POLYCONV_INLINE void run_unit(const PointwisePlan &p, const LayerRun &run, const GridShare &share, int64_t unit,
                              int64_t group, int64_t first, int64_t last) {
  const int64_t together = p.joined * p.tiles + (p.joined > 1 ? 1 : 0);
  const int64_t image = unit / together * p.joined, tile = unit % together, rest = p.images - image;
  const int64_t images = rest < p.joined ? rest : p.joined;
  if (tile < images * p.tiles)
    run_tile(p, run, share, image + tile / p.tiles, tile % p.tiles * p.tile_pixels, group, first, last);
  else
    run_joined(p, run, share, image, images, group, first, last);
}

void pointwise_task(const PointwisePlan &p, const LayerRun &run, const GridShare &share) {
  for (int64_t panel = share.first_panel; panel < share.last_panel;) {
    const int64_t group = panel / p.panels, first = panel % p.panels, rest = share.last_panel - panel;
    const int64_t last = first + rest < p.panels ? first + rest : p.panels;
    for (int64_t unit = share.first_unit; unit < share.last_unit; ++unit)
      run_unit(p, run, share, unit, group, first, last);
    panel += last - first;
  }
  if (run.stream) streamed_stores_done();
}

} // namespace polyconv::cpu::POLYCONV_ISA
