// adjoint.cu - see adjoint.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/adjoint.hpp"

#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/rewrite/interleave.hpp"
#include "common/rewrite/zeros.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;

// ---------------------------------------------------------------- inputs without taps, weights that are no tensor

template <class Sum>
__global__ void __launch_bounds__(kThreads)
    finish_zeros(const Conv<int64_t> p, const EveryActivation activations, void *result, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    finish_and_store(p, result, Sum(0), p.result_place(i), activations);
}

// What the epilogue makes of sums of 0.
void finish_without_taps(const polyconv_layer &l, const polyconv_arguments &a, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.result);
  if (count == 0) return;
  const Conv<int64_t> p(l, a);
  const EveryActivation activations(l, a);
  const unsigned blocks = blocks_for(count, kThreads);
  if (l.sum_type == POLYCONV_S32)
    finish_zeros<uint32_t><<<blocks, kThreads, 0, stream>>>(p, activations, a.output, count);
  else if (l.sum_type == POLYCONV_F64)
    finish_zeros<double><<<blocks, kThreads, 0, stream>>>(p, activations, a.output, count);
  else
    finish_zeros<float><<<blocks, kThreads, 0, stream>>>(p, activations, a.output, count);
  check_launch("the end of a gradient without taps");
}

// The weights of a part as the forward layer has them, densely; `view`: as adjoint_part sees them, but with groups of
// `channels` that are `group_stride` apart.
template <class T>
__global__ void __launch_bounds__(kThreads)
    exchange(const View<int64_t> view, int64_t channels, int64_t group_stride, const T *raw, T *dense, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    Place<int64_t> p = view.along_w(i);
    const int64_t group = p.n / channels;
    p.n -= group * channels;
    dense[i] = raw[view.at(p) + group * group_stride];
  }
}

} // namespace

void exchange_channels(const polyconv_layer &l, const polyconv_tensor &view, const void *raw, void *dense,
                       void *queue) {
  const auto stream = static_cast<cudaStream_t>(queue);
  const int64_t count = sdk::elements(view), group_stride = l.weights.size[0] / l.groups * l.weights.stride[0];
  const auto go = [&](auto element) {
    using T = decltype(element);
    exchange<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(View<int64_t>(view), l.weights.size[1], group_stride,
                                                                   static_cast<const T *>(raw), static_cast<T *>(dense),
                                                                   count);
  };
  switch (sdk::type_bytes(view.type)) {
    case 8: go(uint64_t{}); break;
    case 4: go(uint32_t{}); break;
    case 2: go(uint16_t{}); break;
    default: go(uint8_t{}); break;
  }
  check_launch("the exchange of weights' channels");
}

namespace {

// ---------------------------------------------------------------- supports

double end_us(const polyconv_request &request, int64_t zeros) {
  const polyconv_layer &l = *request.layers[0];
  return interleaves(l) ? interleave_us(l) : zeros > 0 ? 2 + real(zeros) / 2.5e6 : 0;
}

constexpr sdk::AdjointSide kSide = {interleaves, {1, 4, 3, 2, 0}, [](const polyconv_layer &) { return true; }, end_us};

} // namespace

bool adjoint_supports(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::adjoint_takes(request, offer)) return false;
  sdk::AdjointParts parts(kSide, *request.layers[0]);
  if (config >= 0 || parts.count() == 1) return sdk::adjoint_add(kSide, forward, request, config, parts, &offer);
  if (sdk::adjoint_is_refused(forward, request, parts, &offer)) return false;
  sdk::Offer best = {};
  for (int32_t c = 0; c < forward.config_count; ++c) {
    sdk::Offer one = offer;
    if (sdk::adjoint_add(kSide, forward, request, c, parts, &one)) {
      if (best.estimate_us <= 0 || one.estimate_us < best.estimate_us) best = one;
    } else if (c == 0) {
      offer = one; // a reason, should no config take it
    }
  }
  if (best.estimate_us > 0) offer = best;
  return best.estimate_us > 0;
}

// ---------------------------------------------------------------- plan and run

namespace {

class Adjoint final : public CudaInstance {
 public:
  Adjoint(const sdk::Kernel &forward, const polyconv_request &request, int32_t config)
      : CudaInstance(request),
        plan_(kSide, forward, request, config),
        zeroed_(!plan_.interleaves() && can_be_zeroed(layer_) && !plan_.has_taps_everywhere()),
        rest_(plan_.interleaves() && is_bare(layer_) ? Rest::kZeros : Rest::kStays) {}

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    plan_.pack(raw, packed, stream, [&](const sdk::AdjointPlan::Part &part, void *dense) {
      exchange_channels(layer_, sdk::adjoint_part(layer_, part.number).layer.weights, raw, dense, stream);
    });
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (zeroed_) { // and then overwritten where there are taps
      write_zeros(layer_, a.input, stream);
    }
    for (const sdk::AdjointPlan::Part &part : plan_.parts())
      if (part.forward) part.forward->run(plan_.arguments_of(part, a), stream);
    if (plan_.interleaves()) gather(a, stream);
    for (const sdk::AdjointPlan::Part &part : plan_.parts())
      if (!part.forward && !zeroed_ && rest_ == Rest::kStays)
        finish_without_taps(part.of.layer, plan_.arguments_of(part, a), stream);
  }

  void gather(const polyconv_arguments &a, cudaStream_t stream) const {
    const void *results[kMostInterleaved] = {};
    for (const sdk::AdjointPlan::Part &part : plan_.parts())
      if (part.forward) results[part.number] = sdk::AdjointPlan::result_of(part, a);
    interleave(layer_, results, rest_, a.input, stream);
  }

  const sdk::AdjointPlan plan_;
  const bool zeroed_; // the whole result, before its parts
  const Rest rest_;   // what interleaving makes of parts without taps
};

} // namespace

std::unique_ptr<sdk::Instance> adjoint_create(const sdk::Kernel &forward, const polyconv_request &request,
                                              int32_t config) {
  return std::make_unique<Adjoint>(forward, request, config);
}

} // namespace polyconv::cuda
