// backward_weights.cu - the gradients of weights and bias: one block an element of the gradient, its threads sharing
// the pixels of the batch, their partial sums added in a fixed tree. No atomics: a run repeated gives the same bits.
//
// Floor: as any kernel's. Every block reads two whole planes of the batch, so traffic through the caches is two
// operands a product: expect a few per cent of the FMA rate.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"
#include "common/conv.cuh"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

using direct::kMaxThreads;

// Adds the threads' partial sums; blockDim.x is a power of two. The total is thread 0's alone.
template <class Sum>
__device__ Sum block_sum(Sum sum) {
  __shared__ Sum partial[kMaxThreads];
  __syncthreads(); // the sums before have been read
  partial[threadIdx.x] = sum;
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? partial[0] : Sum(0);
}

template <class Index>
__device__ int64_t pixels_of(const View<Index> &t) {
  return static_cast<int64_t>(t.size[0]) * t.size[2] * t.size[3] * t.size[4];
}

template <class Row, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1)
    backward_weights(const Conv<Index> p, const typename Row::A *x, const typename Row::B *y, void *w, int64_t count) {
  using Sum = typename Row::Sum;
  const int64_t pixels = pixels_of(p.output);
  const Sum padding = p.template padding<Sum>();
  for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const Place<Index> tap = p.weights.along_w(i);
    const Index channel = tap.n / (p.output.size[1] / p.groups) * p.weights.size[1] + tap.c;
    Sum sum = 0;
    for (int64_t pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
      const Place<Index> o = p.output.pixel_of(pixel);
      const Index d = p.source(0, o.d, tap.d), h = p.source(1, o.h, tap.h), s = p.source(2, o.w, tap.w);
      const bool inside = d >= 0 && h >= 0 && s >= 0;
      const Sum v = inside ? static_cast<Sum>(value(x[p.input.at(o.n, channel, d, h, s)])) : padding;
      sum += v * static_cast<Sum>(value(y[p.output.at(o.n, tap.n, o.d, o.h, o.w)]));
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store(w, p.epilogue.result_type, p.result.at(tap), sum);
  }
}

// One block, one channel of the bias: the sum of its plane of `t` over the batch.
template <class Stored, class Sum, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1)
    backward_bias(const View<Index> t, const Stored *values, void *bias, int32_t bias_type) {
  const int64_t pixels = pixels_of(t);
  for (int64_t c = blockIdx.x; c < t.size[1]; c += gridDim.x) {
    Sum sum = 0;
    for (int64_t pixel = threadIdx.x; pixel < pixels; pixel += blockDim.x) {
      Place<Index> o = t.pixel_of(pixel);
      o.c = static_cast<Index>(c);
      sum += static_cast<Sum>(value(values[t.at(o)]));
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) store(bias, bias_type, c, sum);
  }
}

// ---------------------------------------------------------------- plan and run

class BackwardWeights final : public CudaInstance {
 public:
  BackwardWeights(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  template <class Row, class Index>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    using A = typename Row::A;
    using B = typename Row::B;
    using Sum = typename Row::Sum;
    const auto *x = static_cast<const A *>(a.input);
    const auto *y = static_cast<const B *>(a.output);
    const int64_t count = sdk::elements(layer_.weights);
    backward_weights<Row, Index>
        <<<blocks_for(count, 1), threads_, 0, stream>>>(Conv<Index>(layer_, a), x, y, a.weights[0], count);
    check_launch("cuda-direct/backward_weights");
    if (!layer_.epilogue.has_bias) return;
    const polyconv_tensor &t = layer_.bias_over_input ? layer_.input : layer_.output;
    const unsigned blocks = blocks_for(t.size[1], 1);
    if (layer_.bias_over_input)
      backward_bias<A, Sum, Index><<<blocks, threads_, 0, stream>>>(View<Index>(t), x, a.bias[0], layer_.bias_type);
    else
      backward_bias<B, Sum, Index><<<blocks, threads_, 0, stream>>>(View<Index>(t), y, a.bias[0], layer_.bias_type);
    check_launch("cuda-direct/backward_weights (bias)");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
      small_ ? launch_as<decltype(row), int32_t>(a, stream) : launch_as<decltype(row), int64_t>(a, stream);
    });
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_BACKWARD_WEIGHTS) return offer.reject("computes the gradients of weights alone");
  direct::choose_block(config, INT64_MAX, offer);
  // Every product finds its pixel anew: 5.7 picoseconds on an H200.
  offer.estimate_us = 4 + sdk::flops(l) / 2 * 5.7e-6 * (l.sum_type == POLYCONV_F64 ? 2.5 : 1);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<BackwardWeights>(request, direct::kBlockSizes[config]);
}

} // namespace

extern const sdk::Kernel kernel_backward_weights;
const sdk::Kernel kernel_backward_weights = {
    "backward_weights", POLYCONV_KERNEL_GENERIC, direct::kBlockNames, direct::kBlockCount, supports, create};

} // namespace polyconv::cuda
