// kernels.cpp - which way of this folder a layer goes: what kernels depthwise, grouped and depthwise_data take.
// Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/kernels.hpp"
#include "cpu/adjoint/driver.hpp"
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/depthwise/driver.hpp"
#include "cpu/depthwise/turned_driver.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

constexpr int64_t kMostListed = 1 << 20; // channels of grouped results, four bytes each
constexpr double kConvertUs = 0.18e-3;   // an element, from planes to pixels or back

void lay_channels_side_by_side(polyconv_tensor &t) {
  t.offset = 0, t.size[sdk::kN] = 1;
  int64_t stride = 1;
  for (const int axis : {sdk::kC, sdk::kW, sdk::kH, sdk::kD, sdk::kN}) t.stride[axis] = stride, stride *= t.size[axis];
}

// Whether planes are so small, or read at such strides, that vectors of channels are quicker by more than converting
// the tensors costs. Of one image on one thread, so that bits depend on neither.
bool better_converted(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  polyconv_layer planes = layer, pixels = layer;
  polyconv_policy alone = policy;
  alone.threads = 1;
  for (polyconv_tensor polyconv_layer::*t :
       {&polyconv_layer::input, &polyconv_layer::output, &polyconv_layer::result}) {
    (planes.*t).size[sdk::kN] = 1;
    lay_channels_side_by_side(pixels.*t);
  }
  const double converting = kConvertUs * real(sdk::elements(pixels.input) + sdk::elements(pixels.result));
  return depthwise_geometry(pixels, alone, isa).estimate_us + converting <
         plane_geometry(planes, alone, isa, false).estimate_us;
}

// Whether the converted tensors fit the workspace; where they do not, planes are better than no depthwise kernel at
// all.
bool conversion_fits(const polyconv_layer &layer, const polyconv_policy &policy) {
  constexpr int64_t kBeside = 64 << 10; // of the kernel itself, and to align them
  int64_t bytes = kBeside;
  const int32_t residual_from = layer.epilogue.residual_from;
  for (const polyconv_tensor *t : {&layer.input, &layer.output}) bytes += sdk::elements(*t) * type_bytes(t->type);
  if (residual_from != POLYCONV_RESIDUAL_NONE) bytes += sdk::elements(layer.residual) * type_bytes(layer.residual.type);
  return bytes <= policy.workspace_limit;
}

bool offer_forward(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.weights.size[sdk::kC] != 1)
    return offer.reject("takes one channel a group, not %" PRId64, layer.weights.size[sdk::kC]);
  if (layer.groups == 1) return offer.reject("takes several groups; this is one channel");
  if (ring_pays(request, isa)) return ring_offer(request, isa, offer);
  if (channels_side_by_side(layer))
    return layer.output.size[sdk::kC] == layer.input.size[sdk::kC]
               ? depthwise_offer(request, isa, offer)
               : offer.reject("takes one filter a channel where channels lie side by side");
  if (turned_pays(request, isa)) return turned_offer(request, isa, offer);
  if (!plane_takes(layer, isa, offer)) return false;
  if (layer.output.size[sdk::kC] == layer.input.size[sdk::kC] && !turned_takes(layer) &&
      conversion_fits(layer, *request.policy) && better_converted(layer, *request.policy, isa))
    return wants_layout(POLYCONV_CHANNELS_LAST,
                        "takes planes of this size as vectors of channels, once these lie side by side", offer);
  return plane_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create_forward(const polyconv_request &request, int32_t config) {
  const Isa isa = static_cast<Isa>(config);
  if (ring_pays(request, isa)) return ring_create(request, isa);
  if (channels_side_by_side(*request.layers[0])) return depthwise_create(request, isa);
  return turned_pays(request, isa) ? turned_create(request, isa) : plane_create(request, isa);
}

// The configs of kernels that have one for bf16, whose number is its instruction set's.
#if POLYCONV_HAVE_DOTS && !defined(__aarch64__)
constexpr int32_t kConfigs = kDots + 1;
#else
constexpr int32_t kConfigs = kIsaCount;
#endif

