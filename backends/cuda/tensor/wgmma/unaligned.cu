// unaligned.cu - the same layers where a run's input does not begin at whole 16 bytes, which no tensor map can
// address: one thread an output, from the packed weights. Right, and far slower; programs whose pointers come from
// polyconv_device_alloc or cudaMalloc never get here.
// SPDX-License-Identifier: Apache-2.0
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "emulated/emulated.hpp"
#include "emulated/parts.cuh"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

// Element (k, c, t, r, s) of the weights.
template <class T>
struct PlainWeights {
  const T *from;
  View<int64_t> view;
  __device__ float at(const Place<int64_t> &p) const { return static_cast<float>(from[view.at(p)]); }
};
struct WeightsInParts {
  const __nv_bfloat16 *from;
  PackedParts parts;
  int64_t taps[3];
  __device__ float at(const Place<int64_t> &p) const {
    const int64_t tap = ((p.n * taps[0] + p.d) * taps[1] + p.h) * taps[2] + p.w;
    const __nv_bfloat16 *const part = from + tap * parts.row + PackedParts::place_of(p.c);
    const float first = value(part[0]);
    return fabsf(first) < INFINITY ? first + (value(part[parts.plane]) + value(part[2 * parts.plane])) : first;
  }
};

// Taps outside, channels inside. Padding takes part as products too, as it does in tiles.
template <class T, class Weights>
__device__ float sum_at(const Conv<int64_t> &p, const T *input, const Weights &weights, const Place<int64_t> &o) {
  const int64_t first = o.c / (p.output.size[1] / p.groups) * p.weights.size[1]; // of the group
  float sum = 0;
  for (int64_t t = 0; t < p.weights.size[2]; ++t)
    for (int64_t r = 0; r < p.weights.size[3]; ++r)
      for (int64_t s = 0; s < p.weights.size[4]; ++s) {
        const int64_t d = p.source(0, o.d, t), h = p.source(1, o.h, r), w = p.source(2, o.w, s);
        const bool inside = d >= 0 && h >= 0 && w >= 0;
        const T *const pixel = input + (inside ? p.input.at(o.n, first, d, h, w) : 0);
        for (int64_t c = 0; c < p.weights.size[1]; ++c)
          sum += (inside ? static_cast<float>(pixel[c * p.input.stride[1]]) : 0.0f) * weights.at({o.c, c, t, r, s});
      }
  return sum;
}

template <class T, class Weights>
__global__ void __launch_bounds__(kThreads, 1)
    multiply(const Conv<int64_t> p, const T *input, const Weights weights, void *result, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> o = p.output.along_c(i);
    finish_and_store(p, result, sum_at(p, input, weights, o), o);
  }
}

template <class T, class Weights>
void launch(const polyconv_layer &l, const polyconv_arguments &a, const Weights &weights, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.output);
  multiply<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(Conv<int64_t>(l, a), static_cast<const T *>(a.input),
                                                                 weights, a.output, count);
  check_launch("cuda-tensor's wgmma, with an input that is not aligned");
}

} // namespace

void multiply_unaligned(const polyconv_layer &l, const polyconv_arguments &a, cudaStream_t stream, bool raw) {
  polyconv_tensor weights = l.weights;
  if (!raw) {
    weights.offset = 0, weights.stride[1] = 1;
    int64_t stride = packed_channels(l);
    for (const int axis : {4, 3, 2, 0}) weights.stride[axis] = stride, stride *= weights.size[axis];
  }
  const auto go = [&](auto element) {
    using T = decltype(element);
    launch<T>(l, a, PlainWeights<T>{static_cast<const T *>(a.weights[0]), View<int64_t>(weights)}, stream);
  };
  if (l.input.type == POLYCONV_F16)
    go(__half{});
  else if (l.input.type == POLYCONV_BF16)
    go(__nv_bfloat16{});
  else
    go(float{});
}

void multiply_unaligned_parts(const polyconv_layer &l, const polyconv_arguments &a, cudaStream_t stream) {
  const WeightsInParts weights = {static_cast<const __nv_bfloat16 *>(a.weights[0]),
                                  PackedParts(l),
                                  {l.weights.size[2], l.weights.size[3], l.weights.size[4]}};
  launch<float>(l, a, weights, stream);
}

} // namespace polyconv::cuda::wgmma
