// device.cpp - memory, streams, events and graphs of CUDA devices behind polyconv_device_table.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/device.hpp"

#include <cstdio>
#include <cstring>

#include <polyconv/sdk/backend.hpp>
#include "common/device/check.hpp"

namespace polyconv::cuda {
namespace {

using sdk::detail::guarded;

// Every entry: exceptions become statuses, and the device is current for its time.
template <class Body>
polyconv_status on_device(int32_t device, Body &&body) {
  return guarded([&] {
    const DeviceScope scope(device);
    body();
  });
}

cudaStream_t stream_of(void *stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t event_of(void *event) {
  return static_cast<cudaEvent_t>(event);
}
cudaGraphExec_t graph_of(void *graph) {
  return static_cast<cudaGraphExec_t>(graph);
}

int32_t count() {
  int devices = 0;
  const polyconv_status status = guarded([&] { check(cudaGetDeviceCount(&devices), "counting devices"); });
  return status == POLYCONV_SUCCESS ? devices : 0;
}

polyconv_status properties(int32_t device, polyconv_device_properties *out) {
  return guarded([&] {
    cudaDeviceProp prop;
    check(cudaGetDeviceProperties(&prop, device), "reading device properties");
    int driver = 0, runtime = 0, clock_khz = 0;
    check(cudaDriverGetVersion(&driver), "reading the driver version");
    check(cudaRuntimeGetVersion(&runtime), "reading the runtime version");
    check(cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device), "reading the clock");
    std::snprintf(out->name, sizeof out->name, "%.127s", prop.name);
    std::snprintf(out->description, sizeof out->description, "compute capability %d.%d, driver %d.%d, runtime %d.%d",
                  prop.major, prop.minor, driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    out->memory_bytes = static_cast<int64_t>(prop.totalGlobalMem);
    out->compute_units = prop.multiProcessorCount;
    out->compute_capability = prop.major * 10 + prop.minor;
    out->clock_mhz = clock_khz / 1000.0;
  });
}

polyconv_status allocate(int32_t device, size_t bytes, int32_t memory, void **pointer) {
  return on_device(device, [&] {
    const cudaError_t error = memory == POLYCONV_MEMORY_PINNED ? cudaHostAlloc(pointer, bytes, cudaHostAllocPortable)
                                                               : cudaMalloc(pointer, bytes);
    char what[64];
    std::snprintf(what, sizeof what, "allocating %zu bytes", bytes);
    check(error, what);
  });
}

polyconv_status release(int32_t device, void *pointer, int32_t memory) {
  return on_device(device, [&] {
    check(memory == POLYCONV_MEMORY_PINNED ? cudaFreeHost(pointer) : cudaFree(pointer), "freeing memory");
  });
}

polyconv_status copy(int32_t device, void *destination, const void *source, size_t bytes, void *stream) {
  return on_device(device, [&] {
    check(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDefault, stream_of(stream)), "copying memory");
  });
}

polyconv_status fill(int32_t device, void *destination, int32_t byte, size_t bytes, void *stream) {
  return on_device(device,
                   [&] { check(cudaMemsetAsync(destination, byte, bytes, stream_of(stream)), "filling memory"); });
}

polyconv_status pointer_kind(int32_t device, const void *pointer, int32_t *memory) {
  return on_device(device, [&] {
    cudaPointerAttributes attributes;
    check(cudaPointerGetAttributes(&attributes, pointer), "asking whose a pointer is");
    *memory = attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged
                  ? POLYCONV_MEMORY_DEVICE
              : attributes.type == cudaMemoryTypeHost ? POLYCONV_MEMORY_PINNED
                                                      : POLYCONV_MEMORY_HOST;
  });
}

polyconv_status stream_create(int32_t device, void **stream) {
  return on_device(device, [&] {
    cudaStream_t made;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "creating a stream");
    *stream = made;
  });
}

polyconv_status stream_destroy(int32_t device, void *stream) {
  return on_device(device, [&] { check(cudaStreamDestroy(stream_of(stream)), "destroying a stream"); });
}

polyconv_status stream_synchronize(int32_t device, void *stream) {
  return on_device(device, [&] { check(cudaStreamSynchronize(stream_of(stream)), "waiting for a stream"); });
}

polyconv_status stream_wait(int32_t device, void *stream, void *event) {
  return on_device(device,
                   [&] { check(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0), "waiting for an event"); });
}

polyconv_status event_create(int32_t device, void **event) {
  return on_device(device, [&] {
    cudaEvent_t made;
    check(cudaEventCreate(&made), "creating an event");
    *event = made;
  });
}

polyconv_status event_destroy(int32_t device, void *event) {
  return on_device(device, [&] { check(cudaEventDestroy(event_of(event)), "destroying an event"); });
}

polyconv_status event_record(int32_t device, void *event, void *stream) {
  return on_device(device, [&] { check(cudaEventRecord(event_of(event), stream_of(stream)), "recording an event"); });
}

polyconv_status event_synchronize(int32_t device, void *event) {
  return on_device(device, [&] { check(cudaEventSynchronize(event_of(event)), "waiting for an event"); });
}

polyconv_status event_elapsed(int32_t device, void *start, void *stop, double *milliseconds) {
  return on_device(device, [&] {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, event_of(start), event_of(stop)), "reading elapsed time");
    *milliseconds = ms;
  });
}

polyconv_status graph_begin(int32_t device, void *stream) {
  return on_device(device, [&] {
    check(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal), "beginning a graph");
  });
}

polyconv_status graph_end(int32_t device, void *stream, void **graph) {
  return on_device(device, [&] {
    cudaGraph_t recorded = nullptr;
    check(cudaStreamEndCapture(stream_of(stream), &recorded), "ending a graph");
    cudaGraphExec_t made = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&made, recorded, 0);
    cudaGraphDestroy(recorded);
    check(error, "instantiating a graph");
    *graph = made;
  });
}

polyconv_status graph_launch(int32_t device, void *graph, void *stream) {
  return on_device(device, [&] { check(cudaGraphLaunch(graph_of(graph), stream_of(stream)), "launching a graph"); });
}

polyconv_status graph_destroy(int32_t device, void *graph) {
  return on_device(device, [&] { check(cudaGraphExecDestroy(graph_of(graph)), "destroying a graph"); });
}

} // namespace

const polyconv_device_table *device_table() {
  static const polyconv_device_table table = {
      sizeof table,
      POLYCONV_BACKEND_ABI_MINOR,
      count,
      properties,
      allocate,
      release,
      copy,
      fill,
      pointer_kind,
      stream_create,
      stream_destroy,
      stream_synchronize,
      stream_wait,
      event_create,
      event_destroy,
      event_record,
      event_synchronize,
      event_elapsed,
      graph_begin,
      graph_end,
      graph_launch,
      graph_destroy,
  };
  return &table;
}

} // namespace polyconv::cuda
