// driver.cpp - see driver.hpp. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/adjoint/driver.hpp"

#include "cpu/adjoint/interleave.hpp"
#include "cpu/count.hpp"
#include "cpu/direct/driver.hpp"
#include "cpu/isa.hpp"

#include <polyconv/sdk/epilogue.hpp>

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <vector>

namespace polyconv::cpu {
namespace {

using namespace sdk;

int64_t aligned(int64_t bytes) {
  return round_up(bytes, POLYCONV_ALIGNMENT);
}
int64_t dense_bytes(const polyconv_tensor &t) {
  return aligned(elements(t) * type_bytes(t.type));
}

void make_dense(polyconv_tensor *t) {
  t->offset = 0;
  int64_t stride = 1;
  for (const int axis : {4, 3, 2, 1, 0}) t->stride[axis] = stride, stride *= t->size[axis];
}

// The part as the forward kernel gets it.
AdjointPart part_of(const polyconv_layer &l, int64_t number) {
  AdjointPart part = adjoint_part(l, number);
  if (!adjoint_weights_are_strided(l)) make_dense(&part.layer.weights); // to be exchanged
  if (interleaves(l) && part.has_taps) {
    make_dense(&part.layer.result);
    part.layer.output = part.layer.result;
    part.result = 0;
  }
  return part;
}

bool takes_raw(const Offer &offer) {
  return std::strcmp(offer.weights_format[0], POLYCONV_FORMAT_RAW) == 0;
}

// What a part's weights take of the packed memory: the forward kernel's, and where that is not the problem's raw
// memory, those whose channels have been exchanged.
struct PartBytes {
  int64_t packed, exchanged;
};
PartBytes bytes_of(const polyconv_layer &l, const AdjointPart &part, const Offer &offer) {
  return {takes_raw(offer) ? 0 : aligned(offer.weights_bytes[0]),
          adjoint_weights_are_strided(l) ? 0 : dense_bytes(part.layer.weights)};
}

// The weights of a part, densely: adjoint_part's view, but each group's channels lie where the problem has them.
void exchange_channels(const polyconv_layer &l, int64_t number, const void *raw, char *dense) {
  const polyconv_tensor view = adjoint_part(l, number).layer.weights;
  const int64_t channels = l.weights.size[kC], group_stride = l.weights.size[kK] / l.groups * l.weights.stride[kK];
  const int64_t bytes = type_bytes(view.type);
  for (int64_t k = 0; k < view.size[kK]; ++k)
    for (int64_t c = 0; c < view.size[kC]; ++c)
      for (int64_t tap = 0; tap < spatial(view); ++tap, dense += bytes) {
        const int64_t line = tap / view.size[kW];
        const int64_t from = at(view, k % channels, c, line / view.size[kH], line % view.size[kH], tap % view.size[kW]);
        std::memcpy(dense, static_cast<const char *>(raw) + (from + k / channels * group_stride) * bytes,
                    static_cast<size_t>(bytes));
      }
}

bool ask(const Kernel &forward, const polyconv_request &request, const AdjointPart &part, int32_t config,
         Offer *offer) {
  const polyconv_layer *const layer = &part.layer;
  polyconv_request of_part = request;
  of_part.layers = &layer;
  *offer = {};
  offer->struct_size = sizeof(polyconv_offer);
  offer->set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return forward.supports(of_part, config, *offer);
}

// Whether zeros are all that becomes of sums of 0.
bool is_bare(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  const bool zero_at_zero = e.activation != POLYCONV_ACT_SIGMOID;
  return is_float(l.result.type) && !e.has_bias && e.residual_from == POLYCONV_RESIDUAL_NONE && zero_at_zero &&
         l.save == POLYCONV_SAVE_NONE;
}

// What the end of a strided gradient costs: a copy of the result, or zeros.
double end_us(const polyconv_layer &l, const polyconv_policy &policy, int64_t zeros) {
  const double bytes = interleaves(l) ? 2 * real(elements(l.result) * type_bytes(l.result.type)) : real(zeros);
  return bytes > 0 ? cpu::estimate_us(policy.threads, 0, bytes) : 0;
}

// Adds up what all parts need; false, with the reason in *sum, where the forward kernel does not take one of them.
bool add_parts(const Kernel &forward, const polyconv_request &request, int32_t config, Offer *sum) {
  const polyconv_layer &l = *request.layers[0];
  Offer offer;
  double us = 0;
  int64_t workspace = 0, weights = 0, results = 0, zeros = 0;
  for (int64_t number = 0; number < adjoint_parts(l); ++number) {
    const AdjointPart part = part_of(l, number);
    if (part.is_empty) continue;
    if (!part.has_taps) {
      if (!is_bare(l)) return sum->reject("makes nothing but zeros of inputs that no tap reaches");
      zeros += dense_bytes(part.layer.result);
      continue;
    }
    if (spatial(part.layer.input) == 0) return sum->reject("takes no input that no output's window holds");
    if (!ask(forward, request, part, config, &offer)) {
      sum->rejects_pooling = offer.rejects_pooling, sum->wants_layout = offer.wants_layout;
      return sum->reject("forward, over the output's gradient: %.200s", offer.reason);
    }
    config = offer.config;
    const PartBytes bytes = bytes_of(l, part, offer);
    us += offer.estimate_us;
    workspace = std::max(workspace, aligned(offer.workspace_bytes));
    if (interleaves(l)) results += dense_bytes(part.layer.result);
    weights += bytes.packed + bytes.exchanged;
  }
  if (us == 0) return sum->reject("takes no gradient that is all zeros");
  sum->config = config, sum->math = offer.math;
  sum->estimate_us = us + end_us(l, *request.policy, zeros);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "adjoint_%.*s", static_cast<int>(sizeof format) - 9,
                takes_raw(offer) ? "kcrs:1" : offer.weights_format[0]);
  if (weights > 0) sum->set_weights(0, format, weights);
  return fits_workspace(*request.policy, workspace + results, *sum);
}

bool folds_padding(const polyconv_layer &l) {
  if (l.pad_mode == POLYCONV_PAD_ZERO || l.pad_mode == POLYCONV_PAD_CONSTANT) return false;
  return std::any_of(l.pad_begin, l.pad_begin + 3, [](int64_t p) { return p > 0; }) ||
         std::any_of(l.pad_end, l.pad_end + 3, [](int64_t p) { return p > 0; });
}

} // namespace

