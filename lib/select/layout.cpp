// layout.cpp - wires steps to pointers and packs what lives at the same time into one workspace.
// SPDX-License-Identifier: Apache-2.0
#include "select/layout.hpp"

#include "problem/problem.hpp"

#include <algorithm>

namespace polyconv {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
}

uint16_t slot(uint16_t base, int32_t layer) {
  return static_cast<uint16_t>(base + layer);
}

Place caller(uint16_t base, int32_t layer) {
  return {slot(base, layer), -1, 0};
}

} // namespace

Place LayoutBuilder::add_block(int64_t bytes) {
  blocks_.push_back({bytes});
  return {kSlots, static_cast<int32_t>(blocks_.size()) - 1, 0};
}

int32_t LayoutBuilder::add_step(const KernelEntry &entry, int32_t op, int32_t config, int32_t first, double estimate_us,
                                int64_t scratch_bytes) {
  const int32_t step = static_cast<int32_t>(layout_.steps.size());
  layout_.steps.push_back({&entry, op, config, first, {}, {}, estimate_us});
  if (scratch_bytes > 0) wire(step, kSlotWorkspace, add_block(scratch_bytes));
  return step;
}

void LayoutBuilder::wire(int32_t step, uint16_t to, Place from) {
  if (from.slot == kSlots && from.block < 0) return;
  wires_.push_back({step, to, from});
  if (from.block < 0) return;
  Block &block = blocks_[static_cast<size_t>(from.block)];
  if (block.first_step < 0) block.first_step = step;
  block.last_step = step;
}

// What the layers of a convolving step have besides input and output.
void LayoutBuilder::wire_layers(int32_t step, const Group &group, const Ends &ends, Place saved) {
  for (int32_t i = 0; i < group.count(); ++i) {
    const polyconv_layer &layer = layout_.steps[static_cast<size_t>(step)].layers[static_cast<size_t>(i)];
    const int32_t whole = group.first + i;
    wire(step, slot(kSlotWeights, i), caller(kSlotWeights, whole));
    if (layer.epilogue.has_bias != 0) wire(step, slot(kSlotBias, i), caller(kSlotBias, whole));
    if (layer.epilogue.has_scale != 0) wire(step, slot(kSlotScale, i), caller(kSlotScale, whole));
    if (layer.epilogue.activation == POLYCONV_ACT_PRELU) wire(step, slot(kSlotSlope, i), caller(kSlotSlope, whole));
    if ((layer.traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS) != 0)
      wire(step, slot(kSlotWeightsZeroPoint, i), caller(kSlotWeightsZeroPoint, whole));
    if (layer.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER) wire(step, slot(kSlotResidual, i), ends.residual[i]);
    if (layer.save != POLYCONV_SAVE_NONE)
      wire(step, slot(kSlotSaved, i), saved.block >= 0 ? saved : caller(kSlotSaved, whole));
  }
}

// The step before a gradient's layer; gives the ends of what follows, which reads the step's result.
Ends LayoutBuilder::add_gradient(const Group &group, const Helper &helper, const Ends &ends) {
  const int32_t step = add_step(*helper.entry, POLYCONV_OP_GRADIENT, helper.config, group.first, helper.estimate_us,
                                helper.workspace_bytes);
  layout_.steps.back().layers.push_back(group.gradient);
  Ends after = ends;
  Place &read = reads_gradient_as_input(group.layers[0]) ? after.input : after.output;
  wire(step, kSlotInput, read);
  const polyconv_epilogue &epilogue = group.gradient.epilogue;
  const auto wire_caller = [&](bool has, uint16_t base) {
    if (has) wire(step, base, caller(base, group.first));
  };
  wire_caller(group.gradient.save != POLYCONV_SAVE_NONE, kSlotSaved);
  wire_caller(epilogue.has_scale != 0, kSlotScale);
  wire_caller(epilogue.has_bias != 0, kSlotBias);
  wire_caller(epilogue.activation == POLYCONV_ACT_PRELU, kSlotSlope);
  wire_caller(epilogue.residual_from != POLYCONV_RESIDUAL_NONE, kSlotResidualGradient);
  read = add_block(bytes_of(group.gradient.result));
  wire(step, kSlotOutput, read);
  if (&read == &after.input) read.offset = group.view_offset;
  return after;
}

void LayoutBuilder::add(const Group &group, const Candidate &candidate, const Ends &caller_ends) {
  const Ends ends = group.has_gradient ? add_gradient(group, candidate.gradient, caller_ends) : caller_ends;
  if (candidate.detour.any()) return add_detour(group, candidate, ends);
  const double us = group.has_gradient ? candidate.offer.estimate_us : candidate.estimate_us; // measured, perhaps
  const int32_t step = add_step(*candidate.entry, POLYCONV_OP_CONVOLVE, candidate.offer.config, group.first, us,
                                candidate.offer.workspace_bytes);
  layout_.steps.back().layers = group.layers;
  wire(step, kSlotInput, ends.input);
  wire(step, kSlotOutput, ends.output);
  wire_layers(step, group, ends, {});
}

