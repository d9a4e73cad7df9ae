// instance.cpp - see instance.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

#include <algorithm>
#include <cinttypes>

#include <polyconv/sdk/backend.hpp>

namespace polyconv::onednn {
namespace {

using sdk::kC;
using sdk::kK;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr const char *kWeightsFormat = "onednn:1"; // what follows the header is between this plan and its weights

int64_t up(int64_t value, int64_t block) {
  return (value + block - 1) / block * block;
}

// Blocks of channels are of 16 elements, and of up to 64 in weights.
int64_t padded(int64_t channels) {
  return up(channels, channels <= 48 ? 16 : 64);
}

// The most that oneDNN's orders of the weights may take: groups or channels padded to blocks, sums for int8.
int64_t packed_limit(const polyconv_layer &l) {
  const polyconv_tensor &w = l.weights;
  const int64_t filters = w.size[kK] / l.groups, per_group = padded(filters) * padded(w.size[kC]);
  const bool depthwise = filters == 1 && w.size[kC] == 1;
  const int64_t blocks = depthwise ? up(l.groups, 64) : l.groups * per_group;
  return kHeaderBytes + blocks * sdk::taps(l) * bytes_of_type(w.type) + 8 * up(w.size[kK], 64) + 4096;
}

int64_t copy_limit(const polyconv_tensor &t) {
  return up(t.size[0] * padded(t.size[kC]) * sdk::spatial(t) * bytes_of_type(t.type), POLYCONV_ALIGNMENT);
}

// Beside copies of the tensors what implementations may take for themselves: less where nobody compares.
Limits limits_of(const polyconv_layer &l, const polyconv_policy &policy) {
  const bool packs = l.direction != POLYCONV_BACKWARD_WEIGHTS;
  const int64_t scratch = (policy.tuning_ms > 0 ? 2048 : 256) * kMiB;
  const int64_t copies = copy_limit(l.input) + copy_limit(l.output) + (packs ? 0 : packed_limit(l));
  return {std::min(policy.workspace_limit, copies + scratch), packs ? packed_limit(l) : 0};
}

bool same_float(const polyconv_layer &l) {
  const int32_t type = l.input.type;
  const bool kept = type == POLYCONV_F32 || type == POLYCONV_F16 || type == POLYCONV_BF16;
  return kept && (l.direction == POLYCONV_BACKWARD_WEIGHTS || l.weights.type == type) &&
         (l.result.type == type || l.result.type == POLYCONV_F32);
}

const char *types_not_taken(const polyconv_layer &l) {
  const Library &dnnl = library();
  if (sdk::is_quantised(l)) {
    if (l.weights.type != POLYCONV_S8) return "takes s8 weights beside s8 and u8, not u8";
    if (l.result.type != POLYCONV_S32) return "writes s32 from s8 and u8";
    if (l.input_zero_point != 0 || l.weights_zero_point != 0) return "takes no zero points";
    if (l.epilogue.has_bias) return "adds a bias to s32 sums in f32, which is not exact";
    if (!dnnl.has(dnnl_cpu_isa_avx512_core_vnni) && !dnnl.has(dnnl_cpu_isa_avx2_vnni))
      return "saturates s8 products at 16 bits without VNNI";
    return nullptr;
  }
  if (!same_float(l)) return "takes f32, f16, bf16, or s8 and u8, and writes the type that it reads, f32 or s32";
  if (l.input.type == POLYCONV_F16 && !dnnl.has(dnnl_cpu_isa_avx512_core_fp16) && !dnnl.has(dnnl_cpu_isa_avx2_vnni_2))
    return "takes f16 only where the processor computes in it (AVX512-FP16)";
  if (l.input.type == POLYCONV_BF16 && l.direction == POLYCONV_FORWARD && l.groups == 1 && l.weights.size[kC] == 1)
    return "lets NaN reach outputs that do not read it where bf16 has one channel";
  if (l.input.type == POLYCONV_BF16 && l.direction == POLYCONV_BACKWARD_WEIGHTS && l.output.size[4] == 1 &&
      (l.pad_begin[2] != 0 || l.pad_end[2] != 0))
    return "lets NaN reach gradients of weights that only padding meets where bf16 has lines of one padded output";
  return nullptr;
}

const char *tensors_not_taken(const polyconv_layer &l) {
  for (const polyconv_tensor *tensor : {&l.input, &l.weights, &l.output})
    if (sdk::elements(*tensor) > INT32_MAX) return "takes tensors of up to 2^31 - 1 elements";
  if (sdk::elements(l.output) == 0) return "takes no empty batch";
  if (orders_of(l.input).empty() || orders_of(l.output).empty()) return "takes dense channels first or last";
  for (int axis = 0; axis < 5; ++axis)
    if (l.weights.size[axis] > 1 && l.weights.stride[axis] <= 0) return "takes weights with positive strides: no flip";
  return nullptr;
}

const char *why_not(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  const bool pads = std::any_of(l.pad_begin, l.pad_begin + 3, [](int64_t p) { return p != 0; }) ||
                    std::any_of(l.pad_end, l.pad_end + 3, [](int64_t p) { return p != 0; });
  if (pads && l.pad_mode != POLYCONV_PAD_ZERO) return "pads with zeros only";
  if (e.has_scale || e.residual_from != POLYCONV_RESIDUAL_NONE) return "adds a bias at most: no scale, no residual";
  if (e.has_bias && l.direction == POLYCONV_BACKWARD_DATA) return "adds no bias to gradients of data";
  if (e.has_bias && l.bias_over_input) return "sums the gradient of the bias over the output only";
  if (l.direction != POLYCONV_FORWARD && e.activation != POLYCONV_ACT_NONE) return "activates forward sums only";
  if (e.activation == POLYCONV_ACT_RELU || e.activation == POLYCONV_ACT_CLIPPED_RELU)
    return "has no relu that keeps NaN and Inf right: oneDNN's makes 0 of NaN, or NaN of -Inf";
  if (l.save != POLYCONV_SAVE_NONE) return "saves nothing";
  if (const char *reason = types_not_taken(l)) return reason;
  return tensors_not_taken(l);
}

class Convolution final : public sdk::Instance {
 public:
  Convolution(const polyconv_request &request, Layout layout, const char *config)
      : threads_(request.policy->threads), choice_(make_choice(request, layout)) {
    log_choice(config);
  }

