// interleave.cu - see interleave.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/rewrite/interleave.hpp"

#include "common/conv.cuh"
#include "common/device/launch.hpp"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/ptx/grid.cuh"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;

struct Interleaved {
  View<int32_t> result; // in vectors: its channels, strides and offset too
  const void *part[kMostInterleaved];
  Rest rest;
  int32_t stride[3];

  // Where element (n, d, h, w) of the result lies in its part, in pixels.
  __device__ int32_t pixel_of(const Place<int32_t> &p) const {
    const int32_t d = p.d / stride[0], h = p.h / stride[1], w = p.w / stride[2];
    const int32_t depth = count(0, p.d - d * stride[0]), rows = count(1, p.h - h * stride[1]);
    return ((p.n * depth + d) * rows + h) * count(2, p.w - w * stride[2]) + w;
  }
  __device__ int32_t number_of(const Place<int32_t> &p) const {
    return (p.d % stride[0] * stride[1] + p.h % stride[1]) * stride[2] + p.w % stride[2];
  }

 private:
  __device__ int32_t count(int axis, int32_t residue) const {
    return (result.size[2 + axis] - residue + stride[axis] - 1) / stride[axis];
  }
};

template <class Vector>
__global__ void __launch_bounds__(kThreads)
    copy(const __grid_constant__ Interleaved parts, Vector *result, int32_t count) {
  ptx::await_previous();
  const int32_t step = static_cast<int32_t>(gridDim.x) * kThreads;
  for (int32_t i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); i < count; i += step) {
    const Place<int32_t> p = parts.result.along_c(i);
    const auto *from = static_cast<const Vector *>(parts.part[parts.number_of(p)]);
    if (from == nullptr && parts.rest == Rest::kStays) continue;
    result[parts.result.at(p)] = from != nullptr ? from[parts.pixel_of(p) * parts.result.size[1] + p.c] : Vector{};
  }
}

int64_t bytes_of(int32_t type) {
  return type == POLYCONV_F32 ? 4 : 2;
}

// The tensor counted in vectors of so many elements.
polyconv_tensor in_vectors(polyconv_tensor t, int64_t elements) {
  t.size[1] /= elements, t.offset /= elements;
  for (const int axis : {0, 2, 3, 4}) t.stride[axis] /= elements;
  return t;
}

} // namespace

bool interleaves(const polyconv_layer &l) {
  const polyconv_tensor &t = l.result;
  const int64_t parts = l.stride[0] * l.stride[1] * l.stride[2];
  if (parts == 1 || parts > kMostInterleaved || t.stride[1] != 1 || !fits_int32(t)) return false;
  if (!is_single_or_half(t.type)) return false;
  const int64_t vector = 16 / bytes_of(t.type);
  if (t.size[1] % vector != 0 || t.offset % vector != 0) return false;
  for (const int axis : {0, 2, 3, 4})
    if (t.size[axis] > 1 && t.stride[axis] % vector != 0) return false;
  return true;
}

double interleave_us(const polyconv_layer &l) {
  return 3 + static_cast<double>(sdk::elements(l.result) * bytes_of(l.result.type)) * 2 / 3.2e6;
}

void interleave(const polyconv_layer &l, const void *const (&parts)[kMostInterleaved], Rest rest, void *result,
                cudaStream_t stream) {
  const int64_t bytes = bytes_of(l.result.type);
  const auto go = [&](auto vector) {
    using Vector = decltype(vector);
    const polyconv_tensor t = in_vectors(l.result, static_cast<int64_t>(sizeof(Vector)) / bytes);
    Interleaved p = {View<int32_t>(t), {}, rest, {}};
    std::copy(parts, parts + kMostInterleaved, p.part);
    for (int axis = 0; axis < 3; ++axis) p.stride[axis] = static_cast<int32_t>(l.stride[axis]);
    const int64_t count = sdk::elements(t);
    launch_waiting(copy<Vector>, blocks_for(count, kThreads), kThreads, 0, stream, p, static_cast<Vector *>(result),
                   static_cast<int32_t>(count));
  };
  if (sdk::elements(l.result) == 0) return;
  if (aligned(result, 16))
    go(int4{});
  else if (bytes == 4)
    go(uint32_t{});
  else
    go(uint16_t{});
}

} // namespace polyconv::cuda
