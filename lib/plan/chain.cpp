// chain.cpp - groups as requests of their own, and their wiring to each other.
// SPDX-License-Identifier: Apache-2.0
#include "plan/chain.hpp"

namespace polyconv {
namespace {

// Where a residual comes from, seen from a group that begins at `first`.
int32_t residual_in_group(int32_t from, int32_t first, int32_t count) {
  if (from == POLYCONV_RESIDUAL_INPUT && (first > 0 || count == 1)) return POLYCONV_RESIDUAL_BUFFER;
  if (from < POLYCONV_RESIDUAL_LAYER) return from;
  const int32_t layer = from - POLYCONV_RESIDUAL_LAYER;
  return layer < first ? POLYCONV_RESIDUAL_BUFFER : POLYCONV_RESIDUAL_LAYER + layer - first;
}

int32_t residual_of(const Layer &layer) { // a gradient's is of the step before it
  return layer.has_gradient ? int32_t{POLYCONV_RESIDUAL_NONE} : layer.problem.epilogue.residual_from;
}

// A fused kernel passes what lies between its layers on as it is, and finds the chain's input where its first layer
// reads: a layer that reads a part of either is unusual to it.
void mark_views(const std::vector<Layer> &layers, int32_t first, Group *group) {
  if (group->count() == 1) return;
  bool adds_input = false;
  for (const polyconv_layer &layer : group->layers)
    adds_input = adds_input || layer.epilogue.residual_from == POLYCONV_RESIDUAL_INPUT;
  for (int32_t i = 0; i < group->count(); ++i)
    if (layers[static_cast<size_t>(first) + static_cast<size_t>(i)].views_input && (i > 0 || adds_input))
      group->layers[static_cast<size_t>(i)].traits |= POLYCONV_TRAIT_CROPPING;
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
  const polyconv_problem &first = layers[0].problem;
  polyconv_tensor residual;
  if (first.direction != POLYCONV_FORWARD && tensor_of(first, POLYCONV_TENSOR_RESIDUAL_GRADIENT, &residual) &&
      bytes_of(residual) != 0)
    return false; // its gradient may be wanted
  if (first.direction == POLYCONV_BACKWARD_WEIGHTS)
    return bytes_of(layers[0].layer.result) == 0 && (first.epilogue.has_bias == 0 || first.out_channels == 0);
  return bytes_of(layers.back().layer.result) == 0 || first.batch == 0;
}

Group make_group(const std::vector<Layer> &layers, int32_t first, int32_t count) {
  Group group;
  group.first = first;
  group.layers.reserve(static_cast<size_t>(count));
  for (int32_t i = first; i < first + count; ++i) {
    const Layer &layer = layers[static_cast<size_t>(i)];
    group.layers.push_back(layer.layer);
    group.layers.back().epilogue.residual_from = residual_in_group(residual_of(layer), first, count);
    if (layers[0].problem.batch == 0 && nothing_to_run(layers)) set_batch(&group.layers.back(), 1);
  }
  mark_views(layers, first, &group);
  group.view_offset = layers[static_cast<size_t>(first)].view_offset;
  group.has_gradient = layers[static_cast<size_t>(first)].has_gradient; // chains have none
  group.gradient = layers[static_cast<size_t>(first)].gradient;
  if (group.has_gradient && layers[0].problem.batch == 0 && nothing_to_run(layers)) set_batch(&group.gradient, 1);
  return group;
}

Layout lay_out(const std::vector<Layer> &layers, const std::vector<Part> &parts) {
  LayoutBuilder builder;
  const std::vector<Place> results = place_results(&builder, layers, parts);
  const bool backward = layers[0].problem.direction == POLYCONV_BACKWARD_DATA;
  const Place chain_read = {backward ? kSlotOutput : kSlotInput, -1, 0};
  const Place chain_written = {backward ? kSlotInput : kSlotOutput, -1, 0};
  for (const Part &part : parts) {
    const int32_t first = part.group.first, end = first + part.group.count();
    const bool is_last = end == static_cast<int32_t>(layers.size());
    const Place source = first == 0 ? chain_read : results[static_cast<size_t>(first - 1)];
    const Place destination = is_last ? chain_written : results[static_cast<size_t>(end - 1)];
    const polyconv_layer &head = part.group.layers[0];
    Ends ends;
    if (head.direction == POLYCONV_BACKWARD_WEIGHTS) {
      const bool swapped = layers[0].swapped;
      ends.input = {swapped ? kSlotOutput : kSlotInput, -1, 0};
      ends.output = {swapped ? kSlotInput : kSlotOutput, -1, 0};
    } else {
      // A fused kernel reads `input` and writes `output`, whatever its layers; a single layer has its own roles.
      const bool against = part.group.count() == 1 && head.direction == POLYCONV_BACKWARD_DATA;
      ends.input = against ? destination : source;
      ends.output = against ? source : destination;
    }
    for (int32_t i = first; i < end; ++i) {
      const int32_t from = residual_of(layers[static_cast<size_t>(i)]);
      Place &residual = ends.residual[i - first];
      if (from == POLYCONV_RESIDUAL_BUFFER) residual = {static_cast<uint16_t>(kSlotResidual + i), -1, 0};
      if (from == POLYCONV_RESIDUAL_INPUT) residual = chain_read;
      if (from >= POLYCONV_RESIDUAL_LAYER) residual = results[static_cast<size_t>(from - POLYCONV_RESIDUAL_LAYER)];
    }
    if (!part.group.has_gradient || !reads_gradient_as_input(head)) ends.input.offset += part.group.view_offset;
    builder.add(part.group, part.candidate, ends);
  }
  return builder.finish();
}

} // namespace polyconv
