// instance.cpp - see instance.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

#include <algorithm>
#include <cinttypes>

#include <polyconv/sdk/backend.hpp>
#include "choice.hpp"
#include "common/instance.hpp"

namespace polyconv::cudnn {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// What engines may take of the workspace, beside the copies of the conversions: a modest part where the first proposal
// is taken, what transforms of large tensors need where all are measured. The plan keeps what the chosen one needs.
int64_t engine_limit(const polyconv_policy &policy) {
  return policy.tuning_ms > 0 ? 16384 * kMiB : 256 * kMiB;
}

int64_t workspace_limit(const polyconv_layer &l, const polyconv_policy &policy) {
  const int64_t copies = std::max(copies_bytes(l, Order::ChannelsFirst), copies_bytes(l, Order::ChannelsLast));
  return std::min(policy.workspace_limit, copies + engine_limit(policy));
}

const char *why_not(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  if (!sdk::is_float(l.input.type) || !sdk::is_float(l.weights.type)) return "takes floats only";
  if (l.input.type != l.weights.type || l.input.type != l.output.type) return "writes the type that it reads";
  if (l.direction == POLYCONV_BACKWARD_WEIGHTS && e.has_bias) return "computes no gradient of a bias";
  const bool pads = std::any_of(l.pad_begin, l.pad_begin + 3, [](int64_t p) { return p != 0; }) ||
                    std::any_of(l.pad_end, l.pad_end + 3, [](int64_t p) { return p != 0; });
  if (pads && l.pad_mode != POLYCONV_PAD_ZERO) return "pads with zeros only";
  if (e.has_scale || e.has_bias || e.residual_from != POLYCONV_RESIDUAL_NONE || e.activation != POLYCONV_ACT_NONE)
    return "has no epilogue: no scale, bias, residual or activation";
  if (l.save != POLYCONV_SAVE_NONE) return "saves nothing";
  for (const polyconv_tensor *tensor : {&l.input, &l.weights, &l.output})
    if (sdk::elements(*tensor) > INT32_MAX) return "takes tensors of up to 2^31 - 1 elements";
  if (sdk::elements(l.output) == 0) return "takes no empty batch";
  return nullptr;
}

// What a bound set of pointers keeps: a handle of its own, since a handle belongs to one thread at a time, and the
// pointers as cuDNN wants them. So run makes nothing.
struct Bound {
  Handle handle;
  Descriptor pack;
};

class Convolution final : public cuda::CudaInstance {
 public:
  Convolution(const polyconv_request &request, const Rules &rules, const char *kernel)
      : CudaInstance(request),
        handle_(device_),
        choice_(choose(handle_.get(), layer_, rules, workspace_limit(layer_, *request.policy), *request.policy)),
        pack_first_(make_conversion(layer_.weights, dense(layer_.weights, Order::ChannelsFirst), *request.policy)),
        pack_last_(make_conversion(layer_.weights, dense(layer_.weights, Order::ChannelsLast), *request.policy)) {
    log_choice(kernel);
  }

  int64_t workspace_bytes() const override { return choice_.workspace_bytes(); }

  void pack(int, const void *raw, void *packed, void *stream) override {
    for (const Order order : kOrders) {
      polyconv_arguments move = {};
      move.struct_size = sizeof move;
      move.input = const_cast<void *>(raw);
      move.output = static_cast<char *>(packed) + packed_offset(layer_.weights, order);
      (order == Order::ChannelsFirst ? pack_first_ : pack_last_)->run(move, stream);
    }
  }

  void *bind(const polyconv_arguments &arguments) override {
    const cuda::DeviceScope scope(device_);
    const Pointers pointers = pointers_of(arguments);
    for (const void *pointer : {pointers.input, pointers.weights, pointers.output})
      if (reinterpret_cast<uintptr_t>(pointer) % kAlignment != 0)
        throw sdk::Error(POLYCONV_UNSUPPORTED, "cudnn: tensors must lie at multiples of 16 bytes");
    return new Bound{Handle(device_), choice_.way->pack(pointers)};
  }

  void unbind(void *bound) override { delete static_cast<Bound *>(bound); }

 private:
  static Pointers pointers_of(const polyconv_arguments &a) { return {a.input, a.weights[0], a.output, a.workspace}; }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const auto *bound = static_cast<const Bound *>(a.bound);
    choice_.way->run(bound->handle.get(), *choice_.execution, bound->pack, pointers_of(a), stream);
  }

  void log_choice(const char *kernel) const {
    char line[256], how[128] = "the first that is proposed";
    if (choice_.measured > 0)
      std::snprintf(how, sizeof how, "%.1f us, the fastest of %d measured%s%s", choice_.us, choice_.measured,
                    choice_.cut_short ? " before time ran out" : "", choice_.kept ? ", kept from another search" : "");
    std::snprintf(line, sizeof line, "cudnn/%s: %s, %" PRId64 " bytes of workspace; %s", kernel, choice_.name.c_str(),
                  choice_.workspace_bytes(), how);
    sdk::host->log(POLYCONV_LOG_INFO, line);
  }

  const Handle handle_;
  const Choice choice_;
  const std::unique_ptr<sdk::Instance> pack_first_, pack_last_;
};

} // namespace

bool supports(const polyconv_request &request, int32_t math, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  if (const char *reason = why_not(l)) return offer.reject("%s", reason);
  const bool half = l.input.type == POLYCONV_F16 || l.input.type == POLYCONV_BF16;
  const double bytes = static_cast<double>(sdk::elements(l.input) + sdk::elements(l.output)) * (half ? 2 : 4);
  offer.estimate_us = 10 + std::max(sdk::flops(l) / (half ? 300e6 : 30e6), bytes / 2e6);
  offer.math = math;
  offer.workspace_bytes = workspace_limit(l, *request.policy);
  if (!writes_weights(l)) offer.set_weights(0, kWeightsFormat, packed_bytes(l.weights));
  return true;
}

std::unique_ptr<sdk::Instance> make_instance(const polyconv_request &request, const Rules &rules, const char *kernel) {
  const cuda::DeviceScope scope(request.policy->device_index);
  return std::make_unique<Convolution>(request, rules, kernel);
}

} // namespace polyconv::cudnn
