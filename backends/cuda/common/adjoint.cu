// adjoint.cu - see adjoint.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/adjoint.hpp"

#include <polyconv/sdk/adjoint.hpp>

#include <cstring>
#include <vector>

#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/interleave.hpp"
#include "common/numbers.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostParts = 64;

int64_t type_bytes(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return 8;
    case POLYCONV_F32:
    case POLYCONV_S32: return 4;
    case POLYCONV_S8:
    case POLYCONV_U8: return 1;
    default: return 2;
  }
}

// ---------------------------------------------------------------- inputs without taps, weights that are no tensor

template <class Sum>
__global__ void __launch_bounds__(kThreads) finish_zeros(const Conv<int64_t> p, void *result, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    finish_and_store(p, result, Sum(0), p.result_place(i));
}

// Whether zeros are all that becomes of sums of 0.
bool is_bare(const polyconv_layer &l) {
  return sdk::is_float(l.result.type) && bias_and_relu_at_most(l) && !l.epilogue.has_bias;
}

// And the whole result is one stretch of memory.
bool is_zeroed(const polyconv_layer &l) {
  const polyconv_tensor &t = l.result;
  int64_t last = 0;
  for (int axis = 0; axis < 5; ++axis) last += (t.size[axis] - 1) * t.stride[axis];
  return is_bare(l) && last + 1 == sdk::elements(t);
}

// What the epilogue makes of sums of 0.
void finish_without_taps(const polyconv_layer &l, const polyconv_arguments &a, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.result);
  if (count == 0) return;
  const Conv<int64_t> p(l, a);
  const unsigned blocks = blocks_for(count, kThreads);
  if (l.sum_type == POLYCONV_S32)
    finish_zeros<uint32_t><<<blocks, kThreads, 0, stream>>>(p, a.output, count);
  else if (l.sum_type == POLYCONV_F64)
    finish_zeros<double><<<blocks, kThreads, 0, stream>>>(p, a.output, count);
  else
    finish_zeros<float><<<blocks, kThreads, 0, stream>>>(p, a.output, count);
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

void exchange_channels(const polyconv_layer &l, const polyconv_tensor &view, const void *raw, void *dense,
                       cudaStream_t stream) {
  const int64_t count = sdk::elements(view), group_stride = l.weights.size[0] / l.groups * l.weights.stride[0];
  const auto go = [&](auto element) {
    using T = decltype(element);
    exchange<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(View<int64_t>(view), l.weights.size[1], group_stride,
                                                                   static_cast<const T *>(raw), static_cast<T *>(dense),
                                                                   count);
  };
  switch (type_bytes(view.type)) {
    case 8: go(uint64_t{}); break;
    case 4: go(uint32_t{}); break;
    case 2: go(uint16_t{}); break;
    default: go(uint8_t{}); break;
  }
  check_launch("the exchange of weights' channels");
}

// ---------------------------------------------------------------- supports

void make_dense(const int (&inner_to_outer)[5], polyconv_tensor *t) {
  int64_t stride = 1;
  t->offset = 0;
  for (const int axis : inner_to_outer) t->stride[axis] = stride, stride *= t->size[axis];
}

int64_t result_bytes(const polyconv_tensor &result) {
  return aligned_bytes(sdk::elements(result) * type_bytes(result.type));
}

// The part as the forward kernel gets it.
sdk::AdjointPart part_of(const polyconv_layer &l, int64_t number) {
  sdk::AdjointPart part = sdk::adjoint_part(l, number);
  if (!sdk::adjoint_weights_are_strided(l)) make_dense({4, 3, 2, 1, 0}, &part.layer.weights); // to be exchanged
  if (interleaves(l) && part.has_taps) {
    make_dense({1, 4, 3, 2, 0}, &part.layer.result);
    part.layer.output = part.layer.result;
    part.result = 0;
  }
  return part;
}

// What a part's weights take of the packed memory: the forward kernel's, and where that is not the problem's raw
// memory, those whose channels have been exchanged.
struct PartBytes {
  int64_t packed, exchanged;
};

PartBytes bytes_of(const polyconv_layer &l, const sdk::AdjointPart &part, const sdk::Offer &offer) {
  const bool raw = std::strcmp(offer.weights_format[0], POLYCONV_FORMAT_RAW) == 0;
  const bool strided = sdk::adjoint_weights_are_strided(l);
  return {raw ? 0 : aligned_bytes(offer.weights_bytes[0]),
          strided ? 0 : aligned_bytes(sdk::elements(part.layer.weights) * type_bytes(l.weights.type))};
}