  int64_t workspace_bytes() const override { return choice_.way->workspace_bytes(); }

  void pack(int, const void *raw, void *packed, void *) override {
    const ThreadScope scope(threads_);
    choice_.way->pack(raw, packed);
  }

  void *bind(const polyconv_arguments &a) override {
    return choice_.way->bind({a.input, a.weights[0], a.bias[0], a.output, a.workspace}).release();
  }

  void unbind(void *bound) override { delete static_cast<Bound *>(bound); }

  void run(const polyconv_arguments &a, void *) const override {
    const ThreadScope scope(threads_);
    static_cast<const Bound *>(a.bound)->run();
  }

 private:
  static Choice make_choice(const polyconv_request &request, Layout layout) {
    const polyconv_layer &layer = *request.layers[0];
    const ThreadScope scope(request.policy->threads);
    return choose(layer, layout, limits_of(layer, *request.policy), *request.policy);
  }

  void log_choice(const char *config) const {
    char line[320], how[120] = "oneDNN's first choice";
    if (choice_.measured > 0)
      std::snprintf(how, sizeof how, "%.1f us, of which reorders %.1f, the fastest of %d measured%s", choice_.us,
                    choice_.reorders_us, choice_.measured, choice_.cut_short ? " before time ran out" : "");
    std::snprintf(line, sizeof line, "onednn/conv@%s: oneDNN %s, %s; %s; %" PRId64 " bytes of workspace", config,
                  library().version_text().c_str(), choice_.way->name().c_str(), how, workspace_bytes());
    sdk::host->log(POLYCONV_LOG_INFO, line);
  }

  const int threads_;
  const Choice choice_;
};

} // namespace

bool supports(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const polyconv_policy &policy = *request.policy;
  if (policy.parallel_for != nullptr) return offer.reject("runs on OpenMP's threads, not on the caller's");
  if (policy.dynamic_weights) return offer.reject("allocates when it packs weights, so it keeps no dynamic weights");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  if (const char *reason = why_not(l)) return offer.reject("%s", reason);
  if (policy.threads > 1 && sdk::spatial(l.output) == 1)
    return offer.reject("ends the process now and then on layers of one pixel on several threads (3.13.1): takes one");
  if (spreads_nan(l))
    return offer.reject("lets NaN reach results that do not read it where bf16 sums an odd number of few channels");
  const Limits limits = limits_of(l, policy);
  offer.estimate_us = 5 + sdk::flops(l) / (5e4 * policy.threads); // at 50 Gflop/s a thread
  offer.workspace_bytes = limits.workspace_bytes;
  if (limits.packed_bytes > 0) offer.set_weights(0, kWeightsFormat, limits.packed_bytes);
  return true;
}

std::unique_ptr<sdk::Instance> make_instance(const polyconv_request &request, Layout layout, const char *config) {
  return std::make_unique<Convolution>(request, layout, config);
}

} // namespace polyconv::onednn
