// gradient.cu - the gradient of activation, pooling and scale: one thread an element of the result gathers what reaches
// it from every window that holds it, in order of D, H, W, and multiplies by the slope of the activation. On the way it
// leaves the gradient of a residual; where sums are scaled, that of the bias is summed before they are. No atomics.
//
// Floor: one read of gradient and saved values and one write of the result. Where pre-activations are saved, each
// element of a window searches it for the maximum again, mostly in L1; activations that rise with their argument are
// not evaluated for that.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"
#include "common/epilogue.cuh"
#include "common/kernel.hpp"
#include "common/sums/bias_gradient.hpp"

namespace polyconv::cuda {
namespace {

using direct::kMaxThreads;

template <class Index>
struct Span {
  Index begin, end;
};

// The results whose windows hold coordinate i of an axis.
template <class Index>
__device__ Span<Index> readers(const Conv<Index> &p, int axis, Index i) {
  const Index from = i + p.pool.pad[axis], behind = from - p.pool.window[axis] + 1, step = p.pool.stride[axis];
  return {behind > 0 ? (behind + step - 1) / step : 0, min(from / step + 1, p.input.size[2 + axis])};
}

// The part of result i's window that lies inside.
template <class Index>
__device__ Span<Index> inside(const Conv<Index> &p, int axis, Index i) {
  const Index from = i * p.pool.stride[axis] - p.pool.pad[axis];
  return {max(from, Index(0)), min(from + p.pool.window[axis], p.result.size[2 + axis])};
}

// Equals at the flat ends of these have slope 0 whichever is taken, so that what goes in may be compared.
__device__ inline bool rises(const Epilogue &e) {
  switch (e.activation) {
    case POLYCONV_ACT_NONE:
    case POLYCONV_ACT_RELU:
    case POLYCONV_ACT_CLIPPED_RELU:
    case POLYCONV_ACT_TANH:
    case POLYCONV_ACT_SIGMOID: return true;
    case POLYCONV_ACT_LEAKY_RELU:
    case POLYCONV_ACT_ELU: return e.alpha >= 0;
    default: return false;
  }
}

// Whether result o took its maximum from element `at`.
template <class T, class Index>
__device__ bool took(const Conv<Index> &p, const EveryActivation &activations, const T *saved, const Place<Index> &o,
                     const Place<Index> &at, bool plain) {
  const Span<Index> d = inside(p, 0, o.d), h = inside(p, 1, o.h), w = inside(p, 2, o.w);
  Place<Index> best = at;
  T value = 0;
  bool first = true;
  for (Index z = d.begin; z < d.end; ++z)
    for (Index y = h.begin; y < h.end; ++y)
      for (Index x = w.begin; x < w.end; ++x) {
        T v = saved[p.saved.at(at.n, at.c, z, y, x)];
        if (!plain) v = activations(p.epilogue, v, at.c);
        if (!first && !pool_better(v, value)) continue;
        value = v;
        first = false;
        best.d = z, best.h = y, best.w = x;
      }
  return best.d == at.d && best.h == at.h && best.w == at.w;
}

template <class Index>
__device__ bool took_by_argmax(const Conv<Index> &p, const Place<Index> &o, const Place<Index> &at) {
  const Index d = at.d - (o.d * p.pool.stride[0] - p.pool.pad[0]), h = at.h - (o.h * p.pool.stride[1] - p.pool.pad[1]);
  const Index w = at.w - (o.w * p.pool.stride[2] - p.pool.pad[2]);
  const int32_t argmax = static_cast<const int32_t *>(p.epilogue.saved)[p.saved.at(o)];
  return argmax == static_cast<int32_t>((d * p.pool.window[1] + h) * p.pool.window[2] + w);
}

// What an average divides by.
template <class T, class Index>
__device__ T count_of(const Conv<Index> &p, const Place<Index> &o) {
  if (p.pool.count_include_pad) return static_cast<T>(p.pool.window[0] * p.pool.window[1] * p.pool.window[2]);
  const Span<Index> d = inside(p, 0, o.d), h = inside(p, 1, o.h), w = inside(p, 2, o.w);
  return static_cast<T>((d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin));
}

// What reaches activated element `at`.
template <class Stored, class T, class Index>
__device__ T before_pooling(const Conv<Index> &p, const EveryActivation &activations, const Stored *g,
                            const Place<Index> &at, bool plain) {
  if (p.pool.kind == POLYCONV_POOL_NONE) return static_cast<T>(value(g[p.input.at(at)]));
  const Span<Index> d = readers(p, 0, at.d), h = readers(p, 1, at.h), w = readers(p, 2, at.w);
  T sum = 0;
  for (Index z = d.begin; z < d.end; ++z)
    for (Index y = h.begin; y < h.end; ++y)
      for (Index x = w.begin; x < w.end; ++x) {
        const Place<Index> o = {at.n, at.c, z, y, x};
        const T given = static_cast<T>(value(g[p.input.at(o)]));
        if (p.pool.kind == POLYCONV_POOL_AVERAGE)
          sum += given / count_of<T>(p, o);
        else if (p.epilogue.save == POLYCONV_SAVE_ARGMAX
                     ? took_by_argmax(p, o, at)
                     : took(p, activations, static_cast<const T *>(p.epilogue.saved), o, at, plain))
          sum += given;
      }
  return sum;
}

template <class Stored, class T, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1) gradient(const Conv<Index> p, const EveryActivation activations,
                                                           const Stored *g, void *y, void *residual, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const Epilogue &e = p.epilogue;
  const bool plain = rises(e);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Place<Index> at = p.result_place(i);
    T v = before_pooling<Stored, T>(p, activations, g, at, plain);
    if (e.activation != POLYCONV_ACT_NONE)
      v *= activation_slope(static_cast<const T *>(e.saved)[p.saved.at(at)], e.activation,
                            activations.alpha<T>(e, at.c));
    if (residual) store(residual, e.residual_type, p.residual.at(at), v * static_cast<T>(e.residual_scale));
    if (e.scale) v *= load<T>(e.scale, e.scale_type, at.c);
    store(y, e.result_type, p.result.at(at), v);
  }
}

