// direct.cu - forward, one thread an output, straight from the definition: the baseline that every other technique is
// measured from, and the kernel that takes every problem, with the whole epilogue and pooling.
//
// Floor: as any kernel's, max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate). This one fetches both operands
// of every product through the caches and computes two addresses for them: expect 3 to 10 % of the FMA rate where
// channels are many. Under fused pooling a thread computes every convolution output of its window, overlaps again.
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

// The sum of one output: taps outside, channels inside, so that borders are looked at once a tap.
template <class Row, class Index>
__device__ typename Row::Sum sum_at(const Conv<Index> &p, const typename Row::A *x, const typename Row::B *w,
                                    const WeightsZeroPoints &zero_points, const Place<Index> &o) {
  using Sum = typename Row::Sum;
  const Index channels = p.weights.size[1];
  const Index first = o.c / (p.output.size[1] / p.groups) * channels; // of the group
  const Sum padding = p.template padding<Sum>();
  const int32_t zero_point = zero_points.of(o.c);
  Sum sum = 0;
#pragma unroll 1
  for (Index rd = 0; rd < p.weights.size[2]; ++rd) {
    const Index d = p.source(0, o.d, rd);
#pragma unroll 1
    for (Index rh = 0; rh < p.weights.size[3]; ++rh) {
      const Index h = p.source(1, o.h, rh);
#pragma unroll 1
      for (Index rw = 0; rw < p.weights.size[4]; ++rw) {
        const Index s = p.source(2, o.w, rw);
        const bool inside = d >= 0 && h >= 0 && s >= 0;
        Index from = inside ? p.input.at(o.n, first, d, h, s) : 0;
        Index tap = p.weights.at(o.c, 0, rd, rh, rw);
        // Padding takes part as products too: a weight of NaN reaches every output that it is multiplied into.
#pragma unroll 4
        for (Index c = 0; c < channels; ++c, from += p.input.stride[1], tap += p.weights.stride[1]) {
          const Sum v = inside ? operand<Sum>(x[from], p.input_zero_point) : padding;
          sum += v * operand<Sum>(w[tap], zero_point);
        }
      }
    }
  }
  return sum;
}

template <class Row, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1)
    forward(const Conv<Index> p, const WeightsZeroPoints zero_points, const EveryActivation activations,
            const typename Row::A *x, const typename Row::B *w, void *y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const auto sum = [&](const Place<Index> &at) { return sum_at<Row>(p, x, w, zero_points, at); };
    pool_and_store<typename Row::Sum>(p, y, p.result_place(i), p.output, sum, activations);
  }
}

// ---------------------------------------------------------------- plan and run

class Forward final : public CudaInstance {
 public:
  Forward(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  template <class Row, class Index>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const int64_t count = sdk::elements(layer_.result);
    forward<Row, Index><<<blocks_for(count, threads_), threads_, 0, stream>>>(
        Conv<Index>(layer_, a), WeightsZeroPoints(layer_, a), EveryActivation(layer_, a),
        static_cast<const typename Row::A *>(a.input), static_cast<const typename Row::B *>(a.weights[0]), a.output,
        count);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    dispatch_row(layer_.input.type, layer_.weights.type, [&](auto row) {
      small_ ? launch_as<decltype(row), int32_t>(a, stream) : launch_as<decltype(row), int64_t>(a, stream);
    });
    check_launch("cuda-direct/direct");
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (fused_pooling_refused(l, offer)) return false;
  double results = static_cast<double>(sdk::elements(l.result)); // with pooling, those under every window
  if (sdk::has_pooling(l))
    for (int64_t window : l.epilogue.pool.window) results *= static_cast<double>(window);
  const double products = static_cast<double>(l.weights.size[sdk::kC] * sdk::taps(l));
  direct::choose_block(config, sdk::elements(l.result), offer);
  offer.estimate_us = direct::direct_us(l, results, results * products);
  return true;
}

} // namespace

// It loads one element at a time, so that tensors may overlap.
POLYCONV_DEFINE_KERNEL(direct, direct::kBlockNames, supports, instance_of<Forward, direct::kBlockSizes>,
                       POLYCONV_KERNEL_GENERIC,
                       POLYCONV_TRAIT_OVERLAP | sdk::kActivationTraits | POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS);

} // namespace polyconv::cuda
