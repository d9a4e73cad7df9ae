// implicit.cuh - where the pixels of an implicit GEMM lie, on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/implicit.hpp"

namespace polyconv::cuda {

// Output pixel i of the batch, and where its window begins in the input.
struct Pixel {
  int32_t n, d, h, w;
};

__device__ inline Pixel pixel_at(const ImplicitGemm &p, int64_t i) {
  const int32_t per_image = p.out[0] * p.out[1] * p.out[2];
  const int64_t n = p.pixels <= INT32_MAX // 64-bit divisions are slow
                        ? static_cast<int64_t>(static_cast<uint32_t>(i) / static_cast<uint32_t>(per_image))
                        : i / per_image;
  const auto inside = static_cast<int32_t>(i - n * per_image);
  const int32_t line = inside / p.out[2];
  return {static_cast<int32_t>(n), line / p.out[1], line % p.out[1], inside % p.out[2]};
}

__device__ inline Pixel window_of(const ImplicitGemm &p, const Pixel &o) {
  return {o.n, o.d * p.stride[0] - p.pad[0], o.h * p.stride[1] - p.pad[1], o.w * p.stride[2] - p.pad[2]};
}

// Not inlined: seldom called, and its divisions would cost the main loop registers.
static __device__ __noinline__ int32_t folded(int32_t i, int32_t size, int32_t mode) {
  return sdk::padded_index_in<int32_t>(i, size, mode); // sizes are below 2^30: fits_implicit()
}

// Where an input coordinate lies inside its image, or that it is padding.
struct Spot {
  int32_t offset;
  bool inside;
};

// `size` and `stride`: of the image's axes.
__device__ inline Spot spot_in(const int32_t (&size)[3], const int32_t (&stride)[3], int32_t pad_mode, int32_t d,
                               int32_t h, int32_t w) {
  const auto within = [](int32_t i, int32_t of) { return static_cast<uint32_t>(i) < static_cast<uint32_t>(of); };
  bool inside = within(d, size[0]) && within(h, size[1]) && within(w, size[2]);
  if (!inside && pad_mode > POLYCONV_PAD_CONSTANT) {
    d = folded(d, size[0], pad_mode);
    h = folded(h, size[1], pad_mode);
    w = folded(w, size[2], pad_mode);
    inside = true;
  }
  return {inside ? d * stride[0] + h * stride[1] + w * stride[2] : 0, inside};
}

__device__ inline Spot spot_of(const ImplicitGemm &p, int32_t d, int32_t h, int32_t w) {
  return spot_in(p.in, p.in_stride, p.pad_mode, d, h, w);
}

// The blocks of k that are this thread block's: all of `blocks`, or where k is split those of one split.
class Share {
 public:
  __device__ Share(const ImplicitGemm &p, int32_t blocks) {
    const auto each = static_cast<int32_t>((blocks + p.splits - 1) / p.splits);
    begin_ = each * static_cast<int32_t>(blockIdx.y); // splits are few, and so are blocks then
    left_ = max(min(each, blocks - begin_), 0);
  }
  __device__ int32_t blocks() const { return left_; } // to come, when nothing has been taken yet
  __device__ int32_t first_block() const { return begin_; }

 protected:
  int32_t begin_, left_;
};

} // namespace polyconv::cuda