bool ask(const sdk::Kernel &forward, const polyconv_request &request, const sdk::AdjointPart &part, int32_t config,
         sdk::Offer *offer) {
  const polyconv_layer *const layer = &part.layer;
  polyconv_request of_part = request;
  of_part.layers = &layer;
  *offer = {};
  offer->struct_size = sizeof(polyconv_offer);
  offer->config = config < 0 ? 0 : config;
  offer->set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return forward.supports(of_part, config, *offer);
}

// Adds up what all parts need in a config; -1: in the one that the forward kernel chooses, for problems of one part.
// False, with the reason in *sum, where it does not take one of them.
bool add_parts(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, sdk::Offer *sum) {
  const polyconv_layer &l = *request.layers[0];
  const int64_t parts = sdk::adjoint_parts(l);
  sdk::Offer offer;
  double us = 0, zeros = 0;
  int64_t workspace = 0, weights = 0, results = 0;
  bool raw = true;
  for (int64_t number = 0; number < parts; ++number) {
    const sdk::AdjointPart part = part_of(l, number);
    if (!part.has_taps) {
      zeros += part.is_empty ? 0 : static_cast<double>(sdk::elements(part.layer.result) * type_bytes(l.result.type));
      continue;
    }
    if (part.is_empty || sdk::spatial(part.layer.input) == 0)
      return sum->reject("has a forward layer for every tap: takes no input or output that some taps never meet");
    if (!ask(forward, request, part, config, &offer)) {
      sum->rejects_pooling = offer.rejects_pooling, sum->wants_layout = offer.wants_layout;
      return sum->reject("forward, over the output's gradient: %s", offer.reason);
    }
    const PartBytes bytes = bytes_of(l, part, offer);
    us += offer.estimate_us;
    workspace = std::max(workspace, aligned_bytes(offer.workspace_bytes));
    if (interleaves(l)) results += result_bytes(part.layer.result);
    weights += bytes.packed + bytes.exchanged;
    raw = raw && bytes.packed == 0;
  }
  sum->config = offer.config, sum->math = offer.math;
  sum->estimate_us = us + (interleaves(l) ? interleave_us(l) : zeros > 0 ? 2 + zeros / 2.5e6 : 0);
  sum->workspace_bytes = workspace + results;
  if (sum->workspace_bytes > request.policy->workspace_limit)
    return sum->reject("needs a workspace of %lld bytes, with the parts of a strided gradient",
                       static_cast<long long>(sum->workspace_bytes));
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "adjoint_%.*s", static_cast<int>(sizeof format) - 9,
                raw ? "kcrs:1" : offer.weights_format[0]);
  if (weights > 0) sum->set_weights(0, format, weights);
  return true;
}

bool folds_padding(const polyconv_layer &l) {
  if (l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.pad_begin[axis] > 0 || l.pad_end[axis] > 0) return true;
  return false;
}

} // namespace

