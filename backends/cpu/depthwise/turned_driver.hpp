// turned_driver.hpp - the CPU-independent half of depthwise convolution with channels first by way of pixels. Driver
// side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/depthwise/turned_plan.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cpu {

// Whether the layer, forward and of one channel a group and one filter a channel, is one of whole kernels:
// an image, columns side by side, padding with a value.
bool turned_takes(const polyconv_layer &layer);

// Channels side by side, more of them than one.
inline bool channels_side_by_side(const polyconv_layer &layer) {
  return layer.input.stride[1] == 1 && layer.input.size[1] > 1;
}

// Whether a way by pixels, which takes the layer, is quicker than the filter of planes, if that takes it too;
// `geometry` plans one image on one thread, so that bits depend on the number of neither.
template <class Plan>
bool beats_planes(const polyconv_request &request, Isa isa,
                  Plan (*geometry)(const polyconv_layer &, const polyconv_policy &, Isa)) {
  const polyconv_layer &layer = *request.layers[0];
  sdk::Offer unused = {};
  if (channels_side_by_side(layer) || !plane_takes(layer, isa, unused)) return true;
  polyconv_layer one = layer;
  polyconv_policy alone = *request.policy;
  alone.threads = 1;
  for (polyconv_tensor *t : {&one.input, &one.output, &one.result}) t->size[sdk::kN] = 1;
  const Plan plan = geometry(one, alone, isa);
  return plan.scratch_bytes <= alone.workspace_limit &&
         plan.estimate_us < plane_geometry(one, alone, isa, false).estimate_us;
}

// Whether it takes the layer, fits the workspace, and beats the filter of planes where that takes it too.
bool turned_pays(const polyconv_request &request, Isa isa);

// Sizes, shares and the estimate, without tables.
TurnedPlan turned_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Fills the offer, or rejects pooling and a workspace beyond the limit.
bool turned_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> turned_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
