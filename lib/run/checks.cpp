// checks.cpp - the O(1) checks of every run, and the caller's pointers as a table.
// SPDX-License-Identifier: Apache-2.0
#include "run/checks.hpp"

#include "base/address.hpp"
#include "base/read_sized.hpp"
#include "registry/device.hpp"
#include "run/weights.hpp"

#include <algorithm>
#include <cstdio>

namespace polyconv {
namespace {

constexpr size_t kOldestBuffers = offsetof(polyconv_buffers, input);

polyconv_status refuse_packed(const polyconv_plan &plan, size_t layer, const polyconv_weights &packed) {
  const WeightsFormat &wanted = plan.layers[layer].weights;
  if (packed.device != plan.device)
    return fail(POLYCONV_INVALID_ARGUMENT, "buffers.packed[%zu] lies on %s, expected weights packed on %s", layer,
                packed.device->name.c_str(), plan.device->name.c_str());
  return fail(POLYCONV_INVALID_ARGUMENT,
              "buffers.packed[%zu] has format '%s' for '%s' (%lld bytes), expected '%s' for '%s' (%lld bytes)", layer,
              packed.format.id.c_str(), packed.format.token.c_str(), static_cast<long long>(packed.format.bytes),
              wanted.id.c_str(), wanted.token.c_str(), static_cast<long long>(wanted.bytes));
}

// One layer's weights: packed ones in the plan's format, else raw ones where that is raw.
polyconv_status resolve_weights(const polyconv_plan &plan, size_t layer, const polyconv_weights *packed,
                                polyconv_arguments *from) {
  if (packed != nullptr && !plan.writes_weights) {
    if (packed->device != plan.device || packed->format != plan.layers[layer].weights)
      return refuse_packed(plan, layer, *packed);
    from->weights[layer] = packed->for_run();
    return POLYCONV_SUCCESS;
  }
  if (plan.nothing_to_run) return POLYCONV_SUCCESS;
  if (!plan.layers[layer].weights.raw())
    return fail(POLYCONV_INVALID_ARGUMENT,
                "buffers.packed[%zu] is NULL, expected weights packed by polyconv_weights_create: %s takes format '%s'",
                layer, plan.kernel_names.c_str(), plan.layers[layer].weights.id.c_str());
  if (from->weights[layer] == nullptr && plan.layers[layer].weights.bytes > 0)
    return fail(POLYCONV_INVALID_ARGUMENT, "buffers.weights[%zu] is NULL, expected %s", layer,
                plan.writes_weights ? "memory for the gradient" : "raw weights, or packed ones in buffers.packed");
  return POLYCONV_SUCCESS;
}

polyconv_status check_workspace(const polyconv_plan &plan, const polyconv_buffers &buffers) {
  if (plan.workspace_bytes == 0) return POLYCONV_SUCCESS;
  if (static_cast<uint64_t>(buffers.workspace_size) < static_cast<uint64_t>(plan.workspace_bytes))
    return fail(POLYCONV_WORKSPACE_TOO_SMALL, "buffers.workspace_size is %zu, expected at least %lld bytes",
                buffers.workspace_size, static_cast<long long>(plan.workspace_bytes));
  if (buffers.workspace == nullptr)
    return fail(POLYCONV_INVALID_ARGUMENT, "buffers.workspace is NULL, expected %lld bytes",
                static_cast<long long>(plan.workspace_bytes));
  if (reinterpret_cast<uintptr_t>(buffers.workspace) % POLYCONV_ALIGNMENT != 0)
    return fail(POLYCONV_INVALID_ARGUMENT, "buffers.workspace is 0x%llx, expected a multiple of %d bytes",
                address(buffers.workspace), POLYCONV_ALIGNMENT);
  return POLYCONV_SUCCESS;
}

polyconv_status gather_checked(const polyconv_plan &plan, const polyconv_buffers &buffers, polyconv_arguments *from) {
  copy_pointers(buffers, from);
  if (const polyconv_status status = check_required(plan, *from)) return status;
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    if (const polyconv_status status = resolve_weights(plan, layer, buffers.packed[layer], from)) return status;
  }
  return check_workspace(plan, buffers);
}

} // namespace

