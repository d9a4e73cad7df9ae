// mobile.hpp - how the chains of MobileNets are cut into blocks: a 3 x 3 depthwise layer followed by a 1 x 1
// layer, with or without a 1 x 1 layer before them.
//
// A unit is a strip of 8 pixels by Rows of the result. A warp computes two units, which are the 16 rows of a matrix
// instruction; a tile is units side by side and below each other, or those of several small images. The channels
// between the layers go in chunks, of which the next is on its way while one is worked on; `shares` warps have the same
// units and share the channels of a chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>
#include <polyconv/sdk/kernel.hpp>

#include <cstdint>

namespace polyconv::cuda::mobile {

inline constexpr int kUnitWidth = 8;
inline constexpr int kGroup = 16;          // channels that a matrix instruction reduces
inline constexpr int kFilterBytes = 32;    // a channel's nine taps, packed
inline constexpr int kFragmentBytes = 512; // 16 x 16 weights in the order of a warp's registers
inline constexpr int kTableBytes = 80;     // before the positions of a table

// Threads of a block, at most: sums are most of a thread's registers.
constexpr int most_threads(int rows, int pairs) {
  return rows * pairs > 8 || (rows == 4 && pairs == 2) ? 256 : 384;
}

// Channels of a chunk: tiles of tall units have many positions.
__host__ __device__ constexpr int chunk_of(int rows) {
  return rows == 4 ? 32 : 64;
}

// A tensor with channels last, in elements.
struct Pixels {
  int64_t image = 0;
  int32_t row = 0, pixel = 0;
};

// What follows the sums of a layer: a bias, and relu, clipped relu or nothing, as bounds.
struct Ending {
  const float *bias = nullptr;
  float low = 0, high = 0;
};

struct Mobile {
  const void *input = nullptr, *residual = nullptr;
  void *result = nullptr;
  const void *expand = nullptr, *filters = nullptr, *project = nullptr; // packed weights
  Ending expanded, filtered, projected;
  float residual_scale = 1;
  Pixels in_at, out_at, residual_at;
  int32_t in[2] = {}, out[2] = {}, pad[2] = {}, batch = 0; // H, W
  int32_t channels = 0, hidden = 0, results = 0;           // of the chain's input, between the layers, of the result
  int32_t step = 0, rows = 0;                              // the depthwise stride; of a unit
  int32_t units[2] = {}, images = 0;                       // of a tile
  int32_t patch[2] = {};                                   // positions of the depthwise layer's input, for each image
  int32_t tiles[2] = {}, groups_of_images = 0;
  int32_t shares = 0, pairs = 0, slices = 0; // pairs of 8 result channels in a block; blocks a tile
  int32_t vectors_in = 0, vectors_out = 0;   // whether 16 and 8 bytes can be moved at once
  int32_t vectors_residual = 0;              // and 16 of a residual where 8 of the result can
  int32_t in_place = 0;                      // the residual is the result itself
  int32_t stages = 0, resident = 0;          // chunks in shared memory at once; whether all weights stay there

  __host__ __device__ int32_t chunk() const { return chunk_of(rows); }
  __host__ __device__ int32_t positions() const { return images * patch[0] * patch[1]; }
  __host__ __device__ int32_t all_units() const { return images * units[0] * units[1]; }
  __host__ __device__ int32_t warps() const { return (all_units() + 1) / 2 * shares; }
  __host__ __device__ int32_t all_tiles() const { return groups_of_images * tiles[0] * tiles[1] * slices; }
  __host__ __device__ int32_t chunks() const { return (hidden + chunk() - 1) / chunk(); }
  __host__ __device__ int32_t hidden_groups() const { return (hidden + kGroup - 1) / kGroup; }
  __host__ __device__ int32_t channel_groups() const { return (channels + kGroup - 1) / kGroup; }
  // Bytes of a position: an odd number of 16, so that eight neighbours lie in all banks.
  __host__ __device__ int32_t pitch() const { return chunk() * 2 + 16; }
  __host__ __device__ int32_t input_pitch() const { return channel_groups() * kGroup * 2 + 16; }
  __host__ __device__ int32_t hidden_bytes() const { return positions() * pitch(); }
  __host__ __device__ int32_t filter_bytes() const { return chunk() * kFilterBytes; }
  __host__ __device__ int32_t project_bytes() const { return chunk() / kGroup * pairs * kFragmentBytes; }
  __host__ __device__ int32_t expand_bytes() const { return chunk() / kGroup * channel_groups() * kFragmentBytes; }
  // Weights of a chunk.
  __host__ __device__ int32_t pair_bytes() const { return filter_bytes() + project_bytes(); }
  __host__ __device__ int32_t inverted_bytes() const { return expand_bytes() + pair_bytes(); }
  __host__ __device__ int32_t hidden_biases() const { return hidden_groups() * kGroup; }
  __host__ __device__ int32_t result_biases() const { return slices * pairs * 16; }
};

// A config: rows of a unit, warps that share the channels of a chunk.
struct MobileConfig {
  int rows, shares;
};

using MobileKernel = void (*)(Mobile);
template <class T>
MobileKernel find_pair(int rows, int step, int pairs); // null where there is none
template <class T>
MobileKernel find_inverted(int rows, int step, int pairs);

// The layers of a chain: expand is null where it has none.
struct MobileLayers {
  const polyconv_layer *expand, *filter, *project;
};

// A way to compute a chain, and what it takes.
struct MobilePlan {
  Mobile shape; // all but the pointers
  int64_t shared_bytes = 0, blocks = 0;
  int together = 0; // blocks on a multiprocessor
  double us = 0;
};

// Whether the kernels take these layers; else says in `offer` which does not fit, and why.
bool mobile_takes(const MobileLayers &layers, sdk::Offer &offer);
bool mobile_takes_form(const MobileLayers &layers, sdk::Offer &offer); // but for types
// The layers and tensors of a chain; no tiles, and no pointers.
Mobile mobile_shape(const MobileLayers &layers);
// The pointers of a run of `count` layers, and what may be moved at once through them.
void set_pointers(const polyconv_layer *layers, int count, const polyconv_arguments &arguments, Mobile &m);
// The best tiles of a config; false, with the least shared memory that would do in `offer`, where none fits.
bool plan_mobile(const MobileLayers &layers, const MobileConfig &config, int64_t most_shared, MobilePlan &plan,
                 sdk::Offer &offer);

// Packed weights.
int64_t filters_bytes(int64_t channels);
int64_t fragments_bytes(int64_t in, int64_t out, int64_t pairs); // `out` in slices of 16 pairs
void pack_filters(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);
void pack_fragments(const polyconv_layer &l, int64_t pairs, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::mobile
