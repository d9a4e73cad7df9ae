// depthwise.cpp - one channel a group, one filter a channel. Channels last: vectors of channels; channels first:
// vectors along W, the filter of planes, or, where planes are small or read at strides, vectors of channels of pixels
// that are turned in the cache. Every type (channels first: float and image types), kernel, stride, dilation, border.
//
// Floor: one read and one write of the tensors; a 3x3 has 9 multiply-adds for them, so it is memory that counts beyond
// the caches. Inside them a row of 8 pixels loads 10 vectors for 24 multiply-adds of each row of taps.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/turned.hpp"

namespace polyconv::cpu {

POLYCONV_ISA_FUNCTION(void, depthwise_task, const DepthwisePlan &plan, const DepthwiseRun &run,
                      const DepthwiseShare &share)

POLYCONV_ISA_FUNCTION(void, depthwise_turned_task, const TurnedPlan &plan, const TurnedRun &run,
                      const TurnedShare &share)

namespace POLYCONV_ISA {

void depthwise_turned_task(const TurnedPlan &plan, const TurnedRun &run, const TurnedShare &share) {
  turned_typed(plan, run, share);
}

void depthwise_task(const DepthwisePlan &plan, const DepthwiseRun &run, const DepthwiseShare &share) {
  depthwise_typed<DepthwiseFilter>(plan, run, share);
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/common/accepts.hpp"
#include "cpu/common/count.hpp"
#include "cpu/depthwise/driver.hpp"
#include "cpu/depthwise/turned_driver.hpp"
#include "cpu/kernels.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <cinttypes>

namespace polyconv::cpu {
namespace {

constexpr DepthwiseTask kTask[] = POLYCONV_BY_ISA(depthwise_task);
constexpr TurnedTask kTurnedTask[] = POLYCONV_BY_ISA(depthwise_turned_task);
constexpr PlaneTask kPlaneTask[] = POLYCONV_BY_ISA(image_task);

// Channels side by side, more of them than one.
bool channels_side_by_side(const polyconv_layer &layer) {
  return layer.input.stride[sdk::kC] == 1 && layer.input.size[sdk::kC] > 1;
}

constexpr double kConvertUs = 0.18e-3; // an element, from planes to pixels or back

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

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  Isa isa;
  if (!choose_isa(config, offer, isa) || !takes_strips(request, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (layer.direction != POLYCONV_FORWARD) return offer.reject("takes forward convolutions, no gradients");
  if (layer.weights.size[sdk::kC] != 1)
    return offer.reject("takes one channel a group, not %" PRId64, layer.weights.size[sdk::kC]);
  if (layer.groups == 1) return offer.reject("takes several groups; this is one channel");
  if (channels_side_by_side(layer))
    return layer.output.size[sdk::kC] == layer.input.size[sdk::kC]
               ? depthwise_offer(request, isa, offer)
               : offer.reject("takes one filter a channel where channels lie side by side");
  if (turned_pays(request, isa)) return turned_offer(request, isa, offer);
  if (!plane_takes(layer, isa, offer)) return false;
  if (layer.output.size[sdk::kC] == layer.input.size[sdk::kC] && !turned_takes(layer) &&
      conversion_fits(layer, *request.policy) && better_converted(layer, *request.policy, isa)) {
    offer.wants_layout = 1 + POLYCONV_CHANNELS_LAST;
    return offer.reject("takes planes of this size as vectors of channels, once these lie side by side");
  }
  return plane_offer(request, isa, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  const Isa isa = static_cast<Isa>(config);
  if (channels_side_by_side(*request.layers[0])) return depthwise_create(request, isa, kTask[config]);
  return turned_pays(request, isa) ? turned_create(request, isa, kTurnedTask[config])
                                   : plane_create(request, isa, kPlaneTask[config]);
}

} // namespace

const sdk::Kernel kernel_depthwise = {"depthwise", 0, isa_names, kIsaCount, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
#endif
