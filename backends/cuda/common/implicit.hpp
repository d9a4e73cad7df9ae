// implicit.hpp - a convolution as a matrix product, as every implicit GEMM here sees it: result[pixel][channel] = sum
// over k of activation[pixel][k] * weights[k][channel], where pixel counts N D H W of the output and k counts taps,
// then the group's input channels. Geometry as a kernel argument, how it is filled, and where it does not fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda {

struct ImplicitGemm {
  Conv<int64_t> conv; // for the epilogue
  const void *input = nullptr, *weights = nullptr;
  void *result = nullptr;
  int64_t first_pixel = 0, pixels = 0; // the product is of pixels [first, pixels)
  int64_t image_stride = 0;
  int32_t groups = 1, group_in = 0, group_out = 0;
  int32_t depth = 0; // of the sum: taps * group_in
  int32_t taps[3] = {}, out[3] = {}, in[3] = {};
  int32_t stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int32_t channel_stride = 0, in_stride[3] = {}; // inside an image, which fits in 31 bits
  int32_t pad_mode = 0;
  int32_t splits = 1;       // of k: with more than one, `result` is not written, but
  void *partials = nullptr; // splits planes of partial sums, for add_partials (partials.cuh)
  int64_t partials_row = 0;
  int32_t pixel_tiles = 0, channel_tiles = 0; // of the launch
};

// The geometry of a layer and the pointers of a run; `input` stays at the tensor's pointer, without its offset.
inline ImplicitGemm make_implicit(const polyconv_layer &l, const polyconv_arguments &a) {
  ImplicitGemm p = {Conv<int64_t>(l, a)};
  p.input = a.input;
  p.weights = a.weights[0];
  p.result = a.output;
  p.pixels = l.output.size[0] * sdk::spatial(l.output);
  p.image_stride = l.input.stride[0];
  p.groups = small(l.groups);
  p.group_in = small(l.weights.size[1]);
  p.group_out = small(l.output.size[1] / l.groups);
  p.depth = small(l.weights.size[1] * sdk::taps(l));
  p.channel_stride = small(l.input.stride[1]);
  p.pad_mode = l.pad_mode;
  for (int axis = 0; axis < 3; ++axis) {
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.out[axis] = small(l.output.size[2 + axis]);
    p.in[axis] = small(l.input.size[2 + axis]);
    p.stride[axis] = small(l.stride[axis]);
    p.dilation[axis] = small(l.dilation[axis]);
    p.pad[axis] = small(l.pad_begin[axis]);
    p.in_stride[axis] = small(l.input.stride[2 + axis]);
  }
  return p;
}

// Whether offsets inside an image and k fit in 31 bits, and tiles of at least 64 x 32 in a launch; else rejects in
// words.
inline bool fits_implicit(const polyconv_layer &l, sdk::Offer &offer) {
  constexpr double kLimit = 1 << 30; // sums of two such stay below 2^31
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  double image = 0;
  for (int axis = 1; axis < 5; ++axis) image += real(l.input.size[axis]) * std::fabs(real(l.input.stride[axis]));
  if (!(image < kLimit)) return offer.reject("takes input images of less than 2^30 elements, gaps included");
  for (int axis = 0; axis < 3; ++axis) {
    const double reach = real(l.output.size[2 + axis]) * real(l.stride[axis]) +
                         real(l.weights.size[2 + axis]) * real(l.dilation[axis]) + real(l.pad_begin[axis]);
    if (!(reach < kLimit)) return offer.reject("takes coordinates of less than 2^30, padding included");
  }
  const double depth = real(l.weights.size[1]) * real(sdk::taps(l));
  if (!(depth < kLimit && real(l.output.size[1]) < kLimit && real(l.output.size[0]) < kLimit &&
        real(sdk::spatial(l.output)) < kLimit))
    return offer.reject("takes batches, channels, taps x channels and output images of less than 2^30");
  const double pixels = real(l.output.size[0]) * real(sdk::spatial(l.output)); // one block a tile
  if (!((pixels / 64 + 1) * (real(l.output.size[1]) / 32 + real(l.groups)) < kLimit))
    return offer.reject("takes less than 2^30 tiles");
  return true;
}

// Likewise where the images of another tensor, of the output's size, are addressed as the input's are.
inline bool fits_implicit_both(const polyconv_layer &l, const polyconv_tensor &other, sdk::Offer &offer) {
  polyconv_layer of_other = l;
  of_other.input = other;
  return fits_implicit(l, offer) && fits_implicit(of_other, offer);
}

} // namespace polyconv::cuda
