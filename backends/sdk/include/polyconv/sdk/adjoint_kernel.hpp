// adjoint_kernel.hpp - kernels for backward data made of kernels that go forward (adjoint.hpp says how), as far as all
// devices agree: which problems they take, what these need, and where each part finds its data. A side runs the parts,
// finishes sums of 0 where no tap reaches, and may have parts' results laid densely in the workspace, to be
// interleaved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/adjoint.hpp>
#include <polyconv/sdk/bytes.hpp>
#include <polyconv/sdk/kernel.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace polyconv::sdk {

inline constexpr int64_t kMostAdjointParts = 64;

// What differs from side to side.
struct AdjointSide {
  bool (*interleaves)(const polyconv_layer &layer);
  int order[5]; // of the axes of results that will be interleaved, from the innermost
  bool (*finishes_zeros)(const polyconv_layer &layer);
  double (*end_us)(const polyconv_request &request, int64_t zeros); // interleaving, or so many bytes without taps
};

// What a part's weights take of the packed memory: the forward kernel's, and where that is not the problem's raw
// memory, those whose channels have been exchanged.
struct AdjointBytes {
  int64_t packed, exchanged;
};

// So many elements of a type behind a pointer; NULL stays NULL.
inline char *moved(const void *pointer, int64_t elements, int32_t type) {
  char *const bytes = static_cast<char *>(const_cast<void *>(pointer));
  return bytes == nullptr ? nullptr : bytes + elements * type_bytes(type);
}

namespace detail {

inline int64_t dense_bytes(const polyconv_tensor &t) {
  return aligned_bytes(elements(t) * type_bytes(t.type));
}

inline void make_dense(const int (&inner_to_outer)[5], polyconv_tensor *t) {
  int64_t stride = 1;
  t->offset = 0;
  for (const int axis : inner_to_outer) t->stride[axis] = stride, stride *= t->size[axis];
}

// The part as the forward kernel gets it.
inline AdjointPart forward_part(const AdjointSide &side, const polyconv_layer &l, int64_t number) {
  AdjointPart part = adjoint_part(l, number);
  if (!adjoint_weights_are_strided(l)) make_dense({4, 3, 2, 1, 0}, &part.layer.weights); // to be exchanged
  if (part.has_taps && side.interleaves(l)) {
    make_dense(side.order, &part.layer.result);
    part.layer.output = part.layer.result;
    part.result = 0;
  }
  return part;
}

inline AdjointBytes adjoint_bytes(const polyconv_layer &l, const AdjointPart &part, const Offer &offer) {
  const bool raw = std::strcmp(offer.weights_format[0], POLYCONV_FORMAT_RAW) == 0;
  return {raw ? 0 : aligned_bytes(offer.weights_bytes[0]),
          adjoint_weights_are_strided(l) ? 0 : dense_bytes(part.layer.weights)};
}

// The request for a part's forward layer. Where there are several parts, all find their weights in one place: none may
// read raw ones beside others that read packed ones.
class PartRequest {
 public:
  PartRequest(const polyconv_request &request, const AdjointPart &part)
      : layer_(&part.layer),
        policy_(adjoint_parts(*request.layers[0]) > 1 ? with_packed_weights(*request.policy) : *request.policy),
        request_(request) {
    request_.layers = &layer_, request_.policy = &policy_;
  }
  PartRequest(const PartRequest &) = delete;
  const polyconv_request &get() const { return request_; }

 private:
  const polyconv_layer *layer_;
  polyconv_policy policy_;
  polyconv_request request_;
};

inline bool ask_forward(const Kernel &forward, const polyconv_request &request, const AdjointPart &part, int32_t config,
                        Offer *offer) {
  *offer = {};
  offer->struct_size = sizeof(polyconv_offer);
  offer->config = config < 0 ? 0 : config;
  offer->set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return forward.supports(PartRequest(request, part).get(), config, *offer);
}

inline bool folds_padding(const polyconv_layer &l) {
  if (l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT) return false;
  for (int axis = 0; axis < 3; ++axis)
    if (l.pad_begin[axis] > 0 || l.pad_end[axis] > 0) return true;
  return false;
}

} // namespace detail

