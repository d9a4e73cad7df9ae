// device_memory.cpp - device_memory.hpp. One lock for everything: this is no model of speed.
// SPDX-License-Identifier: Apache-2.0
#include "device_memory.hpp"

#include "../platform.hpp"

#include <polyconv/sdk/backend.hpp>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace fake {
namespace {

using polyconv::sdk::Error;
using polyconv::sdk::detail::guarded;
using Work = std::function<void()>;

// Added to real addresses: what it gives is no address that a process can have, so a host that reads device memory
// dies.
constexpr uintptr_t kTag = uintptr_t{1} << (sizeof(uintptr_t) > 4 ? 62 : 31);

struct Allocation {
  size_t bytes;
  int32_t memory;
};

struct Stream {
  std::deque<Work> pending;
  int64_t enqueued = 0, finished = 0;
  std::unique_ptr<std::vector<Work>> capture; // while a graph is captured
};

struct Event {
  std::shared_ptr<Stream> stream; // NULL: never recorded
  int64_t position = 0;
  double time_ms = -1; // < 0: not reached yet
};

struct Graph {
  std::vector<Work> work;
};

struct Device {
  std::map<uintptr_t, Allocation> allocations; // by the address handed out
  std::map<void *, std::shared_ptr<Stream>> streams{{nullptr, std::make_shared<Stream>()}};
  int allocs = 0, copies = 0, fills = 0, runs = 0, launches = 0, waits = 0;
};

std::mutex mutex;

Device &device(int index) {
  static std::vector<Device> &all = *new std::vector<Device>(kDeviceCount);
  if (index < 0 || index >= kDeviceCount) throw Error(POLYCONV_INTERNAL, "the fake has no such device");
  return all[static_cast<size_t>(index)];
}

std::shared_ptr<Stream> find_stream(int index, void *stream) {
  const auto found = device(index).streams.find(stream);
  if (found == device(index).streams.end()) {
    throw Error(POLYCONV_INVALID_ARGUMENT, "stream is not one of fake:" + std::to_string(index));
  }
  return found->second;
}

void append(Stream &stream, Work work) {
  if (stream.capture) return stream.capture->push_back(std::move(work));
  stream.pending.push_back(std::move(work));
  ++stream.enqueued;
}

// Does a stream's work up to a position. The lock is held.
void advance(Stream &stream, int64_t position) {
  while (stream.finished < position && !stream.pending.empty()) {
    const Work work = std::move(stream.pending.front());
    stream.pending.pop_front();
    ++stream.finished;
    work();
  }
}

void finish(Stream &stream) {
  advance(stream, stream.enqueued);
}

void finish_all(Device &on) {
  for (auto &entry : on.streams) finish(*entry.second);
}

void refuse_while_capturing(const Device &on, const char *what) {
  for (const auto &entry : on.streams) {
    if (entry.second->capture) {
      throw Error(POLYCONV_DEVICE_ERROR, std::string(what) + " while a graph is being captured");
    }
  }
}

// The allocation that a range lies in, or NULL: then it is the host's. Throws for addresses that look like the device's
// and are not.
const std::pair<const uintptr_t, Allocation> *find_allocation(int index, const void *pointer, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  for (int i = 0; i < kDeviceCount; ++i) {
    const auto &allocations = device(i).allocations;
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) continue;
    const auto &candidate = *--after;
    const size_t inside = address - candidate.first;
    if (inside >= candidate.second.bytes) continue;
    if (bytes > candidate.second.bytes - inside) {
      throw Error(POLYCONV_DEVICE_ERROR, "a range runs past the end of its allocation on fake:" + std::to_string(i));
    }
    if (i != index && candidate.second.memory == POLYCONV_MEMORY_DEVICE) {
      throw Error(POLYCONV_DEVICE_ERROR,
                  "memory of fake:" + std::to_string(i) + " was given to fake:" + std::to_string(index));
    }
    return &candidate;
  }
  if (address & kTag) throw Error(POLYCONV_DEVICE_ERROR, "an address of the fake device is not allocated (any more)");
  return nullptr;
}

