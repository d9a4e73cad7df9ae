// planes.hpp - what the host knows of the Hopper product of channels first: tile shapes as configs, and the
// launch. Geometry and weights are those of wgmma/product.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

// How activations come. By taps: each tap's of a tile anew. Dense: depth counts channels, then taps, without gaps
// between channels, for layers of few. Near: a tile's pixels and those around them once for all taps.
enum class Reading { kTaps, kDense, kNear };

// Pixels, channels, the warpgroups that compute, teams, how activations come, the name.
#define POLYCONV_PLANES_TILES(tile)                                                     \
  tile(128, 256, 2, 1, kNear, "128x256n") tile(256, 128, 2, 1, kNear, "256x128n")       \
      tile(256, 64, 2, 1, kNear, "256x64n") tile(128, 256, 2, 1, kTaps, "128x256")      \
          tile(256, 128, 2, 1, kTaps, "256x128") tile(128, 128, 2, 1, kTaps, "128x128") \
              tile(256, 64, 2, 1, kTaps, "256x64") tile(128, 64, 2, 2, kDense, "128x64dt2")
#define POLYCONV_PLANES_SHAPE(pixels, channels, groups, teams, reading, name) \
  {{pixels, channels, groups, teams, 1, false, false}, Reading::reading},
struct PlanesShape : Shape {
  Reading reading;
};
inline constexpr PlanesShape kPlanesShapes[] = {POLYCONV_PLANES_TILES(POLYCONV_PLANES_SHAPE)};
inline constexpr int kPlanesShapeCount = sizeof kPlanesShapes / sizeof *kPlanesShapes;

// Whether sums leave by way of shared memory, in whole stores: pays where many leave, and costs a stage elsewhere.
constexpr bool leaves_turned(int channels, Reading reading) {
  return channels == 256 || reading == Reading::kDense;
}

inline constexpr int kMostDense = 160; // depth of a dense tile
inline constexpr int kNearStages = 2;  // of activations, in a near tile's shared memory
inline constexpr int kNearPlaces = 8;  // of a thread, in a channel's pixels

// Of a near tile: copies of a channel's row; pixels in it before the tile's first one; the place that the first tap of
// that one reads; bytes of a row, and of a stage's weights; stages of weights; shared memory.
struct Near {
  int32_t places = 0, before = 0, first_tap = 0, row = 0, weights_bytes = 0, weights_stages = 0, shared_bytes = 0;
};
// Without stages where shared memory does not hold two.
Near make_near(const polyconv_layer &layer, const PlanesShape &shape, int32_t vector);

struct PlanesProduct : Product {
  const float *input = nullptr;
  int32_t vector = 1; // neighbouring pixels of a channel that a copy brings, 1 or 4
  int32_t in[3] = {}, stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int64_t tap_offset[3] = {}; // elements of the input from one tap to the next
  Near near;
};

// The geometry of a layer and a run's pointers, without the map and what only near tiles need.
PlanesProduct make_planes(const polyconv_layer &layer, const polyconv_arguments &arguments, const Shape &shape);

// Weights of a dense tile: rows of channels, then taps, in whole 16 bytes.
int64_t dense_row(const polyconv_layer &layer);
void pack_dense(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);

// The kernel of a shape; `prepare` lets it use its shared memory.
struct PlanesLauncher {
  void (*prepare)();
  void (*launch)(const PlanesProduct &product, int multiprocessors, cudaStream_t stream);
};
PlanesLauncher product_planes(int shape);

} // namespace polyconv::cuda::wgmma
