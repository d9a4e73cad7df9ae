// device.cpp - the extern "C" wall of devices: memory, streams, events and graphs. Each function checks its
// pointers and passes on to the device's table, which belongs to a backend or to the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "registry/device.hpp"
#include "base/sized.hpp"
#include "base/status.hpp"
#include "registry/host.hpp"

namespace polyconv {
namespace {

constexpr size_t kFirstPropertiesSize = offsetof(polyconv_device_properties, clock_mhz) + sizeof(double);

// Calls one function of a device's table with the device's index and `values`; `name` is the function's. A device may
// lack any of them.
template <class... Parameters, class... Values>
void ask(const polyconv_device &device, polyconv_status (*polyconv_device_table::*function)(int32_t, Parameters...),
         const char *name, Values... values) {
  const auto call = device.table->*function;
  if (call == nullptr) {
    throw failure(POLYCONV_UNSUPPORTED, "device '%s' has no %s", device.name.c_str(), name);
  }
  const polyconv_status status = ask_backend(device.name.c_str(), name, [&] { return call(device.index, values...); });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
}

void require(const void *pointer, const char *name, const char *expected) {
  if (pointer == nullptr) throw failure(POLYCONV_INVALID_ARGUMENT, "%s is NULL, expected %s", name, expected);
}

void require_event(const void *event, const char *name) {
  require(event, name, "an event of polyconv_event_create");
}

void require_memory(int32_t memory) {
  if (memory != POLYCONV_MEMORY_DEVICE && memory != POLYCONV_MEMORY_PINNED) {
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "memory is %d, expected POLYCONV_MEMORY_DEVICE (0) or POLYCONV_MEMORY_PINNED (1)",
                  static_cast<int>(memory));
  }
}

using Table = polyconv_device_table;

} // namespace
} // namespace polyconv

using namespace polyconv;

