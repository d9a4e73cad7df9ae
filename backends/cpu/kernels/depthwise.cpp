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
#include "cpu/count.hpp"
#include "cpu/depthwise/driver.hpp"
#include "cpu/depthwise/turned_driver.hpp"
#include "cpu/direct/driver.hpp"
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
  return plane_takes(layer, isa, offer) && plane_offer(request, isa, offer);
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