bool adjoint_supports(const Kernel &forward, const polyconv_request &request, int32_t config, Offer &offer) {
  if (!takes_one_layer(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_BACKWARD_DATA) return offer.reject("computes the input's gradient alone");
  if (folds_padding(l)) return offer.reject("folds no gradient of the padding back: pads with zeros or a constant");
  const int64_t parts = adjoint_parts(l);
  if (parts > kMostParts)
    return offer.reject("makes a forward layer of each residue of the strides: up to %" PRId64 ", not %" PRId64,
                        kMostParts, parts);
  if (parts > 1 && has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("pools no gradient of a strided layer");
  }
  return add_parts(forward, request, config, &offer);
}

// ---------------------------------------------------------------- plan and run

namespace {

template <class Pointer>
char *moved(Pointer *pointer, int64_t elements, int32_t type) {
  char *const bytes = static_cast<char *>(const_cast<void *>(static_cast<const void *>(pointer)));
  return bytes ? bytes + elements * type_bytes(type) : nullptr;
}

class Adjoint final : public Instance {
 public:
  Adjoint(const Kernel &forward, const polyconv_request &request, int32_t config)
      : layer_(*request.layers[0]), tasks_(request.policy->threads) {
    for (int64_t number = 0; number < adjoint_parts(layer_); ++number) {
      Part part = {part_of(layer_, number), number};
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
      if (part.forward && interleaves(layer_)) results_bytes_ += dense_bytes(part.of.layer.result);
    }
    const auto lacks_taps = [](const Part &part) { return !part.forward; };
    if (interleaves(layer_) || std::any_of(parts_.begin(), parts_.end(), lacks_taps))
      parallel_ = make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    for (const Part &part : parts_) {
      if (!part.forward) continue;
      const void *from = raw;
      if (part.bytes.exchanged > 0) {
        char *const dense = static_cast<char *>(packed) + part.exchanged_at;
        exchange_channels(layer_, part.number, raw, dense);
        from = dense;
      }
      if (part.bytes.packed > 0) part.forward->pack(0, from, static_cast<char *>(packed) + part.packed_at, stream);
    }
  }

  void run(const polyconv_arguments &a, void *stream) const override {
    for (const Part &part : parts_) {
      if (part.forward)
        part.forward->run(arguments_of(part, a), stream);
      else if (!interleaves(layer_))
        zero(part, a);
    }
    if (interleaves(layer_)) gather(a);
  }

 private:
  struct Part {
    AdjointPart of;
    int64_t number;
    std::unique_ptr<Instance> forward = nullptr; // NULL: no taps
    PartBytes bytes = {};
    int64_t packed_at = 0, exchanged_at = 0, result_at = 0; // the last: of the workspace, where parts are interleaved
  };

  static void make(const Kernel &forward, const polyconv_request &request, int32_t config, Part *part) {
    const polyconv_layer *const layer = &part->of.layer;
    polyconv_request of_part = request;
    of_part.layers = &layer;
    Offer offer;
    ask(forward, request, part->of, config, &offer);
    part->bytes = bytes_of(*request.layers[0], part->of, offer);
    part->forward = forward.create(of_part, config);
  }

  polyconv_arguments arguments_of(const Part &part, const polyconv_arguments &a) const {
    const AdjointPart &of = part.of;
    polyconv_arguments b = a;
    b.input = moved(a.output, of.input, layer_.output.type);
    b.output = moved(a.input, of.result, layer_.result.type);
    b.residual[0] = moved(a.residual[0], of.residual, layer_.residual.type);
    b.saved[0] = moved(a.saved[0], of.saved, layer_.saved.type);
    const int64_t at = part.bytes.packed > 0 ? part.packed_at : part.exchanged_at; // 0 where they are raw
    b.weights[0] = static_cast<char *>(a.weights[0]) + at;
    if (!interleaves(layer_)) return b;
    b.output = static_cast<char *>(a.workspace) + part.result_at;
    b.workspace = static_cast<char *>(a.workspace) + results_bytes_;
    return b;
  }

  // body(first, last) for equal shares of so many lines.
  template <class Body>
  void share_out(int64_t lines, const Body &body) const {
    const int64_t tasks = std::clamp<int64_t>(lines, 1, tasks_);
    run_tasks(parallel_, tasks, [&](int64_t task) {
      const Share mine = share(lines, tasks, task);
      body(mine.begin, mine.end);
    });
  }

  void gather(const polyconv_arguments &a) const {
    PartResults results = {};
    for (const Part &part : parts_)
      if (part.forward) results.of[part.number] = static_cast<const char *>(a.workspace) + part.result_at;
    const polyconv_tensor &t = layer_.result;
    share_out(elements(t) / t.size[kW], [&](int64_t first, int64_t last) {
      interleave(layer_, results, static_cast<char *>(a.input), first, last);
    });
  }

  void zero(const Part &part, const polyconv_arguments &a) const {
    const polyconv_tensor &t = part.of.layer.result;
    char *const result = moved(a.input, part.of.result, t.type);
    share_out(t.size[kN] * t.size[kD] * t.size[kH],
              [&](int64_t first, int64_t last) { zero_lines(t, result, first, last); });
  }

  const polyconv_layer layer_;
  const int64_t tasks_;
  std::vector<Part> parts_;
  int64_t results_bytes_ = 0; // of the workspace: parts that will be interleaved
  std::unique_ptr<Parallel> parallel_;
};

} // namespace

std::unique_ptr<Instance> adjoint_create(const Kernel &forward, const polyconv_request &request, int32_t config) {
  return std::make_unique<Adjoint>(forward, request, config);
}

} // namespace polyconv::cpu
