// weights.cpp - packed weights: made and repacked by the instance of the kernel that will read them.
// SPDX-License-Identifier: Apache-2.0
#include "run/weights.hpp"

#include "base/address.hpp"
#include "registry/device.hpp"
#include "registry/host.hpp"
#include "run/checks.hpp"

#include <cstdint>

polyconv_weights::~polyconv_weights() {
  if (packed_event == nullptr || device->table->event_destroy == nullptr) return;
  polyconv::tell_backend(device->name.c_str(), "event_destroy",
                         [&] { device->table->event_destroy(device->index, packed_event); });
}

namespace polyconv {
namespace {

// Whose memory it is takes a call of the driver: not of what each run packs anew, as runs don't ask it either.
void check_memory(const polyconv_device &device, const void *memory, bool asks_driver) {
  if (reinterpret_cast<uintptr_t>(memory) % POLYCONV_ALIGNMENT != 0)
    throw failure(POLYCONV_INVALID_ARGUMENT, "memory is 0x%llx, expected a multiple of %d bytes", address(memory),
                  POLYCONV_ALIGNMENT);
  if (memory == nullptr || !asks_driver) return;
  int32_t kind = POLYCONV_MEMORY_DEVICE;
  if (!has_own_memory(device) || device.table->pointer_kind == nullptr) return;
  const polyconv_status status = ask_backend(device.name.c_str(), "pointer_kind",
                                             [&] { return device.table->pointer_kind(device.index, memory, &kind); });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  if (kind != POLYCONV_MEMORY_DEVICE)
    throw failure(POLYCONV_INVALID_ARGUMENT, "memory is host memory, expected memory of device %s",
                  device.name.c_str());
}

// Kernels read whole elements where they pack.
void check_raw(const polyconv_weights &weights, const void *raw) {
  const size_t element = polyconv_type_size(weights.raw_type);
  if (reinterpret_cast<uintptr_t>(raw) % element != 0)
    throw failure(POLYCONV_INVALID_ARGUMENT, "raw is 0x%llx, expected a multiple of %zu bytes, the size of its type %s",
                  address(raw), element, polyconv_type_name(weights.raw_type));
}

void require_stream(const polyconv_device &device, const void *stream) {
  if (const polyconv_status status = check_stream(device, stream)) throw Failure(status, last_error());
}

// Marks the point in the stream at which packing is done, so that a later save can wait for it.
void record_packed(polyconv_weights *weights, void *stream) {
  const polyconv_device &device = *weights->device;
  if (!has_own_memory(device) || device.table->event_create == nullptr || device.table->event_record == nullptr) return;
  if (device.table->event_create(device.index, &weights->packed_event) != POLYCONV_SUCCESS) {
    weights->packed_event = nullptr;
    return;
  }
  device.table->event_record(device.index, weights->packed_event, stream);
}

} // namespace

const PlanLayer &layer_of(const polyconv_plan &plan, int32_t layer) {
  if (layer < 0 || static_cast<size_t>(layer) >= plan.layers.size())
    throw failure(POLYCONV_INVALID_ARGUMENT, "layer is %d, expected 0 to %zu", static_cast<int>(layer),
                  plan.layers.size() - 1);
  return plan.layers[static_cast<size_t>(layer)];
}

std::unique_ptr<polyconv_weights> empty_weights(const polyconv_plan &plan, int32_t layer, void *memory) {
  const PlanLayer &planned = layer_of(plan, layer);
  if (plan.writes_weights)
    throw Failure(POLYCONV_INVALID_ARGUMENT,
                  "plan is for backward weights, which writes them raw; expected a plan that reads weights");
  const polyconv_options &options = plan.options.values;
  check_memory(*plan.device, memory, options.dynamic_weights != POLYCONV_WEIGHTS_NEW || options.checked != 0);
  auto weights = std::make_unique<polyconv_weights>();
  weights->format = planned.weights;
  weights->device = plan.device;
  weights->packer = planned.packer;
  weights->packer_layer = planned.packer_layer;
  weights->raw_type = planned.layer.problem.weights_type;
  weights->dynamic = options.dynamic_weights != 0;
  if (memory == nullptr) weights->memory = DeviceMemory(*plan.device, planned.weights.bytes, options.allocator);
  weights->data = memory != nullptr ? memory : weights->memory.get();
  return weights;
}

void pack_weights(polyconv_weights *weights, const void *raw, void *stream) {
  check_raw(*weights, raw);
  require_stream(*weights->device, stream);
  if (weights->packer == nullptr) {
    copy_memory(*weights->device, weights->data, raw, weights->format.bytes, stream);
    return;
  }
  const KernelInstance &packer = *weights->packer;
  const polyconv_status status = ask_backend(packer.name.c_str(), "pack", [&] {
    return packer.kernel->pack(packer.kernel, packer.instance, weights->packer_layer, raw, weights->data, stream);
  });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  if (wants_host_copy(*weights->device, *packer.kernel))
    weights->host_copy = copy_to_host(*weights->device, weights->data, weights->format.bytes, stream);
}

} // namespace polyconv

using namespace polyconv;

extern "C" {

polyconv_status polyconv_plan_weights(const polyconv_plan *plan, int32_t layer, const char **format, int64_t *bytes) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected a plan");
    const WeightsFormat &weights = layer_of(*plan, layer).weights;
    if (format != nullptr) *format = weights.id.c_str();
    if (bytes != nullptr) *bytes = weights.bytes;
  });
}

polyconv_status polyconv_weights_create(const polyconv_plan *plan, int32_t layer, const void *raw, void *memory,
                                        void *stream, polyconv_weights **weights) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected a plan");
    if (raw == nullptr && layer_of(*plan, layer).weights.bytes > 0)
      throw Failure(POLYCONV_INVALID_ARGUMENT, "raw is NULL, expected raw weights");
    if (weights == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "weights is NULL, expected where to put them");
    std::unique_ptr<polyconv_weights> made = empty_weights(*plan, layer, memory);
    pack_weights(made.get(), raw, stream);
    // Of those each run would make, record and destroy an event.
    if (plan->options.values.dynamic_weights != POLYCONV_WEIGHTS_NEW) record_packed(made.get(), stream);
    *weights = made.release();
  });
}

polyconv_status polyconv_weights_update(polyconv_weights *weights, const void *raw, void *stream) {
  return guarded([&] {
    if (weights == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "weights is NULL, expected packed weights");
    if (raw == nullptr && weights->format.bytes > 0)
      throw Failure(POLYCONV_INVALID_ARGUMENT, "raw is NULL, expected raw weights");
    if (!weights->dynamic)
      throw Failure(POLYCONV_UNSUPPORTED,
                    "options.dynamic_weights was 0 in the plan that these weights were made with, expected 1 or 2");
    pack_weights(weights, raw, stream);
  });
}

polyconv_status polyconv_weights_save(const polyconv_weights *weights, const char *path) {
  return guarded([&] {
    if (weights == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "weights is NULL, expected packed weights");
    if (path == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "path is NULL, expected a file's name");
    save_weights(*weights, path);
  });
}

polyconv_status polyconv_weights_load(const polyconv_plan *plan, int32_t layer, const char *path, void *memory,
                                      void *stream, polyconv_weights **weights) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected a plan");
    if (path == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "path is NULL, expected a file's name");
    if (weights == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "weights is NULL, expected where to put them");
    *weights = load_weights(*plan, layer, path, memory, stream).release();
  });
}

void polyconv_weights_destroy(polyconv_weights *weights) {
  delete weights;
}

} // extern "C"