void *untag(const void *pointer) {
  return reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(pointer) & ~kTag);
}

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Every function of the table: locked, exceptions turned into statuses.
template <class Body>
polyconv_status locked(Body &&body) {
  return guarded([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    body();
  });
}

// ---------------------------------------------------------------- memory

polyconv_status properties(int32_t index, polyconv_device_properties *p) {
  return locked([&] {
    const Device &on = device(index);
    std::snprintf(p->name, sizeof p->name, "fake device %d", static_cast<int>(index));
    std::snprintf(p->description, sizeof p->description,
                  "live %zu, allocs %d, copies %d, fills %d, runs %d, launches %d, waits %d", on.allocations.size(),
                  on.allocs, on.copies, on.fills, on.runs, on.launches, on.waits);
    p->memory_bytes = int64_t{1} << 30;
    p->compute_units = 1;
    p->clock_mhz = 1;
  });
}

polyconv_status alloc(int32_t index, size_t bytes, int32_t memory, void **pointer) {
  return locked([&] {
    Device &on = device(index);
    refuse_while_capturing(on, "memory was allocated");
    if (bytes > size_t{1} << 30) {
      throw Error(POLYCONV_OUT_OF_MEMORY, "the fake device has 1 GiB, asked for " + std::to_string(bytes) + " bytes");
    }
    void *real = polyconv_test::allocate_aligned(POLYCONV_ALIGNMENT, bytes);
    if (real == nullptr) throw std::bad_alloc();
    uintptr_t address = reinterpret_cast<uintptr_t>(real);
    if (memory == POLYCONV_MEMORY_DEVICE) address |= kTag;
    on.allocations[address] = {bytes, memory};
    ++on.allocs;
    *pointer = reinterpret_cast<void *>(address);
  });
}

polyconv_status release(int32_t index, void *pointer, int32_t memory) {
  return locked([&] {
    Device &on = device(index);
    const auto found = on.allocations.find(reinterpret_cast<uintptr_t>(pointer));
    if (found == on.allocations.end() || found->second.memory != memory) {
      throw Error(POLYCONV_INVALID_ARGUMENT,
                  "pointer was not allocated as such memory on fake:" + std::to_string(index));
    }
    refuse_while_capturing(on, "memory was freed");
    finish_all(on);
    on.allocations.erase(found);
    polyconv_test::free_aligned(untag(pointer));
  });
}

polyconv_status copy(int32_t index, void *destination, const void *source, size_t bytes, void *stream) {
  return locked([&] {
    const auto to = find_stream(index, stream);
    find_allocation(index, destination, bytes); // either may be the host's, but not half the device's
    find_allocation(index, source, bytes);
    ++device(index).copies;
    append(*to, [=] { std::memmove(untag(destination), untag(source), bytes); });
  });
}

polyconv_status fill(int32_t index, void *destination, int32_t byte, size_t bytes, void *stream) {
  return locked([&] {
    const auto to = find_stream(index, stream);
    if (find_allocation(index, destination, bytes) == nullptr) {
      throw Error(POLYCONV_INVALID_ARGUMENT, "destination is host memory, expected the device's");
    }
    ++device(index).fills;
    append(*to, [=] { std::memset(untag(destination), byte, bytes); });
  });
}

polyconv_status pointer_kind(int32_t index, const void *pointer, int32_t *memory) {
  return locked([&] {
    const auto *found = find_allocation(index, pointer, 1);
    *memory = found != nullptr ? found->second.memory : static_cast<int32_t>(POLYCONV_MEMORY_HOST);
  });
}

// ---------------------------------------------------------------- streams and events

polyconv_status stream_create(int32_t index, void **stream) {
  return locked([&] {
    auto made = std::make_shared<Stream>();
    *stream = made.get();
    device(index).streams[made.get()] = made;
  });
}

polyconv_status stream_destroy(int32_t index, void *stream) {
  return locked([&] {
    if (stream == nullptr)
      throw Error(POLYCONV_INVALID_ARGUMENT, "stream is NULL, the default stream is not destroyed");
    finish(*find_stream(index, stream));
    device(index).streams.erase(stream);
  });
}