// Whether the problem falls into parts; else rejects in words.
inline bool adjoint_takes(const polyconv_request &request, Offer &offer) {
  if (!convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (detail::folds_padding(l))
    return offer.reject("folds no gradient of the padding back: pads with zeros or a constant");
  const int64_t parts = adjoint_parts(l);
  if (parts > kMostAdjointParts)
    return offer.reject("makes a forward layer of each residue of the strides: up to %lld, not %lld",
                        static_cast<long long>(kMostAdjointParts), static_cast<long long>(parts));
  if (parts > 1 && has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("pools no gradient of a strided layer");
  }
  return true;
}

// The parts of a layer that adjoint_takes, each made when it is first asked for: a kernel that refuses the first asks
// for no other, and all configs share what has been made.
class AdjointParts {
 public:
  AdjointParts(const AdjointSide &side, const polyconv_layer &layer)
      : side_(side), layer_(layer), count_(adjoint_parts(layer)) {}

  int64_t count() const { return count_; }
  const AdjointPart &operator[](int64_t number) {
    made_.reserve(static_cast<size_t>(count_)); // references stay
    while (static_cast<int64_t>(made_.size()) <= number)
      made_.push_back(detail::forward_part(side_, layer_, static_cast<int64_t>(made_.size())));
    return made_[static_cast<size_t>(number)];
  }

 private:
  const AdjointSide &side_;
  const polyconv_layer &layer_;
  const int64_t count_;
  std::vector<AdjointPart> made_;
};

// Whether the forward kernel takes no config of the first part that has taps, whatever the workspace, and so none of
// the problem: then the reason is in the offer. A strided problem asks for each config and part otherwise.
inline bool adjoint_is_refused(const Kernel &forward, const polyconv_request &request, AdjointParts &parts,
                               Offer *offer) {
  int64_t number = 0;
  const auto reads = [](const AdjointPart &p) { return p.has_taps && !p.is_empty && spatial(p.layer.input) > 0; };
  while (number < parts.count() && !reads(parts[number])) ++number;
  if (number == parts.count()) return false;
  polyconv_policy policy = *request.policy;
  policy.workspace_limit = INT64_MAX;
  polyconv_request any = request;
  any.policy = &policy;
  Offer of_part;
  if (detail::ask_forward(forward, any, parts[number], -1, &of_part)) return false;
  offer->rejects_pooling = of_part.rejects_pooling, offer->wants_layout = of_part.wants_layout;
  offer->reject("forward, over the output's gradient: %s", of_part.reason);
  return true;
}

// Adds up what all parts need in a config; -1: in the one that the forward kernel chooses for the first. False, with
// the reason in *sum, where it does not take one of them.
inline bool adjoint_add(const AdjointSide &side, const Kernel &forward, const polyconv_request &request, int32_t config,
                        AdjointParts &parts, Offer *sum) {
  const polyconv_layer &l = *request.layers[0];
  Offer offer;
  double us = 0;
  int64_t workspace = 0, weights = 0, results = 0, zeros = 0;
  bool raw = true;
  for (int64_t number = 0; number < parts.count(); ++number) {
    const AdjointPart &part = parts[number];
    if (!part.has_taps) {
      if (part.is_empty) continue;
      if (!side.finishes_zeros(l)) return sum->reject("makes nothing but zeros of inputs that no tap reaches");
      zeros += elements(part.layer.result) * type_bytes(l.result.type);
      continue;
    }
    if (part.is_empty || spatial(part.layer.input) == 0)
      return sum->reject("has a forward layer for every tap: takes no input or output that some taps never meet");
    if (!detail::ask_forward(forward, request, part, config, &offer)) {
      sum->rejects_pooling = offer.rejects_pooling, sum->wants_layout = offer.wants_layout;
      return sum->reject("forward, over the output's gradient: %s", offer.reason);
    }
    config = offer.config;
    const AdjointBytes bytes = detail::adjoint_bytes(l, part, offer);
    us += offer.estimate_us;
    workspace = std::max(workspace, aligned_bytes(offer.workspace_bytes));
    if (side.interleaves(l)) results += detail::dense_bytes(part.layer.result);
    weights += bytes.packed + bytes.exchanged;
    raw = raw && bytes.packed == 0;
  }
  if (us == 0) return sum->reject("takes no gradient that is all zeros");
  sum->config = config, sum->math = offer.math;
  sum->estimate_us = us + side.end_us(request, zeros);
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

// What an instance keeps: the parts that are not empty, and where their data lie.
class AdjointPlan {
 public:
  struct Part {
    AdjointPart of;
    int64_t number;
    std::unique_ptr<Instance> forward = nullptr; // NULL: no taps
    AdjointBytes bytes = {};
    int64_t packed_at = 0, exchanged_at = 0, result_at = 0; // the last: of the workspace, where parts are interleaved
  };

  AdjointPlan(const AdjointSide &side, const Kernel &forward, const polyconv_request &request, int32_t config)
      : layer_(*request.layers[0]), interleaves_(side.interleaves(layer_)) {
    for (int64_t number = 0; number < adjoint_parts(layer_); ++number) {
      Part part = {detail::forward_part(side, layer_, number), number};
      if (part.of.is_empty) continue;
      if (part.of.has_taps) make(forward, request, config, &part);
      parts_.push_back(std::move(part));
    }
    // Weights lie in the order of their taps, which does not depend on padding: plans that differ in it share them.
    std::stable_sort(parts_.begin(), parts_.end(),
                     [](const Part &a, const Part &b) { return a.of.tap_class < b.of.tap_class; });
    int64_t end = 0;
    for (Part &part : parts_) {
      part.packed_at = end, part.exchanged_at = end + part.bytes.packed;
      end += part.bytes.packed + part.bytes.exchanged;
      part.result_at = results_bytes_;
      if (part.forward && interleaves_) results_bytes_ += detail::dense_bytes(part.of.layer.result);
    }
  }

  const std::vector<Part> &parts() const { return parts_; }
  bool interleaves() const { return interleaves_; }
  bool has_taps_everywhere() const {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part &part) { return part.forward != nullptr; });
  }

  // exchange(part, dense): the part's weights as the forward layer has them, densely, from the raw ones.
  template <class Exchange>
  void pack(const void *raw, void *packed, void *stream, const Exchange &exchange) const {
    char *const to = static_cast<char *>(packed);
    for (const Part &part : parts_) {
      if (!part.forward) continue;
      if (part.bytes.exchanged > 0) exchange(part, to + part.exchanged_at);
      const void *const from = part.bytes.exchanged > 0 ? to + part.exchanged_at : raw;
      if (part.bytes.packed > 0) part.forward->pack(0, from, to + part.packed_at, stream);
    }
  }

  // The pointers of a part's run.
  polyconv_arguments arguments_of(const Part &part, const polyconv_arguments &a) const {
    const AdjointPart &of = part.of;
    polyconv_arguments b = a;
    b.input = moved(a.output, of.input, layer_.output.type);
    b.output = moved(a.input, of.result, layer_.result.type);
    b.residual[0] = moved(a.residual[0], of.residual, layer_.residual.type);
    b.saved[0] = moved(a.saved[0], of.saved, layer_.saved.type);
    const int64_t at = part.bytes.packed > 0 ? part.packed_at : part.exchanged_at; // 0 where they are raw
    b.weights[0] = static_cast<char *>(a.weights[0]) + at;
    if (!part.forward || !interleaves_) return b;
    b.output = result_of(part, a);
    b.workspace = static_cast<char *>(a.workspace) + results_bytes_;
    return b;
  }
  // Of a part with taps that is interleaved.
  static char *result_of(const Part &part, const polyconv_arguments &a) {
    return static_cast<char *>(a.workspace) + part.result_at;
  }

 private:
  void make(const Kernel &forward, const polyconv_request &request, int32_t config, Part *part) const {
    Offer offer;
    detail::ask_forward(forward, request, part->of, config, &offer);
    part->bytes = detail::adjoint_bytes(layer_, part->of, offer);
    part->forward = forward.create(detail::PartRequest(request, part->of).get(), config);
  }

  const polyconv_layer layer_;
  const bool interleaves_;
  std::vector<Part> parts_;
  int64_t results_bytes_ = 0; // of the workspace: parts that will be interleaved
};

// Backward data by `Forward`, in its configs. Not for kernels that bind pointers.
template <const Kernel &Forward, auto Supports, auto Create>
Kernel adjoint_kernel(const char *name) {
  return {name,
          Forward.flags,
          Forward.configs,
          Forward.config_count,
          [](const polyconv_request &request, int32_t config, Offer &offer) {
            return Supports(Forward, request, config, offer);
          },
          [](const polyconv_request &request, int32_t config) { return Create(Forward, request, config); },
          Forward.takes & kActivationTraits};
}

} // namespace polyconv::sdk
