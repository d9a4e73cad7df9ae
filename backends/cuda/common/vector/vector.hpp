// vector.hpp - layers as products of few rows, result[row][column] = sum over depth of x[row][depth] *
// weights[column][depth], where the depth of a row is one walk through memory in equal steps: images of one pixel
// (squeeze and excite, classifiers), 1 x 1 on small images, and windows as large as the image.
//
// Two sorts. Where an output's window lies in the image and merges into one walk, rows are outputs, and the depth holds
// channels and taps in the order of x. Where the image is one pixel that outputs read through a tap each, as in the
// data gradient of the sort above, rows are images, and there are columns for each of these places.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "common/accepts.hpp"
#include "common/conv.cuh"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda {

inline constexpr int kVectorFilters = 16, kVectorDepth = 32; // of a block of packed weights
inline constexpr int kVectorBlock = kVectorFilters * kVectorDepth;
inline constexpr int kMostVectorWarps = 8;
inline constexpr int64_t kMostPlaces = 64; // outputs of an image: with more, kernels of tiles read weights less often

// What the block of a config sums.
struct VectorShape {
  int32_t filters, rows;
};

// The depth, from its innermost axis: sizes, and strides in the weights.
struct DepthAxes {
  int32_t size[4] = {1, 1, 1, 1};
  int64_t stride[4] = {};

  __host__ __device__ int64_t offset(int32_t i) const {
    int64_t sum = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int axis = 0; axis < 4; ++axis) {
      const int32_t rest = i / size[axis];
      sum += (i - rest * size[axis]) * stride[axis];
      i = rest;
    }
    return sum;
  }
};

// The geometry of a layer.
struct VectorLayer {
  int32_t rows = 0, depth = 0;
  int32_t step = 1;       // elements of x from one depth to the next
  int32_t group_step = 0; // from the depth of a group to the next group's
  int32_t groups = 1, group_filters = 0;
  int32_t image_rows = 1; // outputs of an image that are rows
  int32_t places = 1;     // outputs of an image that have columns of their own
  int32_t taps = 1;       // that packed weights hold apart
  DepthAxes axes;
  char order[5] = "c"; // the axes of the depth, innermost first, for people and formats

  __host__ __device__ int32_t tiles() const { return (group_filters + kVectorFilters - 1) / kVectorFilters; }
  __host__ __device__ int32_t chunks() const { return (depth + kVectorDepth - 1) / kVectorDepth; }
  // Which share the depth of a block. The order of a sum, and so its bits, is a function of the depth alone.
  __host__ __device__ int32_t warps() const { return chunks() <= 16 ? 4 : kMostVectorWarps; }
  int64_t packed_elements() const { return int64_t{taps} * groups * tiles() * chunks() * kVectorBlock; }
};

namespace detail {

// Channels and taps as one walk through x; false where there is none.
inline bool merge_depth(const polyconv_layer &l, VectorLayer *v) {
  struct Axis {
    int64_t size, step, stride;
    char name;
  } axes[4];
  int count = 0;
  for (int axis = 1; axis < 5; ++axis) {
    if (l.weights.size[axis] == 1) continue;
    const int64_t step = l.input.stride[axis] * (axis == 1 ? 1 : l.dilation[axis - 2]);
    int at = count++;
    for (; at > 0 && step < axes[at - 1].step; --at) axes[at] = axes[at - 1];
    axes[at] = {l.weights.size[axis], step, l.weights.stride[axis], "kcdhw"[axis]};
  }
  for (int i = 0; i < count; ++i) {
    if (i > 0 && axes[i].step != axes[i - 1].step * axes[i - 1].size) return false;
    v->axes.size[i] = small(axes[i].size), v->axes.stride[i] = axes[i].stride;
    v->order[i] = axes[i].name, v->order[i + 1] = 0;
  }
  v->step = count > 0 ? small(axes[0].step) : 1;
  return true;
}

// Whether an image of one pixel is what every output reads, through a tap of its own.
inline bool spreads(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis) {
    if (l.input.size[2 + axis] != 1) return false;
    const int64_t first = l.pad_begin[axis], last = first - (l.output.size[2 + axis] - 1) * l.stride[axis];
    if (first > (l.weights.size[2 + axis] - 1) * l.dilation[axis] || last < 0) return false;
    if (l.output.size[2 + axis] > 1 && l.stride[axis] % l.dilation[axis] != 0) return false;
    if (first % l.dilation[axis] != 0) return false;
  }
  return pads_zeros(l);
}

} // namespace detail

// A layer of either sort; else rejects in words. Pointers and types are the caller's question.
inline bool make_vector(const polyconv_layer &l, VectorLayer *v, sdk::Offer *offer) {
  const auto reject = [&](const char *reason) { return offer != nullptr && offer->reject("%s", reason); };
  if (sdk::elements(l.input) == 0 || sdk::elements(l.output) == 0 || sdk::elements(l.weights) == 0)
    return reject("takes no empty tensor");
  if (!fits_int32(l) || sdk::elements(l.weights) > INT32_MAX / 2)
    return reject("takes tensors of less than 2^31 elements, and half as many weights");
  const int64_t outputs = sdk::spatial(l.output);
  if (outputs > kMostPlaces) return reject("takes images of up to 64 outputs");
  if (l.groups > 1 && (l.weights.size[1] < 8 || l.weights.size[0] / l.groups < 8))
    return reject("takes groups of at least 8 channels and filters");
  v->groups = small(l.groups), v->group_filters = small(l.weights.size[0] / l.groups);
  v->group_step = small(l.weights.size[1] * l.input.stride[1]);
  if (pads_nothing(l) && detail::merge_depth(l, v)) {
    v->rows = small(l.output.size[0] * outputs), v->image_rows = small(outputs);
    v->depth = small(l.weights.size[1] * sdk::taps(l));
    return true;
  }
  if (!detail::spreads(l))
    return reject("takes windows without padding whose channels and taps lie evenly in memory, or images of one pixel");
  v->rows = small(l.output.size[0]), v->places = small(outputs), v->taps = small(sdk::taps(l));
  v->depth = small(l.weights.size[1]), v->step = small(l.input.stride[1]);
  v->axes = {}, v->axes.size[0] = v->depth, v->axes.stride[0] = l.weights.stride[1];
  v->order[0] = 'c', v->order[1] = 0;
  return true;
}

