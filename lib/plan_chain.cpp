// plan_chain.cpp - groups as requests of their own, and their wiring to each other.
// SPDX-License-Identifier: Apache-2.0
#include "plan_chain.hpp"

namespace polyconv {
namespace {

// Where a residual comes from, seen from a group that begins at `first`.
int32_t residual_in_group(int32_t from, int32_t first, int32_t count) {
  if (from == POLYCONV_RESIDUAL_INPUT && (first > 0 || count == 1)) return POLYCONV_RESIDUAL_BUFFER;
  if (from < POLYCONV_RESIDUAL_LAYER) return from;
  const int32_t layer = from - POLYCONV_RESIDUAL_LAYER;
  return layer < first ? POLYCONV_RESIDUAL_BUFFER : POLYCONV_RESIDUAL_LAYER + layer - first;
}

int32_t residual_of(const Layer &layer) {
  return layer.problem.epilogue.residual_from;
}

// Whatever lies in memory between layers is where the plan puts it.
std::vector<Place> place_results(LayoutBuilder *builder, const std::vector<Layer> &layers,
                                 const std::vector<Part> &parts) {
  std::vector<Place> results(layers.size());
  for (size_t part = 0; part + 1 < parts.size(); ++part) {
    const size_t last = static_cast<size_t>(parts[part].group.first + parts[part].group.count() - 1);
    results[last] = builder->add_block(bytes_of(parts[part].group.layers.back().result));
  }
  return results;
}

} // namespace

bool nothing_to_run(const std::vector<Layer> &layers) {
  return layers[0].problem.batch == 0 && layers[0].problem.direction != POLYCONV_BACKWARD_WEIGHTS;
}

Group make_group(const std::vector<Layer> &layers, int32_t first, int32_t count) {
  Group group;
  group.first = first;
  group.layers.reserve(static_cast<size_t>(count));
  for (int32_t i = first; i < first + count; ++i) {
    const Layer &layer = layers[static_cast<size_t>(i)];
    group.layers.push_back(layer.layer);
    group.layers.back().epilogue.residual_from = residual_in_group(residual_of(layer), first, count);
    if (nothing_to_run(layers)) set_batch(&group.layers.back(), 1);
  }
  group.has_gradient = layers[static_cast<size_t>(first)].has_gradient; // chains have none
  group.gradient = layers[static_cast<size_t>(first)].gradient;
  if (group.has_gradient && nothing_to_run(layers)) set_batch(&group.gradient, 1);
  return group;
}

Layout lay_out(const std::vector<Layer> &layers, const std::vector<Part> &parts) {
  LayoutBuilder builder;
  const std::vector<Place> results = place_results(&builder, layers, parts);
  const bool backward = layers[0].problem.direction == POLYCONV_BACKWARD_DATA;
  const Place chain_read = {backward ? kSlotOutput : kSlotInput, -1};
  const Place chain_written = {backward ? kSlotInput : kSlotOutput, -1};
  for (const Part &part : parts) {
    const int32_t first = part.group.first, end = first + part.group.count();
    const bool is_last = end == static_cast<int32_t>(layers.size());
    const Place source = first == 0 ? chain_read : results[static_cast<size_t>(first - 1)];
    const Place destination = is_last ? chain_written : results[static_cast<size_t>(end - 1)];
    const polyconv_layer &head = part.group.layers[0];
    Ends ends;
    if (head.direction == POLYCONV_BACKWARD_WEIGHTS) {
      const bool swapped = layers[0].swapped;
      ends.input = {swapped ? kSlotOutput : kSlotInput, -1};
      ends.output = {swapped ? kSlotInput : kSlotOutput, -1};
    } else {
      // A fused kernel reads `input` and writes `output`, whatever its layers; a single layer has its own roles.
      const bool against = part.group.count() == 1 && head.direction == POLYCONV_BACKWARD_DATA;
      ends.input = against ? destination : source;
      ends.output = against ? source : destination;
    }
    for (int32_t i = first; i < end; ++i) {
      const int32_t from = residual_of(layers[static_cast<size_t>(i)]);
      Place &residual = ends.residual[i - first];
      if (from == POLYCONV_RESIDUAL_BUFFER) residual = {static_cast<uint16_t>(kSlotResidual + i), -1};
      if (from == POLYCONV_RESIDUAL_INPUT) residual = chain_read;
      if (from >= POLYCONV_RESIDUAL_LAYER) residual = results[static_cast<size_t>(from - POLYCONV_RESIDUAL_LAYER)];
    }
    builder.add(part.group, part.candidate, ends);
  }
  return builder.finish();
}

} // namespace polyconv
