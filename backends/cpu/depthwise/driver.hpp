// driver.hpp - the CPU-independent half of depthwise and grouped convolution with channels side by side, by rings of
// source rows, and of gradients of data at stride 2. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"
#include "cpu/depthwise/plan.hpp"
#include "cpu/depthwise/ring_plan.hpp"
#include "cpu/depthwise/spread_plan.hpp"

#include <polyconv/sdk/tensor.hpp>

namespace polyconv::cpu {

// Of input and results in 4 bytes each, whatever their types.
inline int64_t tensor_bytes(const polyconv_layer &layer) {
  return (sdk::elements(layer.input) + sdk::elements(layer.result)) * 4;
}

// Fills the offer for a forward layer of one channel a group whose input channels lie side by side; or rejects it.
bool depthwise_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

// The first input channel that result channel k reads.
inline int64_t source_of(const polyconv_layer &layer, int64_t k) {
  return k / (layer.output.size[1] / layer.groups) * layer.weights.size[1];
}

// Sizes, shares and the estimate.
DepthwisePlan depthwise_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Packs weights as tiles read them; and fills in their format and size, which are the same for every instruction set.
void depthwise_pack(const DepthwisePlan &plan, const polyconv_layer &layer, const void *raw, void *packed);
void depthwise_format(const DepthwisePlan &plan, const polyconv_layer &layer, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> depthwise_create(const polyconv_request &request, Isa isa);

// Whether the layer, forward and of one channel a group and one filter a channel, goes by rings: in either layout,
// within the workspace and, channels first, quicker than the filter of planes where that takes it too.
bool ring_pays(const polyconv_request &request, Isa isa);

// Sizes, shares and the estimate, without tables.
RingPlan ring_geometry(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa);

// Fills the offer, or rejects pooling and a workspace beyond the limit.
bool ring_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> ring_create(const polyconv_request &request, Isa isa);

// spread_plan.hpp: whether the layer is one of those, on an instruction set that has the registers.
bool spread_takes(const polyconv_request &request, Isa isa);

// Fills the offer for such a layer, or rejects it.
bool spread_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> spread_create(const polyconv_request &request, Isa isa);

} // namespace polyconv::cpu
