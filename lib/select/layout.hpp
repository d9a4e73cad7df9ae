// layout.hpp - what a plan does, as plain data: steps in order, where every pointer of every step comes from, and
// the workspace in which intermediates and the kernels' own scratch lie. No kernel is called here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"

#include <cstddef>
#include <vector>

namespace polyconv {

// polyconv_arguments seen as a table of pointers. The caller's pointers of a run are kept in such a table too, in the
// caller's roles, with weights resolved; a step's table is filled from it by wires.
enum : uint16_t {
  kSlotInput = 0,
  kSlotOutput = 1,
  kSlotWeights = 2, // + layer, as the others
  kSlotBias = kSlotWeights + POLYCONV_MAX_CHAIN,
  kSlotScale = kSlotBias + POLYCONV_MAX_CHAIN,
  kSlotResidual = kSlotScale + POLYCONV_MAX_CHAIN,
  kSlotSaved = kSlotResidual + POLYCONV_MAX_CHAIN,
  kSlotWorkspace = kSlotSaved + POLYCONV_MAX_CHAIN,
  kSlotBound, // nobody wires it
  kSlotSlope,
  kSlotWeightsZeroPoint = kSlotSlope + POLYCONV_MAX_CHAIN,
  kSlotResidualGradient = kSlotWeightsZeroPoint + POLYCONV_MAX_CHAIN,
  kSlots = kSlotResidualGradient + POLYCONV_MAX_CHAIN
};
static_assert(offsetof(polyconv_arguments, output) == offsetof(polyconv_arguments, input) + sizeof(void *) &&
                  offsetof(polyconv_arguments, workspace) ==
                      offsetof(polyconv_arguments, input) + kSlotWorkspace * sizeof(void *) &&
                  offsetof(polyconv_arguments, residual_gradient) ==
                      offsetof(polyconv_arguments, input) + kSlotResidualGradient * sizeof(void *),
              "slots number the pointers of polyconv_arguments");

inline void **slots_of(polyconv_arguments &arguments) {
  return reinterpret_cast<void **>(reinterpret_cast<char *>(&arguments) + offsetof(polyconv_arguments, input));
}

// One pointer of a step: slot `to` of the kernel's arguments is slot `from` of the caller's plus `offset` bytes.
struct Wire {
  uint16_t to, from;
  int64_t offset;
};

// Where a tensor is: a slot of the caller's pointers, or a block of the workspace.
struct Place {
  uint16_t slot = kSlots; // kSlots: nowhere
  int32_t block = -1;
  int64_t offset = 0; // bytes behind its begin
};

struct StepSketch {
  const KernelEntry *entry;
  int32_t op;
  int32_t config;
  int32_t first; // the problem's layer that layers[0] is
  std::vector<polyconv_layer> layers;
  std::vector<Wire> wires;
  double estimate_us;
};

struct Layout {
  std::vector<StepSketch> steps;
  int64_t workspace_bytes = 0;
};

// The ends of a group, in the roles of its normalised layers.
struct Ends {
  Place input, output;
  Place residual[POLYCONV_MAX_CHAIN]; // [i] of the group's layer i, where it comes from outside
};

// Builds a layout group by group, in the order in which they run.
class LayoutBuilder {
 public:
  // A tensor in the workspace. It lives from the first step that touches it to the last.
  Place add_block(int64_t bytes);

  // The steps of one group as its candidate wants it.
  void add(const Group &group, const Candidate &candidate, const Ends &ends);

  // Places the blocks; the builder is used up.
  Layout finish();

 private:
  struct Block {
    int64_t bytes = 0;
    int32_t first_step = -1, last_step = -1;
    int64_t offset = 0;
  };
  struct PendingWire {
    int32_t step;
    uint16_t to;
    Place from;
  };

  int32_t add_step(const KernelEntry &entry, int32_t op, int32_t config, int32_t first, double estimate_us,
                   int64_t scratch_bytes);
  void wire(int32_t step, uint16_t to, Place from);
  void wire_layers(int32_t step, const Group &group, const Ends &ends, Place saved);
  void add_move(const Group &group, const Helper &helper, const polyconv_layer &request, Place from, Place to);
  Ends add_gradient(const Group &group, const Helper &helper, const Ends &ends);
  void add_detour(const Group &group, const Candidate &candidate, const Ends &ends);
  bool fits(const Block &block, const std::vector<const Block *> &placed, int64_t offset) const;

  std::vector<Block> blocks_;
  std::vector<PendingWire> wires_;
  Layout layout_;
};

// The workspace of one group alone.
int64_t workspace_of(const Group &group, const Candidate &candidate);

} // namespace polyconv
