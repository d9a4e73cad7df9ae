// few_in.hpp - the geometry of cuda-tensor/few_in: few input channels.
//
// A unit is 8 bytes of one pixel's channels in shared memory; the depth of the product is units, taps outside and units
// of a pixel inside. A step of depth is four units, one for each lane of a quad. Where one or two channels leave a unit
// half empty, taps side by side share it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include "common/divider.cuh"
#include "few/few.hpp"

namespace polyconv::cuda::few_in {

// How factors are multiplied.
enum class Products { kPlain, kTf32, kEmulated };

// How results leave: channels last, a lane's filters of a pixel at once or one by one; or as planes of a filter each,
// through shared memory.
enum Ends { kTogether, kSingly, kPlanes, kEnds };

// What an instance is compiled for.
struct Form {
  int steps; // of depth
  int tiles; // of 16 filters
  int parts; // bf16 of which an f32 factor is the sum; 1: the factor itself

  __host__ __device__ constexpr int operands() const { return parts * steps * tiles * 32; } // of 16 bytes, of a group
  // Whether a block may multiply several groups of filters: registers hold what that takes too.
  __host__ __device__ constexpr bool takes_turns() const { return parts * steps * tiles < 20; }
};

// Taps side by side along an axis that share a unit, as if they were channels: so many that they divide the axis' taps,
// for what is no tap would meet a weight of zero, and may be infinite.
struct Fold {
  int32_t taps;                // 1: each has units of its own
  int32_t axis;                // 0: depth, 1: rows, 2: columns
  uint32_t last;               // element of the input along it
  int32_t elements;            // of a unit; zeros fill it up
  int32_t shift[4], offset[4]; // of an element from the unit's first, along the axis and in memory
};

// One problem on one instance, whose taps, steps and dilations are the patch's, not the layer's. A patch is of one
// depth of the output: whole rows, or a part of one row, so that its outputs are equally far apart in memory; or a part
// of several rows, a multiple of kPositions wide. Of the input it holds one slice for each tap of depth.
struct Geometry : few::Shape {
  few::Depth depth;
  Fold fold;
  uint32_t last[3];               // of the input along each axis; the largest where the elements of a unit differ
  int32_t grid_h, grid_w;         // rows and columns of the input from one of a patch to the next
  int32_t rows, columns, outputs; // of a patch: of the output, and how many there are
  int32_t down, across;           // patches of an image
  int32_t skip;                   // elements from the end of a row of such a part to the next row's; else 0
  int32_t pitch, lines, pixels;   // of a patch's input: of a row, rows of a slice, pixels in all
  Divider by_columns, by_pitch, by_lines;
  int32_t units;            // of a pixel
  int32_t whole;            // 1: units lie in memory as they do in a patch
  int32_t plane;            // bytes of a patch's input; of one part of it
  int32_t input;            // bytes of all parts, with a unit of zeros behind them
  int32_t waiting;          // planes: elements from one filter's results to the next's in shared memory
  int32_t groups, together; // of filters; that a block multiplies one after the other
  int32_t in_pairs;         // planes: 1: two neighbours leave as one word
};

// Pointers of one run. `exact`: emulated products have the weights themselves too,
// [filter][channel][depth][row][column].
struct Pointers {
  const void *x;
  const uint4 *weights;
  const float *exact;
  const float *bias; // NULL where there is none
  void *y;
};

inline constexpr int kThreads = 128, kPositions = 8; // of a block; of a matrix instruction

struct Variant {
  Form form;
  int32_t type;                                   // of elements
  void (*kernels[kEnds])(Geometry g, Pointers p); // NULL: not so
  int resident;                                   // blocks on a multiprocessor
};
using Variants = few::List<Variant>;
Variants variants();

// Configs: outputs of a patch, at most.
inline constexpr int kConfigCount = 5;
inline constexpr int kOutputs[kConfigCount] = {128, 256, 512, 1024, 2048};
inline constexpr const char *kConfigNames[kConfigCount] = {"patch128", "patch256", "patch512", "patch1024",
                                                           "patch2048"};

bool supports(const polyconv_request &request, Products products, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, Products products, int32_t config);

// The kernels of one kind of products.
template <Products What>
bool supports_as(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return supports(request, What, config, offer);
}
template <Products What>
std::unique_ptr<sdk::Instance> create_as(const polyconv_request &request, int32_t config) {
  return create(request, What, config);
}

} // namespace polyconv::cuda::few_in
