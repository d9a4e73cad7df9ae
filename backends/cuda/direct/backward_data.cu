// backward_data.cu - the gradient of the input, which is also the transposed convolution forwards: one thread an input
// element, gathering every output that read it. Nothing is scattered, so no sum depends on timing.
//
// Floor and what to expect: as direct.cu, of which this is the mirror image; stride s leaves one tap in s an axis with
// work, and the divisions that find them cost as much as a few products.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"
#include "common/epilogue.cuh"
#include "common/kernel.hpp"
#include "common/rows.hpp"
#include "zero_points.cuh"

namespace polyconv::cuda {
namespace {

using direct::kMaxThreads;
using direct::WeightsZeroPoints;

// Padding that mirrors or repeats folds back: an element then has several readers through one tap.
template <class Row, class Index>
__device__ typename Row::Sum sum_at(const Conv<Index> &p, const typename Row::A *y, const typename Row::B *w,
                                    const WeightsZeroPoints &zero_points, const Place<Index> &in) {
  using Sum = typename Row::Sum;
  const Index filters = p.output.size[1] / p.groups, channels = p.weights.size[1];
  const Index first = in.c / channels * filters, channel = in.c % channels;
  const int32_t zero_point = zero_points.of(in.c);
  const Index depth = p.output.size[2], height = p.output.size[3], width = p.output.size[4];
  Sum sum = 0;
#pragma unroll 1
  for (Index rd = 0; rd < p.weights.size[2]; ++rd)
#pragma unroll 1
    for (Index d = -1; (d = p.next_reader(0, in.d, rd, d)) < depth;)
#pragma unroll 1
      for (Index rh = 0; rh < p.weights.size[3]; ++rh)
#pragma unroll 1
        for (Index h = -1; (h = p.next_reader(1, in.h, rh, h)) < height;)
#pragma unroll 1
          for (Index rw = 0; rw < p.weights.size[4]; ++rw)
#pragma unroll 1
            for (Index s = -1; (s = p.next_reader(2, in.w, rw, s)) < width;) {
              Index from = p.output.at(in.n, first, d, h, s);
              Index tap = p.weights.at(first, channel, rd, rh, rw);
#pragma unroll 4
              for (Index k = 0; k < filters; ++k, from += p.output.stride[1], tap += p.weights.stride[0])
                sum += operand<Sum>(y[from], p.input_zero_point) * operand<Sum>(w[tap], zero_point);
            }
  return sum;
}

template <class Row, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1)
    backward_data(const Conv<Index> p, const WeightsZeroPoints zero_points, const EveryActivation activations,
                  const typename Row::A *y, const typename Row::B *w, void *x, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto sum = [&](const Place<Index> &at) { return sum_at<Row>(p, y, w, zero_points, at); };
    pool_and_store<typename Row::Sum>(p, x, p.result_place(i), p.input, sum, activations);
  }
}

// ---------------------------------------------------------------- plan and run

class BackwardData final : public CudaInstance {
 public:
  BackwardData(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  template <class Row, class Index>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const int64_t count = sdk::elements(layer_.result);
    backward_data<Row, Index><<<blocks_for(count, threads_), threads_, 0, stream>>>(
        Conv<Index>(layer_, a), WeightsZeroPoints(layer_, a), EveryActivation(layer_, a),
        static_cast<const typename Row::A *>(a.output), static_cast<const typename Row::B *>(a.weights[0]), a.input,
        count);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    dispatch_row(layer_.output.type, layer_.weights.type, [&](auto row) {
      small_ ? launch_as<decltype(row), int32_t>(a, stream) : launch_as<decltype(row), int64_t>(a, stream);
    });
    check_launch("cuda-direct/backward_data");
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (fused_pooling_refused(l, offer)) return false;
  direct::choose_block(config, sdk::elements(l.result), offer);
  // Finding the outputs that read an element costs a fifth beyond the products.
  offer.estimate_us = 1.2 * direct::direct_us(l, static_cast<double>(sdk::elements(l.input)), sdk::flops(l) / 2);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(backward_data, direct::kBlockNames, supports, instance_of<BackwardData, direct::kBlockSizes>,
                       POLYCONV_KERNEL_GENERIC, sdk::kActivationTraits | POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS);

} // namespace polyconv::cuda