void LayoutBuilder::add_move(const Group &group, const Helper &helper, const polyconv_layer &request, Place from,
                             Place to) {
  const int32_t step = add_step(*helper.entry, POLYCONV_OP_CONVERT, helper.config, group.first, helper.estimate_us,
                                helper.workspace_bytes);
  layout_.steps.back().layers.push_back(request);
  wire(step, kSlotInput, from);
  wire(step, kSlotOutput, to);
}

// Conversions of what is read, the kernel, pooling, conversions of what is written. Only single layers make detours.
void LayoutBuilder::add_detour(const Group &group, const Candidate &candidate, const Ends &ends) {
  Route route;
  make_route(group.layers[0], candidate.detour, &route);
  Ends own = ends;
  Place *const places[kMoves] = {&own.input, &own.output, &own.residual[0], nullptr};
  Place saved;
  for (int role = 0; role < kMoves; ++role) {
    const Move &move = route.moves[role];
    if (!move.needed) continue;
    const Place there = add_block(bytes_of(move.before ? move.request.result : move.request.input));
    if (move.before) add_move(group, candidate.moves[role], move.request, *places[role], there);
    (role == kMoveSaved ? saved : *places[role]) = there;
  }
  const bool forward = route.main.direction == POLYCONV_FORWARD;
  Place &result = forward ? own.output : own.input;
  const Place destination = forward ? ends.output : ends.input;
  if (route.pools) result = add_block(bytes_of(route.main.result));

  const int32_t step = add_step(*candidate.entry, POLYCONV_OP_CONVOLVE, candidate.offer.config, group.first,
                                candidate.offer.estimate_us, candidate.offer.workspace_bytes);
  layout_.steps.back().layers.push_back(route.main);
  wire(step, kSlotInput, own.input);
  wire(step, kSlotOutput, own.output);
  wire_layers(step, group, own, saved);
  if (route.pools) {
    const Helper &helper = candidate.pool;
    const int32_t pool = add_step(*helper.entry, POLYCONV_OP_POOL, helper.config, group.first, helper.estimate_us,
                                  helper.workspace_bytes);
    layout_.steps.back().layers.push_back(route.pool);
    wire(pool, kSlotInput, result);
    wire(pool, kSlotOutput, destination);
    if (route.pool.save != POLYCONV_SAVE_NONE) wire(pool, kSlotSaved, caller(kSlotSaved, group.first));
  }
  for (int role = 0; role < kMoves; ++role) {
    const Move &move = route.moves[role];
    if (!move.needed || move.before) continue;
    const bool of_saved = role == kMoveSaved;
    add_move(group, candidate.moves[role], move.request, of_saved ? saved : *places[role],
             of_saved ? caller(kSlotSaved, group.first) : destination);
  }
}

bool LayoutBuilder::fits(const Block &block, const std::vector<const Block *> &placed, int64_t offset) const {
  return std::none_of(placed.begin(), placed.end(), [&](const Block *other) {
    const bool same_time = block.first_step <= other->last_step && other->first_step <= block.last_step;
    return same_time && offset < other->offset + aligned(other->bytes) && other->offset < offset + aligned(block.bytes);
  });
}

Layout LayoutBuilder::finish() {
  // Largest first, each at the lowest offset where nothing that lives at the same time lies.
  std::vector<Block *> order;
  for (Block &block : blocks_) order.push_back(&block);
  std::stable_sort(order.begin(), order.end(), [](const Block *a, const Block *b) { return a->bytes > b->bytes; });
  std::vector<const Block *> placed;
  for (Block *block : order) {
    std::vector<int64_t> offsets = {0};
    for (const Block *other : placed) offsets.push_back(other->offset + aligned(other->bytes));
    std::sort(offsets.begin(), offsets.end());
    block->offset = *std::find_if(offsets.begin(), offsets.end(), [&](int64_t at) { return fits(*block, placed, at); });
    placed.push_back(block);
    layout_.workspace_bytes = std::max(layout_.workspace_bytes, block->offset + block->bytes);
  }
  for (const PendingWire &pending : wires_) {
    Wire wire = {pending.to, pending.from.slot, pending.from.offset};
    if (pending.from.block >= 0)
      wire = {pending.to, kSlotWorkspace,
              blocks_[static_cast<size_t>(pending.from.block)].offset + pending.from.offset};
    layout_.steps[static_cast<size_t>(pending.step)].wires.push_back(wire);
  }
  return std::move(layout_);
}

int64_t workspace_of(const Group &group, const Candidate &candidate) {
  if (!candidate.detour.any() && !group.has_gradient) return candidate.offer.workspace_bytes;
  LayoutBuilder builder;
  builder.add(group, candidate, {});
  return builder.finish().workspace_bytes;
}

} // namespace polyconv
