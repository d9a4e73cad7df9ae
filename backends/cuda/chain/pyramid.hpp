// pyramid.hpp - how cuda-chain/pyramid cuts a chain into blocks, and where each layer's tile lies in shared memory.
//
// A block computes a tile of the last layer's result for a few images. Backwards from it, each layer's tile is what the
// layers after it read: larger by their windows. Tiles of neighbouring blocks overlap, and the overlap is computed
// twice; nothing is exchanged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"

namespace polyconv::cuda::chain {

inline constexpr int64_t kSharedBytes = 227 << 10;
inline constexpr int kMostThreads = 512;

// The part of a tensor that a block holds: rows and columns from begin + tile * step on, all channels.
struct Map {
  int32_t begin[2], step[2], extent[2]; // H and W
  int32_t size[2], channels;            // of the tensor
  int32_t offset, pitch, plane;         // floats: from an image's begin, row to row, channel to channel
  int32_t type;                         // its elements are rounded to
  float padding;                        // what the layer that reads it finds outside the tensor
};

// One layer.
struct Stage {
  Map output;                                  // before pooling; only where it pools
  int32_t group_in, group_out, channel_blocks; // channels of a group; blocks of a thread's channels in all groups
  int32_t taps[2], stride[2], dilation[2], pad[2];
  int32_t pool_kind, pool_window[2], pool_stride[2], pool_pad[2], count_include_pad;
  int32_t weights, weight_count; // floats in shared memory
  int32_t residual_map;          // the map that it adds, or -1
  int32_t residual_type, activation, out_zero_point;
  int32_t residual_stride[4], residual_offset;
  float alpha, residual_scale, out_scale;
};

// What of the stages changes from run to run.
struct Pointers {
  const float *weights[POLYCONV_MAX_CHAIN];
  const float *bias[POLYCONV_MAX_CHAIN], *scale[POLYCONV_MAX_CHAIN]; // NULL where the layer has none
  const void *residual[POLYCONV_MAX_CHAIN];
  const void *input;
  void *result;
};

struct Pyramid {
  int32_t layers;
  int32_t images, batch;       // of a block, of all
  int32_t tiles[2];            // of an image
  int32_t image_floats;        // shared memory of an image, which begins behind the weights
  int32_t arena;               // floats before it
  Map map[POLYCONV_MAX_CHAIN]; // map i is what layer i reads
  Stage stage[POLYCONV_MAX_CHAIN];
  int32_t input_stride[4], input_offset, result_stride[4], result_offset;
  int32_t result_type, result_size[2], result_tile[2];
};

// Which tile is wanted, and what it costs: for the estimate and for the offer.
struct PyramidConfig {
  int rows, columns, threads; // of the last result, at most
};
struct PyramidCost {
  int64_t blocks;
  int threads;
  int64_t shared_bytes;
  double products, recomputed; // of all blocks
};

inline constexpr int kChannels = 4, kColumns = 4; // a thread's output channels and columns

// False, with the reason in `offer`, where the tile does not fit.
bool make_pyramid(const polyconv_request &request, const PyramidConfig &config, Pyramid &p, PyramidCost &cost,
                  sdk::Offer &offer);

int64_t packed_bytes(const polyconv_layer &l);
void pack_weights(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::chain
