// device_cpu.cpp - the CPU as a device: ordinary memory, no streams but NULL, everything done on return. It answers as
// a backend's device table would, so that the rest of the library makes no exception for it.
// SPDX-License-Identifier: Apache-2.0
#include "os/os.hpp"
#include "registry/device.hpp"
#include "registry/host.hpp"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <new>

namespace polyconv {
namespace {

polyconv_status refuse(polyconv_status status, const char *sentence) {
  backend_error(sentence);
  return status;
}

polyconv_status check_stream(const void *stream) {
  if (stream == nullptr) return POLYCONV_SUCCESS;
  return refuse(POLYCONV_INVALID_ARGUMENT, "stream is not NULL, expected NULL: the CPU has no other stream");
}

int32_t count() {
  return 1;
}

struct InstructionSet {
  const char *name;
  bool there;
};

[[maybe_unused]] void list(const char *processor, std::initializer_list<InstructionSet> sets, char *text, size_t size) {
  size_t length = static_cast<size_t>(std::snprintf(text, size, "%s", processor));
  for (const InstructionSet &set : sets)
    if (set.there) length += static_cast<size_t>(std::snprintf(text + length, size - length, " %s", set.name));
}

// What the processor can do and the system lets it, as far as kernels care.
void describe_instruction_sets(char *text, size_t size) {
#if defined(__x86_64__) || defined(__i386__)
  list("x86",
       {{"avx", __builtin_cpu_supports("avx") != 0},
        {"avx2", __builtin_cpu_supports("avx2") != 0},
        {"fma", __builtin_cpu_supports("fma") != 0},
        {"avx512f", __builtin_cpu_supports("avx512f") != 0},
        {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
        {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
        {"avx512vnni", __builtin_cpu_supports("avx512vnni") != 0}},
       text, size);
#elif defined(__aarch64__)
  const auto has = [](int word, int bit) { return (os::cpu_features(word) >> bit & 1) != 0; };
  list("arm64",
       {{"neon", true},
        {"fp16", has(1, 10)},
        {"dotprod", has(1, 20)},
        {"i8mm", has(2, 13)},
        {"bf16", has(2, 14)},
        {"sve", has(1, 22)},
        {"sve2", has(2, 1)}},
       text, size);
#else
  std::snprintf(text, size, "generic");
#endif
}

polyconv_status properties(int32_t, polyconv_device_properties *filled) {
  const std::string name = os::cpu_name();
  std::snprintf(filled->name, sizeof filled->name, "%s", name.empty() ? "CPU" : name.c_str());
  describe_instruction_sets(filled->description, sizeof filled->description);
  filled->memory_bytes = os::total_memory();
  filled->compute_units = os::processors();
  filled->compute_capability = 0;
  filled->clock_mhz = os::cpu_mhz();
  return POLYCONV_SUCCESS;
}

polyconv_status alloc(int32_t, size_t bytes, int32_t, void **pointer) {
  void *allocated = os::allocate(bytes, POLYCONV_ALIGNMENT);
  if (allocated == nullptr) {
    char sentence[96];
    std::snprintf(sentence, sizeof sentence, "bytes is %zu: out of host memory", bytes);
    return refuse(POLYCONV_OUT_OF_MEMORY, sentence);
  }
  *pointer = allocated;
  return POLYCONV_SUCCESS;
}

polyconv_status release(int32_t, void *pointer, int32_t) {
  os::release(pointer);
  return POLYCONV_SUCCESS;
}

polyconv_status copy(int32_t, void *destination, const void *source, size_t bytes, void *stream) {
  if (const polyconv_status status = check_stream(stream)) return status;
  std::memmove(destination, source, bytes);
  return POLYCONV_SUCCESS;
}

polyconv_status fill(int32_t, void *destination, int32_t byte, size_t bytes, void *stream) {
  if (const polyconv_status status = check_stream(stream)) return status;
  std::memset(destination, byte, bytes);
  return POLYCONV_SUCCESS;
}

polyconv_status pointer_kind(int32_t, const void *, int32_t *memory) {
  *memory = POLYCONV_MEMORY_DEVICE; // every pointer of this process is the CPU's own
  return POLYCONV_SUCCESS;
}

polyconv_status stream_create(int32_t, void **stream) {
  *stream = nullptr;
  return POLYCONV_SUCCESS;
}

polyconv_status stream_destroy(int32_t, void *stream) {
  return check_stream(stream);
}

polyconv_status stream_synchronize(int32_t, void *stream) {
  return check_stream(stream);
}

// A moment. 0 is "not recorded": the clock counts from the machine's start.
struct Event {
  std::atomic<int64_t> time_ns{0};
};

// Whatever an event is recorded after is done by then, so waiting for it is nothing.
polyconv_status stream_wait(int32_t, void *stream, void *) {
  return check_stream(stream);
}

polyconv_status event_create(int32_t, void **event) {
  Event *made = new (std::nothrow) Event;
  if (made == nullptr) return refuse(POLYCONV_OUT_OF_MEMORY, "event: out of host memory");
  *event = made;
  return POLYCONV_SUCCESS;
}

polyconv_status event_destroy(int32_t, void *event) {
  delete static_cast<Event *>(event);
  return POLYCONV_SUCCESS;
}

polyconv_status event_record(int32_t, void *event, void *stream) {
  if (const polyconv_status status = check_stream(stream)) return status;
  static_cast<Event *>(event)->time_ns = os::monotonic_ns();
  return POLYCONV_SUCCESS;
}

polyconv_status event_synchronize(int32_t, void *) {
  return POLYCONV_SUCCESS;
}

polyconv_status event_elapsed(int32_t, void *start, void *stop, double *milliseconds) {
  const int64_t from = static_cast<Event *>(start)->time_ns, to = static_cast<Event *>(stop)->time_ns;
  if (from == 0) return refuse(POLYCONV_INVALID_ARGUMENT, "start was never recorded, expected a recorded event");
  if (to == 0) return refuse(POLYCONV_INVALID_ARGUMENT, "stop was never recorded, expected a recorded event");
  *milliseconds = static_cast<double>(to - from) * 1e-6;
  return POLYCONV_SUCCESS;
}

} // namespace

const polyconv_device_table cpu_device_table = {
    sizeof(polyconv_device_table),
    POLYCONV_BACKEND_ABI_MINOR,
    count,
    properties,
    alloc,
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
    nullptr, // no graphs: begin, end, launch, destroy
    nullptr,
    nullptr,
    nullptr,
};

} // namespace polyconv