extern "C" {

// ---------------------------------------------------------------- finding

polyconv_status polyconv_device_find(const char *name, const polyconv_device **device) {
  return guarded([&] {
    require(device, "device", "a place for the handle");
    *device = &find_device(name);
  });
}

int32_t polyconv_device_count(void) {
  int32_t count = 0;
  guarded([&] { count = static_cast<int32_t>(devices().size()); });
  return count;
}

const char *polyconv_device_name(int32_t index) {
  const char *name = nullptr;
  guarded([&] {
    const auto list = devices();
    if (index >= 0 && static_cast<size_t>(index) < list.size()) name = list[static_cast<size_t>(index)]->name.c_str();
  });
  return name;
}

polyconv_status polyconv_device_get_properties(const polyconv_device *device, polyconv_device_properties *properties) {
  return guarded([&] {
    const polyconv_device &asked = device_or_cpu(device);
    // Into a struct of this version: the backend need not know how much of it the caller has.
    polyconv_device_properties filled{};
    filled.struct_size = sizeof filled;
    require(properties, "properties", "a struct to fill");
    ask(asked, &Table::properties, "properties", &filled);
    fill_sized(properties, filled, kFirstPropertiesSize, "properties");
  });
}

// ---------------------------------------------------------------- memory

polyconv_status polyconv_device_alloc(const polyconv_device *device, size_t bytes, int32_t memory, void **pointer) {
  return guarded([&] {
    require(pointer, "pointer", "a place for the address");
    require_memory(memory);
    void *allocated = nullptr;
    if (bytes > 0) ask(device_or_cpu(device), &Table::alloc, "alloc", bytes, memory, &allocated);
    *pointer = allocated;
  });
}

polyconv_status polyconv_device_free(const polyconv_device *device, void *pointer, int32_t memory) {
  return guarded([&] {
    require_memory(memory);
    if (pointer != nullptr) ask(device_or_cpu(device), &Table::free, "free", pointer, memory);
  });
}

polyconv_status polyconv_device_copy(const polyconv_device *device, void *destination, const void *source, size_t bytes,
                                     void *stream) {
  return guarded([&] {
    if (bytes == 0) return;
    require(destination, "destination", "memory to copy to");
    require(source, "source", "memory to copy from");
    ask(device_or_cpu(device), &Table::copy, "copy", destination, source, bytes, stream);
  });
}

polyconv_status polyconv_device_fill(const polyconv_device *device, void *destination, int32_t byte, size_t bytes,
                                     void *stream) {
  return guarded([&] {
    if (byte < 0 || byte > 255) {
      throw failure(POLYCONV_INVALID_ARGUMENT, "byte is %d, expected 0 to 255", static_cast<int>(byte));
    }
    if (bytes == 0) return;
    require(destination, "destination", "memory to fill");
    ask(device_or_cpu(device), &Table::fill, "fill", destination, byte, bytes, stream);
  });
}

polyconv_status polyconv_device_pointer_kind(const polyconv_device *device, const void *pointer, int32_t *memory) {
  return guarded([&] {
    require(pointer, "pointer", "an address to ask about");
    require(memory, "memory", "a place for the answer");
    int32_t answer = 0;
    ask(device_or_cpu(device), &Table::pointer_kind, "pointer_kind", pointer, &answer);
    *memory = answer;
  });
}

// ---------------------------------------------------------------- streams and events

polyconv_status polyconv_stream_create(const polyconv_device *device, void **stream) {
  return guarded([&] {
    require(stream, "stream", "a place for the stream");
    void *created = nullptr;
    ask(device_or_cpu(device), &Table::stream_create, "stream_create", &created);
    *stream = created;
  });
}

polyconv_status polyconv_stream_destroy(const polyconv_device *device, void *stream) {
  return guarded([&] { ask(device_or_cpu(device), &Table::stream_destroy, "stream_destroy", stream); });
}

polyconv_status polyconv_stream_synchronize(const polyconv_device *device, void *stream) {
  return guarded([&] { ask(device_or_cpu(device), &Table::stream_synchronize, "stream_synchronize", stream); });
}

polyconv_status polyconv_stream_wait(const polyconv_device *device, void *stream, void *event) {
  return guarded([&] {
    require_event(event, "event");
    ask(device_or_cpu(device), &Table::stream_wait, "stream_wait", stream, event);
  });
}

polyconv_status polyconv_event_create(const polyconv_device *device, void **event) {
  return guarded([&] {
    require(event, "event", "a place for the event");
    void *created = nullptr;
    ask(device_or_cpu(device), &Table::event_create, "event_create", &created);
    *event = created;
  });
}

polyconv_status polyconv_event_destroy(const polyconv_device *device, void *event) {
  return guarded([&] {
    if (event != nullptr) ask(device_or_cpu(device), &Table::event_destroy, "event_destroy", event);
  });
}

polyconv_status polyconv_event_record(const polyconv_device *device, void *event, void *stream) {
  return guarded([&] {
    require_event(event, "event");
    ask(device_or_cpu(device), &Table::event_record, "event_record", event, stream);
  });
}

polyconv_status polyconv_event_synchronize(const polyconv_device *device, void *event) {
  return guarded([&] {
    require_event(event, "event");
    ask(device_or_cpu(device), &Table::event_synchronize, "event_synchronize", event);
  });
}

polyconv_status polyconv_event_elapsed(const polyconv_device *device, void *start, void *stop, double *milliseconds) {
  return guarded([&] {
    require_event(start, "start");
    require_event(stop, "stop");
    require(milliseconds, "milliseconds", "a place for the time");
    double elapsed = 0;
    ask(device_or_cpu(device), &Table::event_elapsed, "event_elapsed", start, stop, &elapsed);
    *milliseconds = elapsed;
  });
}

// ---------------------------------------------------------------- graphs

polyconv_status polyconv_graph_begin(const polyconv_device *device, void *stream) {
  return guarded([&] { ask(device_or_cpu(device), &Table::graph_begin, "graph_begin", stream); });
}

polyconv_status polyconv_graph_end(const polyconv_device *device, void *stream, void **graph) {
  return guarded([&] {
    require(graph, "graph", "a place for the graph");
    void *ended = nullptr;
    ask(device_or_cpu(device), &Table::graph_end, "graph_end", stream, &ended);
    *graph = ended;
  });
}

polyconv_status polyconv_graph_launch(const polyconv_device *device, void *graph, void *stream) {
  return guarded([&] {
    require(graph, "graph", "a graph of polyconv_graph_end");
    ask(device_or_cpu(device), &Table::graph_launch, "graph_launch", graph, stream);
  });
}

polyconv_status polyconv_graph_destroy(const polyconv_device *device, void *graph) {
  return guarded([&] {
    if (graph != nullptr) ask(device_or_cpu(device), &Table::graph_destroy, "graph_destroy", graph);
  });
}

} // extern "C"
