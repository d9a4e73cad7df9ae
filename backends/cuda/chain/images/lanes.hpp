// lanes.hpp - two LeNets in f32, a lane an image: geometry, and how weights lie.
//
// Eight images share a block, and each thread has one of them, one half of a layer's columns or rows, and one block of
// its channels. So hardly a lane is ever without work, every address is known but for its beginning, and weights are
// the same for all lanes with the same channels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda::lanes {

inline constexpr int kMostLayers = 4;
inline constexpr int kImages = 8, kBlocks = 8, kThreads = kImages * 2 * kBlocks; // kBlocks: of channels
inline constexpr int kTogether = 5;                                              // on a multiprocessor

// A layer. `size`: rows and columns of its output; `pool`: of the window of maxima behind it, side by side; 1: none.
struct LayerShape {
  int taps, stride, pad, in, out, size, pool;
};
struct Net {
  int layers;
  LayerShape layer[kMostLayers];
  constexpr int result_size() const { return layer[layers - 1].size / layer[layers - 1].pool; }
  constexpr int results() const { return layer[layers - 1].out * result_size() * result_size(); }
};
inline constexpr Net kStrided = {
    4, {{5, 1, 2, 1, 6, 28, 1}, {4, 2, 0, 6, 16, 13, 1}, {3, 1, 1, 16, 8, 13, 1}, {3, 1, 0, 8, 4, 11, 1}}};
inline constexpr Net kPooled = {2, {{5, 1, 2, 1, 6, 28, 2}, {5, 1, 0, 6, 16, 10, 2}}};

// Weights: blocks of channels, in each a line for each input channel, or for each of these and each row of taps; in it
// [tap][channel]. Lines are whole vectors, those of blocks of one channel four together, and blocks begin in different
// banks.
struct Packing {
  int lines, line_taps, own; // own: channels of a block
  bool by_rows;              // line = row of taps * input channels + input channel
  constexpr int line() const { return own == 1 ? line_taps : (line_taps * own + 3) / 4 * 4; }
  constexpr int block() const { return lines * line() + 4; }
};
// The first layer's threads share rows and columns too, and so do those of the strided net's last.
constexpr Packing packing_of(const Net &net, int layer) {
  const LayerShape l = net.layer[layer];
  const int own = layer == 0 ? l.out / 2 : layer == 3 ? 1 : l.out / kBlocks;
  if (l.taps == 5) return {l.in * l.taps, l.taps, own, true};
  return {l.in, l.taps * l.taps, own, false};
}
constexpr int packed_floats(const Net &net, int layer) {
  const Packing packing = packing_of(net, layer);
  return packing.block() * (net.layer[layer].out / packing.own);
}
// Floats of shared memory before a layer's weights, counted from the first layer's; behind each, its biases.
constexpr int weights_before(const Net &net, int layer) {
  int floats = 0;
  for (int i = 0; i < layer; ++i) floats += packed_floats(net, i) + (net.layer[i].out + 3) / 4 * 4;
  return floats;
}

struct Lanes {
  const float *input;
  float *result;
  const float *weights[kMostLayers], *bias[kMostLayers]; // packed; NULL where there is no bias
  float floor[kMostLayers];                              // 0 of a relu, else minus infinity
  int32_t batch, groups;                                 // of images; of a block's images
  int32_t channel_step, pixel_step;                      // of the result
};

using Kernel = void (*)(Lanes);
Kernel kernel_of(const Net &net);
int shared_bytes_of(const Net &net);
void pack(const Net &net, const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream);

} // namespace polyconv::cuda::lanes
