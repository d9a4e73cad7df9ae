// few_out.hpp - the geometry of cuda-tensor/few_out: few filters on channels last.
//
// The rows of the product are (tap, filter) pairs and its columns the input's pixels, each of which is read once. An
// output is then the sum of one row at each of its taps' pixels. A block has a patch of the output's planes, and walks
// along the depth of a volume: each slice of the input adds its part to the outputs whose windows hold it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/divider.cuh"
#include "few/few.hpp"

namespace polyconv::cuda::few_out {

// One problem on one instance.
struct Geometry : few::Shape {
  few::Depth depth;
  int32_t rows, columns, deep; // of a patch: outputs
  int32_t down, across, along; // patches of an image
  int32_t waiting;             // planes of a patch whose sums wait in shared memory for further slices
  int32_t dense;               // 1: some tap reads each slice between the first and the last
  Divider by_step, by_waiting; // of depth; of planes
  int32_t vectors;             // of 64 bytes of a pixel's channels, four lanes with 16 each
  int32_t products;            // rows: taps x filters
  int32_t pitch;               // elements of a row of products in shared memory
  int32_t wide;                // 1: results are f32
};

// Pointers of one run. `outside`: what each row sums to where its pixel is in the padding, 0 or, where a weight is not
// finite, NaN.
struct Pointers {
  const void *x;
  const uint4 *weights;
  const float *outside;
  const float *bias; // NULL where there is none
  void *y;
};

inline constexpr int kMostThreads = 384; // of a multiprocessor, whose registers they take
inline constexpr int kPositions = 8;     // of a matrix instruction
inline constexpr int kPatchBytes = 80;   // of shared memory, for where a block works
// Matrix instructions that a warp has side by side, by tiles of rows: as many as registers hold.
__host__ __device__ constexpr int groups_of(int tiles) {
  return tiles > 4 ? 3 : 4;
}

struct Variant {
  int tiles; // of 16 rows
  int32_t type;
  bool aligned; // the input begins at whole 16 bytes; the next in the list does without
  void (*kernel)(Geometry g, Pointers p);
};
using Variants = few::List<Variant>;
Variants variants();

// Pixels of a patch's input, at most, and blocks that share a multiprocessor: of two the one loads and multiplies while
// the other adds up.
struct Config {
  int pixels, blocks;
  int threads() const { return kMostThreads / blocks; }
};
inline constexpr int kConfigCount = 4;
inline constexpr Config kConfigs[kConfigCount] = {{384, 1}, {768, 1}, {256, 2}, {512, 2}};
inline constexpr const char *kConfigNames[kConfigCount] = {"pixels384", "pixels768", "pixels256x2", "pixels512x2"};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::few_out