bool adjoint_supports(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_BACKWARD_DATA) return offer.reject("computes the input's gradient alone");
  if (folds_padding(l)) return offer.reject("folds no gradient of the padding back: pads with zeros or a constant");
  const int64_t parts = sdk::adjoint_parts(l);
  if (parts > kMostParts)
    return offer.reject("makes a forward layer of each residue of the strides: up to %lld, not %lld",
                        static_cast<long long>(kMostParts), static_cast<long long>(parts));
  if (parts > 1 && sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("pools no gradient of a strided layer");
  }
  if (config >= 0 || parts == 1) return add_parts(forward, request, config, &offer);
  sdk::Offer best = {};
  for (int32_t c = 0; c < forward.config_count; ++c) {
    sdk::Offer one = offer;
    if (add_parts(forward, request, c, &one)) {
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

void *moved(const void *pointer, int64_t elements, int32_t type) {
  return pointer == nullptr ? nullptr
                            : const_cast<char *>(static_cast<const char *>(pointer)) + elements * type_bytes(type);
}

class Adjoint final : public CudaInstance {
 public:
  Adjoint(const sdk::Kernel &forward, const polyconv_request &request, int32_t config) : CudaInstance(request) {
    for (int64_t number = 0; number < sdk::adjoint_parts(layer_); ++number) {
      Part part = {part_of(layer_, number), number};
      if (part.of.is_empty) continue;
      if (part.of.has_taps) make(forward, request, config, &part);
      parts_.push_back(std::move(part));
    }
    const auto has_none = [](const Part &part) { return !part.forward; };
    zeroed_ = !interleaves(layer_) && is_zeroed(layer_) && std::any_of(parts_.begin(), parts_.end(), has_none);
    for (Part &part : parts_) {
      if (!part.forward || !interleaves(layer_)) continue;
      part.result_at = results_bytes_;
      results_bytes_ += result_bytes(part.of.layer.result);
    }
    // Weights lie in the order of their taps, which does not depend on padding: plans that differ in it share them.
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part &a, const Part &b) { return a.of.tap_class < b.of.tap_class; });
    int64_t end = 0;
    for (Part &part : parts_) {
      part.packed_at = end, part.exchanged_at = end + part.bytes.packed;
      end += part.bytes.packed + part.bytes.exchanged;
    }
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    for (const Part &part : parts_) {
      if (!part.forward) continue;
      const void *from = raw;
      if (part.bytes.exchanged > 0) {
        void *const dense = static_cast<char *>(packed) + part.exchanged_at;
        exchange_channels(layer_, sdk::adjoint_part(layer_, part.number).layer.weights, raw, dense,
                          static_cast<cudaStream_t>(stream));
        from = dense;
      }
      if (part.bytes.packed > 0) part.forward->pack(0, from, static_cast<char *>(packed) + part.packed_at, stream);
    }
  }

 private:
  struct Part {
    sdk::AdjointPart of;
    int64_t number = 0;
    std::unique_ptr<sdk::Instance> forward = nullptr; // NULL: no taps
    PartBytes bytes = {};
    int64_t packed_at = 0, exchanged_at = 0, result_at = 0; // the last: of the workspace, where parts are interleaved
  };

  static void make(const sdk::Kernel &forward, const polyconv_request &request, int32_t config, Part *part) {
    const polyconv_layer *const layer = &part->of.layer;
    polyconv_request of_part = request;
    of_part.layers = &layer;
    sdk::Offer offer;
    ask(forward, request, part->of, config, &offer);
    part->bytes = bytes_of(*request.layers[0], part->of, offer);
    part->forward = forward.create(of_part, config);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (zeroed_) { // and then overwritten where there are taps
      const int64_t size = type_bytes(layer_.result.type);
      check(cudaMemsetAsync(static_cast<char *>(a.input) + layer_.result.offset * size, 0,
                            static_cast<size_t>(sdk::elements(layer_.result) * size), stream),
            "writing zeros");
    }
    for (const Part &part : parts_)
      if (part.forward) part.forward->run(arguments_of(part, a), stream);
    if (interleaves(layer_)) gather(a, stream);
    for (const Part &part : parts_)
      if (!part.forward && !zeroed_ && !(interleaves(layer_) && is_bare(layer_)))
        finish_without_taps(part.of.layer, arguments_of(part, a), stream);
  }

  polyconv_arguments arguments_of(const Part &part, const polyconv_arguments &a) const {
    const sdk::AdjointPart &of = part.of;
    polyconv_arguments b = a;
    b.input = moved(a.output, of.input, layer_.output.type);
    b.output = moved(a.input, of.result, layer_.result.type);
    b.residual[0] = moved(a.residual[0], of.residual, layer_.residual.type);
    b.saved[0] = moved(a.saved[0], of.saved, layer_.saved.type);
    const int64_t at = part.bytes.packed > 0 ? part.packed_at : part.exchanged_at; // 0 where they are raw
    b.weights[0] = static_cast<char *>(a.weights[0]) + at;
    if (!part.forward || !interleaves(layer_)) return b;
    b.output = static_cast<char *>(a.workspace) + part.result_at;
    b.workspace = static_cast<char *>(a.workspace) + results_bytes_;
    return b;
  }

  void gather(const polyconv_arguments &a, cudaStream_t stream) const {
    const void *results[kMostInterleaved] = {};
    for (const Part &part : parts_)
      if (part.forward) results[part.number] = static_cast<const char *>(a.workspace) + part.result_at;
    interleave(layer_, results, a.input, stream);
  }

  std::vector<Part> parts_;
  int64_t results_bytes_ = 0; // of the workspace: parts that will be interleaved
  bool zeroed_ = false;       // the whole result, before its parts
};

} // namespace

std::unique_ptr<sdk::Instance> adjoint_create(const sdk::Kernel &forward, const polyconv_request &request,
                                              int32_t config) {
  return std::make_unique<Adjoint>(forward, request, config);
}

} // namespace polyconv::cuda
