// buffers.cpp - polyconv_buffers_check: looks at every buffer of a run and at every pair of them.
// SPDX-License-Identifier: Apache-2.0
#include "base/address.hpp"
#include "registry/device.hpp"
#include "registry/device_memory.hpp"
#include "registry/host.hpp"
#include "run/checks.hpp"
#include "run/overlap.hpp"

namespace polyconv {
namespace {

char *pointer_of(const polyconv_arguments &from, uint16_t slot) {
  return static_cast<char *>(slots_of(const_cast<polyconv_arguments &>(from))[slot]);
}

void check_kind(const polyconv_device &device, const Buffer &buffer) {
  if (!has_own_memory(device) || device.table->pointer_kind == nullptr) return;
  int32_t kind = POLYCONV_MEMORY_DEVICE;
  const polyconv_status status = ask_backend(device.name.c_str(), "pointer_kind", [&] {
    return device.table->pointer_kind(device.index, buffer.pointer, &kind);
  });
  SlotName name;
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  if (kind != POLYCONV_MEMORY_DEVICE)
    throw failure(POLYCONV_INVALID_ARGUMENT, "%s is %s memory, expected memory of device %s",
                  slot_name(buffer.slot, name), kind == POLYCONV_MEMORY_PINNED ? "pinned host" : "host",
                  device.name.c_str());
}

void check_alignment(const Buffer &buffer) {
  if (!buffer.is_tensor) return;
  const size_t size = polyconv_type_size(buffer.tensor.type);
  SlotName name;
  if (reinterpret_cast<uintptr_t>(buffer.pointer) % size != 0)
    throw failure(POLYCONV_INVALID_ARGUMENT, "%s is 0x%llx, expected a multiple of %zu bytes, the size of its type %s",
                  slot_name(buffer.slot, name), address(buffer.pointer), size, polyconv_type_name(buffer.tensor.type));
}

// The one overlap that is allowed: the last layer adds to what its output holds. Not where pooling changes the shape.
bool is_residual_in_place(const polyconv_plan &plan, const Buffer &a, const Buffer &b) {
  const uint16_t residual = static_cast<uint16_t>(kSlotResidual + plan.layers.size() - 1);
  const bool pair = (a.slot == residual && b.slot == kSlotOutput) || (b.slot == residual && a.slot == kSlotOutput);
  return pair && a.pointer == b.pointer && plan.layers.back().layer.problem.epilogue.pool.kind == POLYCONV_POOL_NONE;
}

Extent extent(const Buffer &buffer) {
  return {buffer.pointer, buffer.bytes, buffer.is_tensor ? &buffer.tensor : nullptr};
}

} // namespace

BufferList::BufferList(const polyconv_plan &plan, const polyconv_arguments &from, Memory memory) {
  const polyconv_problem &first = plan.layers.front().layer.problem, &last = plan.layers.back().layer.problem;
  const int32_t direction = first.direction;
  add(from, kSlotInput, first, POLYCONV_TENSOR_INPUT, direction == POLYCONV_BACKWARD_DATA);
  add(from, kSlotOutput, last, POLYCONV_TENSOR_OUTPUT, direction == POLYCONV_FORWARD);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const PlanLayer &layer = plan.layers[i];
    const uint16_t weights = static_cast<uint16_t>(kSlotWeights + i);
    if (memory == Memory::OfHost || layer.weights.raw()) {
      add(from, weights, layer.layer.problem, POLYCONV_TENSOR_WEIGHTS, plan.writes_weights);
    } else if (!wants_host_copy(*plan.device, *layer.packer->kernel)) { // that copy is the library's
      add_bytes(from, weights, layer.weights.bytes, false);
    }
    add_rest(from, i, layer.layer, plan.writes_weights);
  }
  if (memory == Memory::OfDevice) add_bytes(from, kSlotWorkspace, plan.workspace_bytes, true);
}

void BufferList::add_rest(const polyconv_arguments &from, size_t i, const Layer &layer, bool gradient) {
  const polyconv_problem &problem = layer.problem;
  const auto slot = [i](uint16_t base) { return static_cast<uint16_t>(base + i); };
  if (problem.epilogue.has_bias != 0) add(from, slot(kSlotBias), problem, POLYCONV_TENSOR_BIAS, gradient);
  if (problem.epilogue.has_scale != 0) add(from, slot(kSlotScale), problem, POLYCONV_TENSOR_SCALE, false);
  add(from, slot(kSlotResidual), problem, POLYCONV_TENSOR_RESIDUAL, false);
  add(from, slot(kSlotResidualGradient), problem, POLYCONV_TENSOR_RESIDUAL_GRADIENT, true);
  add(from, slot(kSlotSlope), problem, POLYCONV_TENSOR_SLOPE, false);
  add(from, slot(kSlotWeightsZeroPoint), problem, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT, false);
  const int32_t save = layer.save();
  if (save != POLYCONV_SAVE_NONE)
    add(from, slot(kSlotSaved), problem,
        save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION, !layer.has_gradient);
}

void BufferList::add(const polyconv_arguments &from, uint16_t slot, const polyconv_problem &problem, int32_t which,
                     bool written) {
  Buffer buffer = {slot, written, true, {}, 0, pointer_of(from, slot), 0};
  if (!tensor_of(problem, which, &buffer.tensor)) return;
  buffer.bytes = bytes_of(buffer.tensor);
  if (buffer.pointer == nullptr || buffer.bytes == 0) return;
  buffer.shift = buffer.tensor.offset * static_cast<int64_t>(polyconv_type_size(buffer.tensor.type));
  buffer.pointer -= buffer.shift;
  buffers_[count_++] = buffer;
}

void BufferList::add_bytes(const polyconv_arguments &from, uint16_t slot, int64_t bytes, bool written) {
  char *pointer = pointer_of(from, slot);
  if (pointer != nullptr && bytes > 0) buffers_[count_++] = {slot, written, false, {}, bytes, pointer, 0};
}

void check_buffers(const polyconv_plan &plan, const polyconv_arguments &from, Memory memory) {
  const BufferList list(plan, from, memory);
  for (const Buffer &buffer : list) {
    if (memory == Memory::OfDevice) check_kind(*plan.device, buffer);
    check_alignment(buffer);
  }
  for (const Buffer &written : list) {
    for (const Buffer &other : list) {
      if (!written.written || &written == &other || is_residual_in_place(plan, written, other)) continue;
      SlotName name, other_name;
      if (may_overlap(extent(written), extent(other)))
        throw failure(POLYCONV_INVALID_ARGUMENT, "%s, which is written, overlaps %s; expected memory of its own",
                      slot_name(written.slot, name), slot_name(other.slot, other_name));
    }
  }
}

} // namespace polyconv

extern "C" polyconv_status polyconv_buffers_check(const polyconv_plan *plan, const polyconv_buffers *buffers) {
  using namespace polyconv;
  polyconv_arguments from;
  if (const polyconv_status status = gather(plan, buffers, &from)) return status;
  return guarded([&] { check_buffers(*plan, from, Memory::OfDevice); });
}