void copy_pointers(const polyconv_buffers &buffers, polyconv_arguments *from) noexcept {
  from->struct_size = sizeof *from;
  from->input = buffers.input;
  from->output = buffers.output;
  std::copy(std::begin(buffers.weights), std::end(buffers.weights), from->weights);
  std::copy(std::begin(buffers.bias), std::end(buffers.bias), from->bias);
  std::copy(std::begin(buffers.scale), std::end(buffers.scale), from->scale);
  std::copy(std::begin(buffers.residual), std::end(buffers.residual), from->residual);
  std::copy(std::begin(buffers.saved), std::end(buffers.saved), from->saved);
  from->workspace = buffers.workspace;
  from->bound = nullptr;
  std::copy(std::begin(buffers.slope), std::end(buffers.slope), from->slope);
  std::copy(std::begin(buffers.weights_zero_point), std::end(buffers.weights_zero_point), from->weights_zero_point);
  std::copy(std::begin(buffers.residual_gradient), std::end(buffers.residual_gradient), from->residual_gradient);
}

polyconv_status check_required(const polyconv_plan &plan, const polyconv_arguments &from) noexcept {
  void *const *slots = slots_of(const_cast<polyconv_arguments &>(from));
  for (const uint16_t slot : plan.required) {
    SlotName name;
    if (slots[slot] == nullptr)
      return fail(POLYCONV_INVALID_ARGUMENT, "%s is NULL, expected a pointer: the problem has that tensor",
                  slot_name(slot, name));
  }
  return POLYCONV_SUCCESS;
}

polyconv_status check_stream(const polyconv_device &device, const void *stream) noexcept {
  if (stream == nullptr || has_own_memory(device)) return POLYCONV_SUCCESS;
  return fail(POLYCONV_INVALID_ARGUMENT, "stream is 0x%llx, expected NULL: the CPU has no other stream",
              address(stream));
}

polyconv_buffers copy_buffers(const polyconv_buffers *buffers) {
  if (buffers == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "buffers is NULL, expected a struct");
  polyconv_buffers copy;
  polyconv_buffers_init(&copy);
  read_sized(&copy, buffers, kOldestBuffers, "buffers");
  return copy;
}

polyconv_status gather(const polyconv_plan *plan, const polyconv_buffers *buffers, polyconv_arguments *from) noexcept {
  if (plan == nullptr) return fail(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected a plan");
  if (buffers == nullptr) return fail(POLYCONV_INVALID_ARGUMENT, "buffers is NULL, expected a struct");
  if (buffers->struct_size == sizeof *buffers) return gather_checked(*plan, *buffers, from);
  polyconv_buffers copy;
  const polyconv_status status = guarded([&] { copy = copy_buffers(buffers); });
  return status != POLYCONV_SUCCESS ? status : gather_checked(*plan, copy, from);
}

const char *slot_name(uint16_t slot, SlotName &text) noexcept {
  constexpr const char *kNames[] = {"weights", "bias", "scale", "residual", "saved"};
  constexpr const char *kMoreNames[] = {"slope", "weights_zero_point", "residual_gradient"};
  if (slot == kSlotInput) return "buffers.input";
  if (slot == kSlotOutput) return "buffers.output";
  if (slot == kSlotWorkspace) return "buffers.workspace";
  const bool more = slot > kSlotWorkspace;
  const int index = slot - (more ? kSlotSlope : kSlotWeights);
  const char *name = (more ? kMoreNames : kNames)[index / POLYCONV_MAX_CHAIN];
  std::snprintf(text, sizeof text, "buffers.%s[%d]", name, index % POLYCONV_MAX_CHAIN);
  return text;
}

} // namespace polyconv

#undef polyconv_buffers_init // the header's macro; here it is the symbol of 0.1

extern "C" {

void polyconv_buffers_init(polyconv_buffers *buffers) {
  polyconv_buffers_init_sized(buffers, offsetof(polyconv_buffers, workspace_size) + sizeof(size_t));
}

void polyconv_buffers_init_sized(polyconv_buffers *buffers, size_t size) {
  if (buffers != nullptr) polyconv::hand_out(polyconv_buffers{}, size, buffers);
}

} // extern "C"