// Whether a layer has what that config is for: bf16 that tiles store.
bool takes_bf16(const polyconv_request &request, sdk::Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  const bool bf16 = layer.input.type == POLYCONV_BF16 && layer.result.type == POLYCONV_BF16;
  return (bf16 && channels_side_by_side(layer)) || offer.reject("takes bf16 whose channels lie side by side");
}

bool supports_forward(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  sdk::Offer unused = offer;
  if (config < 0 && kConfigs > kIsaCount && request.op == POLYCONV_OP_CONVOLVE && request.count == 1 &&
      has_isa(kDots, unused) && takes_bf16(request, unused))
    config = kDots;
  if (!choose_isa(config, offer, isa)) return false;
  if (isa == kDots && !(takes_strips(request, POLYCONV_FORWARD, offer) && takes_bf16(request, offer))) return false;
  return offer_forward(request, isa, offer);
}

bool supports_data(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  if (!choose_isa(config, offer, isa)) return false;
  return isa != kDots && spread_takes(request, isa) ? spread_offer(request, isa, offer)
                                                    : adjoint_supports(kernel_depthwise, request, config, offer);
}

std::unique_ptr<sdk::Instance> create_grouped(const polyconv_request &request, int32_t config) {
  return depthwise_create(request, static_cast<Isa>(config));
}

std::unique_ptr<sdk::Instance> create_data(const polyconv_request &request, int32_t config) {
  const Isa isa = static_cast<Isa>(config);
  return isa != kDots && spread_takes(request, isa) ? spread_create(request, isa)
                                                    : adjoint_create(kernel_depthwise, request, config);
}

// The most input channels, one behind the other, that a vector of `lanes` results reads. Vectors repeat themselves
// after at most `lanes` of them where groups are narrower; where they are wider, the first that has two groups is the
// widest.
int64_t widest_read(const polyconv_layer &layer, int64_t lanes) {
  const int64_t in = layer.input.size[sdk::kC], out = layer.output.size[sdk::kC], group_out = out / layer.groups;
  const int64_t group_in = layer.weights.size[sdk::kC];
  if (group_out >= lanes) return group_out % lanes == 0 ? group_in : 2 * group_in;
  int64_t widest = 0;
  for (int64_t k = 0; k < std::min(out, lanes * group_out); k += lanes) {
    const int64_t first = std::min(source_of(layer, k), in - lanes);
    widest = std::max(widest, source_of(layer, std::min(k + lanes, out) - 1) + group_in - first);
  }
  return widest;
}

bool offer_grouped(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  const int64_t in = layer.input.size[sdk::kC], out = layer.output.size[sdk::kC],
                of_group = layer.weights.size[sdk::kC];
  if (layer.groups == 1) return offer.reject("takes several groups");
  if (of_group == 1 && in == out) return offer.reject("takes several channels or filters a group; this is depthwise");
  if (layer.input.stride[sdk::kC] != 1)
    return wants_layout(POLYCONV_CHANNELS_LAST, "takes channels that lie side by side", offer);
  const int64_t lanes = vector_bytes(isa) / sum_bytes(layer.sum_type);
  if (in < lanes) return offer.reject("takes a vector of channels and more, not %" PRId64, in);
  if (out > kMostListed)
    return offer.reject("lists what each channel of results reads: takes up to %" PRId64 ", not %" PRId64, kMostListed,
                        out);
  const int64_t widest = widest_read(layer, lanes);
  if (widest > 2 * lanes)
    return offer.reject("takes vectors of results that read two vectors of channels at most, not %" PRId64 " channels",
                        widest);
  return depthwise_offer(request, isa, offer);
}

} // namespace

const sdk::Kernel kernel_depthwise = {"depthwise",           0, isa_names, kConfigs, supports_forward, create_forward,
                                      sdk::kActivationTraits};
const sdk::Kernel kernel_grouped = kernel_by_isa("grouped", supports_by_isa<offer_grouped>, create_grouped);
const sdk::Kernel kernel_depthwise_data = {"depthwise_data",      0, isa_names, kConfigs, supports_data, create_data,
                                           sdk::kActivationTraits};

} // namespace polyconv::cpu