// Whether a row's depth is read in 16 bytes at a time, were the pointer aligned to them.
inline bool reads_vectors(const polyconv_layer &l, const VectorLayer &v) {
  const int64_t vector = 16 / sdk::type_bytes(l.input.type);
  if (v.step != 1 || v.depth % vector != 0 || l.input.offset % vector != 0) return false;
  if (v.groups > 1 && v.group_step % vector != 0) return false;
  if (l.input.size[0] > 1 && l.input.stride[0] % vector != 0) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (v.image_rows > 1 && l.output.size[2 + axis] > 1 && l.stride[axis] * l.input.stride[2 + axis] % vector != 0)
      return false;
  return true;
}

// A product as a kernel argument.
struct VectorProduct {
  Conv<int32_t> conv; // for the epilogue
  EveryActivation activations;
  VectorLayer layer;
  const void *x = nullptr, *weights = nullptr; // x: the tensor's first element
  void *result = nullptr;
  int32_t row_tiles = 0, filter_tiles = 0; // of the launch; of a group

  VectorProduct(const polyconv_layer &l, const polyconv_arguments &a, const VectorLayer &v, const VectorShape &shape)
      : conv(l, a),
        activations(l, a),
        layer(v),
        x(begin_of(l.input, a.input)),
        weights(a.weights[0]),
        result(a.output),
        row_tiles(small(ceil_div(v.rows, shape.rows))),
        filter_tiles(small(ceil_div(v.group_filters, shape.filters))) {}
};

inline double vector_blocks(const VectorLayer &v, const VectorShape &shape) {
  return real(ceil_div(v.rows, shape.rows)) * real(ceil_div(v.group_filters, shape.filters)) * v.groups * v.places;
}

using VectorLauncher = void (*)(const VectorProduct &product, unsigned blocks, bool early, cudaStream_t stream);

// Microseconds of a layer in a shape: launch and the chain of waits of a block; what a multiprocessor reads through the
// second cache, or multiplies, of its blocks (`products`: multiply-adds of it in a clock); memory.
inline double vector_us(const polyconv_layer &l, const VectorLayer &v, const VectorShape &shape, double products) {
  const double size = real(sdk::type_bytes(l.input.type)), blocks = vector_blocks(v, shape);
  const double busiest = std::ceil(blocks / kHopperMultiprocessors);
  const double chunks = std::ceil(real(v.chunks()) / v.warps()), depth = real(v.chunks()) * kVectorDepth;
  const double apart = reads_vectors(l, v) ? 1 : v.step == 1 ? 2 : 6; // elements one by one
  const double reading = depth * (shape.filters + shape.rows * apart) * size / 60;
  const double multiplying = depth * shape.filters * shape.rows / products;
  const double results = real(shape.filters) * shape.rows / (v.warps() * 32); // of a thread
  // Results that lie apart leave one by one, while other blocks of the multiprocessor go on: 46 times of 11 layers,
  // channels first, on an H200.
  const bool scatters = l.result.stride[1] != 1;
  const bool half = size == 2;
  // Scattered elements of 16 bits take what they do whatever the depth is: 36 times of 12 layers on an H200.
  const double one_by_one = scatters && half ? 800 + 1.8 * shape.filters * shape.rows : 0;
  // Where an image has several rows, in f32: what finding and storing each takes, and loads that are not neighbours'.
  // 27 times of 9 layers on an H200, channels last.
  const double apart_rows =
      !half && !scatters && v.image_rows > 1 ? 550 + 20.0 * shape.rows + depth * (0.3 + 0.09 * shape.rows) : 0;
  const double block = std::max({reading, multiplying, one_by_one}) + (scatters ? 0 : 60 * results) + apart_rows;
  const double leaving = scatters ? 10 * real(shape.filters) * shape.rows : 150 * std::ceil(results);
  const double lonely = half && v.step == 1 && apart > 1 ? 110.0 * (shape.rows - 8) : 0; // a row's, one after the other
  const double waits = 1200 + 350 * std::ceil(chunks / 4) + leaving + lonely;
  const double bytes = size * (real(v.taps) * v.groups * v.group_filters * v.depth + real(sdk::elements(l.input)) +
                               real(sdk::elements(l.output)));
  // Elements one by one of many pixels take four times as long, of 4 bytes above all; four layers on an H100 and an
  // H200.
  const double lone = apart > 1 && busiest > 2 && one_by_one == 0 ? (half ? 1.5 : 4) : 1;
  return 2.2 + std::max((waits + busiest * block * lone) / kHopperClocks, bytes / 3.3e6);
}

} // namespace polyconv::cuda
