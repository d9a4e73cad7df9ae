// maps.cpp - see maps.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma/maps.hpp"

#include <cstdlib>

#include "common/numbers.hpp"
#include "common/rows.hpp"
#include "emulated/emulated.hpp"
#include "pixel_matrix.hpp"

namespace polyconv::cuda::wgmma {
namespace {

CUtensorMapSwizzle swizzle_of(int64_t row_bytes) {
  return row_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

// Channels and pixels of a box of results.
struct ResultBox {
  int channels, pixels;
  MapLook look;

  ResultBox(const polyconv_layer &l, const Shape &shape) {
    const auto bytes = static_cast<int>(element_bytes(l));
    channels = shape.turned ? 128 / bytes : box_channels(shape.channels, bytes);
    pixels = shape.turned ? turned_pass_pixels(shape.pixels, bytes) : 16;
    look = {map_type(l.result.type), swizzle_of(channels * bytes), CU_TENSOR_MAP_L2_PROMOTION_NONE};
  }
};

} // namespace

// Axes C W H (D) N, a map for every pair of phases. The corners bound where pixels' first taps may lie.
void MapEncoders::activations(const polyconv_layer &l, const void *input, const Shape &shape, Product *product,
                              bool exact) const {
  const int64_t bytes = element_bytes(l);
  const Walk *walk = product->walk;
  const MapLook look = {exact ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : map_type(l.input.type), swizzle_of(shape.row)};
  for (int which = 0; which < 4; ++which) {
    const int phase[3] = {0, which / 2, which % 2};
    if (phase[1] >= walk[1].phases || phase[2] >= walk[2].phases) continue;
    MapShape axes({l.input.size[1]}, {});
    MapWindows windows;
    windows.channels = static_cast<uint32_t>(shape.row / bytes), windows.pixels = static_cast<uint32_t>(shape.pixels);
    int64_t begin = 0;
    for (int axis = 2; axis >= (product->flat ? 1 : 0); --axis) {
      const int64_t elements = (l.input.size[2 + axis] - phase[axis] + walk[axis].phases - 1) / walk[axis].phases;
      int &lower = windows.lower[axes.rank - 1];
      windows.steps[axes.rank] = static_cast<uint32_t>(walk[axis].step);
      lower = walk[axis].first[phase[axis]];
      windows.upper[axes.rank - 1] =
          static_cast<int>((l.output.size[2 + axis] - 1) * walk[axis].step + lower - (elements - 1));
      axes.add(elements, l.input.stride[2 + axis] * walk[axis].phases * bytes);
      begin += phase[axis] * l.input.stride[2 + axis];
    }
    axes.add(l.input.size[0], l.input.stride[0] * bytes);
    axes.settle(bytes);
    maps_.windows(axes, windows, look, static_cast<const char *>(input) + begin * bytes, "activations",
                  &product->activations[which]);
  }
}

// Axes C, taps, K: channels beyond the last are zeros, not the next tap's.
void MapEncoders::weights(const polyconv_layer &l, const WeightRows &rows, const void *memory, const Shape &shape,
                          CUtensorMap *map) const {
  const int64_t bytes = element_bytes(l);
  maps_.boxes({{rows.channels, sdk::taps(l), l.weights.size[0]}, {rows.tap * bytes, rows.filter * bytes}},
              {shape.row / bytes, 1, shape.channels}, {map_type(l.weights.type), swizzle_of(shape.row)}, memory,
              "weights", map);
}

void MapEncoders::weights(const polyconv_layer &l, const WeightRows &rows, const void *memory, const Shape &shape,
                          Product *product) const {
  weights(l, rows, memory, shape, &product->weights);
  Shape last = shape;
  const int64_t filters = l.weights.size[0], before = (ceil_div(filters, shape.channels) - 1) * shape.channels;
  last.channels = small(ceil_div(filters - before, 8) * 8); // a result's last 16 bytes may have zeros in them
  product->missing = shape.channels - last.channels;
  if (product->missing > 0) weights(l, rows, memory, last, &product->last_weights);
}

// Axes K, W H D of the window, C.
void MapEncoders::across(const polyconv_layer &l, const void *first, int64_t depth, CUtensorMap *map) const {
  const polyconv_tensor &w = l.weights;
  MapShape axes;
  axes.add(w.size[0]);
  for (const int axis : {4, 3, 2, 1}) axes.add(w.size[axis], std::abs(w.stride[axis]) * 2);
  axes.settle(2);
  maps_.boxes(axes, {64, 1, 1, 1, depth}, {map_type(w.type)}, first, "weights", map);
}

void MapEncoders::across(const polyconv_layer &l, const void *first, const Shape &shape, Product *product) const {
  across(l, first, 64, &product->weights);
  const int64_t filters = l.weights.size[0], before = (ceil_div(filters, shape.channels) - 1) * shape.channels;
  product->missing = shape.channels - small(ceil_div(filters - before, 64) * 64); // boxes that nobody wants
  product->taps_reversed = across_begin(l).taps_reversed ? 1 : 0;
}

// Axes C in whole blocks of depth, taps, K, parts.
void MapEncoders::parts(const polyconv_layer &l, const void *packed, const Shape &shape, CUtensorMap *map) const {
  const int64_t filters = l.weights.size[0], taps = sdk::taps(l), row = parts_bytes(l) / (3 * filters * taps); // bytes
  maps_.boxes({{row / 2, taps, filters, 3}, {row, row * taps, row * taps * filters}}, {32, 1, shape.channels, 3},
              {CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, CU_TENSOR_MAP_SWIZZLE_64B}, packed, "weights", map);
}

// Axes C W H N, or C W H D N.
void MapEncoders::patches(const polyconv_tensor &t, const void *memory, int columns, int rows, CUtensorMap *map,
                          int row_bytes, bool volume) const {
  const MapLook look = {map_type(t.type), swizzle_of(row_bytes)};
  if (volume)
    maps_.boxes(MapShape(t, {1, 4, 3, 2, 0}, 2), {row_bytes / 2, columns, rows, 1, 1}, look, memory, "patches", map);
  else
    maps_.boxes(MapShape(t, {1, 4, 3, 0}, 2), {row_bytes / 2, columns, rows, 1}, look, memory, "patches", map);
}

// Axes W C N.
void MapEncoders::rows(const polyconv_tensor &t, const void *memory, int channels, CUtensorMap *map) const {
  maps_.boxes(MapShape(t, {4, 1, 0}, 2), {64, channels, 1}, {map_type(t.type)}, memory, "pixels", map);
}

// Axes K, pixels.
void MapEncoders::results(const polyconv_layer &l, const void *result, const Shape &shape, CUtensorMap *map) const {
  ResultBox box(l, shape);
  if (element_bytes(l) == 4) box.look.type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  maps_.boxes({{l.result.size[1], l.result.size[0] * sdk::spatial(l.result)}, {row_of(l.result) * element_bytes(l)}},
              {box.channels, box.pixels}, box.look, result, "results", map);
}

// Axes C W H (D) N.
void MapEncoders::columns(const polyconv_layer &l, const void *result, const Shape &shape, bool flat,
                          CUtensorMap *map) const {
  const ResultBox box(l, shape);
  MapWindows windows;
  windows.channels = static_cast<uint32_t>(box.channels), windows.pixels = static_cast<uint32_t>(box.pixels);
  const int64_t bytes = element_bytes(l);
  const MapShape axes = flat ? MapShape(l.result, {1, 4, 3, 0}, bytes) : MapShape(l.result, {1, 4, 3, 2, 0}, bytes);
  maps_.windows(axes, windows, box.look, result, "results", map);
}

// Axes C W H (D) N. The corners bound where pixels' first taps may lie: from minus the padding to the last output's.
void MapEncoders::pixels(const polyconv_layer &l, bool gradients, const void *from, int depth, CUtensorMap *map) const {
  const polyconv_tensor &t = gradients ? l.output : l.input;
  const bool flat = is_flat(l);
  MapWindows windows;
  windows.channels = 64, windows.pixels = static_cast<uint32_t>(depth);
  for (int axis = 2; axis >= (flat ? 1 : 0) && !gradients; --axis) {
    windows.steps[3 - axis] = static_cast<uint32_t>(l.stride[axis]);
    windows.lower[2 - axis] = static_cast<int>(-l.pad_begin[axis]);
    windows.upper[2 - axis] = static_cast<int>(upper_corner(l, axis));
  }
  const MapShape axes = flat ? MapShape(t, {1, 4, 3, 0}, 2) : MapShape(t, {1, 4, 3, 2, 0}, 2);
  maps_.windows(axes, windows, {map_type(t.type)}, from, "pixels", map);
}

// Axes: 64 channels, pixels, chunks; or channels, pixels.
void MapEncoders::matrix(const polyconv_tensor &t, const void *from, int depth, int chunks, CUtensorMap *map) const {
  const int64_t channels = t.size[1], pixels = t.size[0] * sdk::spatial(t), row = row_of(t) * 2;
  const MapLook look = {map_type(t.type)};
  if (chunks == 1) return maps_.boxes({{channels, pixels}, {row}}, {64, depth}, look, from, "boxes", map);
  maps_.boxes({{64, pixels, channels / 64}, {row, 128}}, {64, depth, chunks}, look, from, "boxes", map);
}

} // namespace polyconv::cuda::wgmma