polyconv_status stream_synchronize(int32_t index, void *stream) {
  return locked([&] {
    const auto waited = find_stream(index, stream);
    if (waited->capture) throw Error(POLYCONV_DEVICE_ERROR, "a stream that is being captured was waited for");
    ++device(index).waits;
    finish(*waited);
  });
}

polyconv_status stream_wait(int32_t index, void *stream, void *event) {
  return locked([&] {
    const Event &waited = *static_cast<Event *>(event);
    const auto before = waited.stream;
    const int64_t position = waited.position;
    append(*find_stream(index, stream), [=] {
      if (before) advance(*before, position);
    });
  });
}

polyconv_status event_create(int32_t, void **event) {
  return locked([&] { *event = new Event; });
}

// An event may still be recorded by work that is pending: that is done first.
polyconv_status event_destroy(int32_t index, void *event) {
  return locked([&] {
    finish_all(device(index));
    delete static_cast<Event *>(event);
  });
}

polyconv_status event_record(int32_t index, void *event, void *stream) {
  return locked([&] {
    Event *recorded = static_cast<Event *>(event);
    const auto on = find_stream(index, stream);
    append(*on, [recorded] { recorded->time_ms = now_ms(); });
    if (on->capture) return;
    recorded->stream = on;
    recorded->position = on->enqueued;
    recorded->time_ms = -1;
  });
}

polyconv_status event_synchronize(int32_t index, void *event) {
  return locked([&] {
    const Event &waited = *static_cast<Event *>(event);
    ++device(index).waits;
    if (waited.stream) advance(*waited.stream, waited.position);
  });
}

polyconv_status event_elapsed(int32_t, void *start, void *stop, double *milliseconds) {
  return locked([&] {
    const double from = static_cast<Event *>(start)->time_ms, to = static_cast<Event *>(stop)->time_ms;
    if (from < 0 || to < 0) throw Error(POLYCONV_DEVICE_ERROR, "an event has not been reached yet");
    *milliseconds = to - from;
  });
}

// ---------------------------------------------------------------- graphs

polyconv_status graph_begin(int32_t index, void *stream) {
  return locked([&] {
    if (stream == nullptr) throw Error(POLYCONV_UNSUPPORTED, "the default stream cannot be captured");
    const auto captured = find_stream(index, stream);
    if (captured->capture) throw Error(POLYCONV_INVALID_ARGUMENT, "stream is being captured already");
    captured->capture = std::make_unique<std::vector<Work>>();
  });
}

polyconv_status graph_end(int32_t index, void *stream, void **graph) {
  return locked([&] {
    const auto captured = find_stream(index, stream);
    if (!captured->capture) throw Error(POLYCONV_INVALID_ARGUMENT, "stream is not being captured");
    *graph = new Graph{std::move(*captured->capture)};
    captured->capture.reset();
  });
}

polyconv_status graph_launch(int32_t index, void *graph, void *stream) {
  return locked([&] {
    const auto to = find_stream(index, stream);
    ++device(index).launches;
    for (const Work &work : static_cast<Graph *>(graph)->work) append(*to, work);
  });
}

polyconv_status graph_destroy(int32_t, void *graph) {
  return locked([&] { delete static_cast<Graph *>(graph); });
}

} // namespace

void *resolve(int index, const void *pointer, size_t bytes, const char *name) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (bytes == 0) return nullptr;
  if (find_allocation(index, pointer, bytes) == nullptr) {
    throw Error(POLYCONV_DEVICE_ERROR,
                std::string(name) + " is host memory, expected memory of fake:" + std::to_string(index));
  }
  return untag(pointer);
}

void enqueue(int index, void *stream, std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mutex);
  append(*find_stream(index, stream), std::move(work));
}

void count_run(int index) {
  const std::lock_guard<std::mutex> lock(mutex);
  ++device(index).runs;
}

const polyconv_device_table device_table = {
    sizeof(polyconv_device_table),
    POLYCONV_BACKEND_ABI_MINOR,
    [] { return static_cast<int32_t>(kDeviceCount); },
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
    graph_begin,
    graph_end,
    graph_launch,
    graph_destroy,
};

} // namespace fake