// ---------------------------------------------------------------- plan and run

class Gradient final : public CudaInstance {
 public:
  Gradient(const polyconv_request &request, int threads)
      : CudaInstance(request), threads_(threads), small_(fits_int32(layer_)) {}

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const polyconv_epilogue &e = layer_.epilogue;
    void *const residual = e.residual_from != POLYCONV_RESIDUAL_NONE ? a.residual_gradient[0] : nullptr;
    if (e.has_bias) { // which is summed before the scale
      launch_all(a, false, nullptr, stream);
      bias_gradient(layer_, a, a.workspace, stream);
    }
    launch_all(a, true, residual, stream);
    check_launch("cuda-direct/gradient");
  }

  void launch_all(const polyconv_arguments &a, bool scaled, void *residual, cudaStream_t stream) const {
    switch (layer_.input.type) {
      case POLYCONV_F64: return launch_as<double, double>(a, scaled, residual, stream);
      case POLYCONV_F16: return launch_as<__half, float>(a, scaled, residual, stream);
      case POLYCONV_BF16: return launch_as<__nv_bfloat16, float>(a, scaled, residual, stream);
      default: return launch_as<float, float>(a, scaled, residual, stream);
    }
  }

  template <class Stored, class T>
  void launch_as(const polyconv_arguments &a, bool scaled, void *residual, cudaStream_t stream) const {
    const int64_t count = sdk::elements(layer_.result);
    if (count == 0) return;
    const auto go = [&](auto p) {
      if (!scaled) p.epilogue.scale = nullptr;
      gradient<Stored, T><<<blocks_for(count, threads_), threads_, 0, stream>>>(
          p, EveryActivation(layer_, a), static_cast<const Stored *>(a.input), a.output, residual, count);
    };
    small_ ? go(Conv<int32_t>(layer_, a)) : go(Conv<int64_t>(layer_, a));
  }

  const int threads_;
  const bool small_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_GRADIENT) return offer.reject("only goes back through activation and pooling");
  const polyconv_layer &l = *request.layers[0];
  direct::choose_block(config, sdk::elements(l.result), offer);
  const double results = static_cast<double>(sdk::elements(l.result));
  offer.estimate_us = 3 + results * (sdk::has_pooling(l) ? 12 : 10) / 2.5e6;
  offer.workspace_bytes = bias_gradient_bytes(l);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(gradient, direct::kBlockNames, supports, instance_of<Gradient, direct::kBlockSizes>, 0,
                       sdk::kActivationTraits | POLYCONV_TRAIT_GRADIENT_SCALE | POLYCONV_TRAIT_GRADIENT_RESIDUAL);

} // namespace polyconv::cuda
