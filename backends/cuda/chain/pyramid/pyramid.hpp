// pyramid.hpp - how cuda-chain/pyramid cuts a chain into tiles, and where each layer's tile lies in shared memory.
//
// A group of threads computes a tile of the last layer's result for a few images. Backwards from it, each layer's tile
// is what the layers after it read: larger by their windows. Neighbouring tiles overlap, and the overlap is computed
// twice; nothing is exchanged. Several groups share a block and its weights, and each goes its own pace, so that one
// computes while another stages or waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/instance.hpp"

namespace polyconv::cuda::chain {

inline constexpr int kMostThreads = 384;
inline constexpr int kUnrolledColumns = 7, kLoopColumns = 4; // of a thread, in a row

// The part of a tensor that a group holds: rows and columns from begin + tile * step on, all channels.
struct Map {
  int32_t begin[2], step[2], extent[2]; // H and W
  int32_t size[2], channels;            // of the tensor
  int32_t offset, pitch, plane;         // floats: from an image's begin, row to row, channel to channel
  int32_t type;                         // its elements are rounded to
  float padding;                        // what the layer that reads it finds outside the tensor,
  int32_t pad_mode;                     // or how that repeats what is inside
};

// How a thread sums: `channels` output channels of a few columns. Filters of `size` squared at `stride` are unrolled; 0
// loops over taps.
struct Shape {
  int32_t size, stride, channels;
  POLYCONV_HOST_DEVICE constexpr int32_t id() const { return size * 100 + stride * 10 + channels; }
  POLYCONV_HOST_DEVICE constexpr int columns() const { return size > 0 ? kUnrolledColumns : kLoopColumns; }
  POLYCONV_HOST_DEVICE constexpr int row() const {
    return channels == 1 ? 1 : (channels + 3) / 4 * 4;
  } // weights of a tap
};

// One layer.
struct Stage {
  Map output;                                  // before pooling; only where there are two passes
  int32_t shape;                               // Shape::id
  int32_t group_in, group_out, channel_blocks; // channels of a group; blocks of a thread's channels in a group
  int32_t all_blocks;                          // in all groups
  int32_t taps[2], stride[2], dilation[2], pad[2];
  int32_t two_passes; // sums lie in shared memory before they are finished: more than bias and relu, or the last layer
  int32_t simple;     // in the second of two: no more than a bias, a relu and the maximum of a window
  int32_t relu;       // in the first of one
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
  int32_t threads, groups;     // of a group; of a block
  int32_t images, batch;       // of a group, of all
  int32_t tiles[2];            // of an image
  int32_t units;               // tiles of all images, that groups take in turns
  int32_t image_floats, arena; // shared memory of an image; of the weights before the first
  Map map[POLYCONV_MAX_CHAIN]; // map i is what layer i reads
  Stage stage[POLYCONV_MAX_CHAIN];
  int32_t input_stride[4], input_offset, result_stride[4], result_offset; // N C H W
  int32_t result_type, result_size[2], result_tile[2];
};

struct PyramidConfig {
  int rows, columns;           // of the last result's tile, at most
  int threads, images, groups; // at most
  int channels;                // of a thread, at most
};
// What a pyramid costs: for the estimate and the offer.
struct PyramidCost {
  int64_t shared_bytes;
  int64_t least_bytes; // of shared memory that would do; where it does not fit
  double slots, path;  // warp instructions of a group for a tile; and those of its busiest warp
  double recomputed;   // outputs of inner layers computed more than once, in all
};

// False where the tile does not fit into `shared` bytes (with the least that would do in `cost`), or, with the reason
// in `offer`, where no tile would help.
bool make_pyramid(const polyconv_request &request, const PyramidConfig &config, int64_t shared, Pyramid &p,
                  PyramidCost &cost, sdk::Offer &offer);

Shape shape_of(const polyconv_layer &l, int channels); // at most so many
int64_t packed_bytes(const polyconv_layer &l, int channels);
void pack_weights(const polyconv_layer &l, int channels, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::chain
