// cuda_plug_ins_test.cpp - memory, streams, events and graphs made through one CUDA plug-in work in every other: each
// has a runtime of its own, but they share the primary context and the driver's handles. Asked through the plug-in ABI,
// for the library itself uses the first table alone.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/backend.h>

#include <cstring>

#include <dlfcn.h>

#include "cuda.hpp"

namespace {

void no_log(int32_t, const char *) {}
void show(const char *message) {
  MESSAGE(std::string(message));
}
const polyconv_host kHost = {sizeof(polyconv_host), POLYCONV_BACKEND_ABI_MINOR, no_log, show};

struct PlugIn {
  std::string name;
  const polyconv_device_table *table;
};

std::vector<PlugIn> plug_ins() {
  std::vector<PlugIn> result;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    if (!info.available || std::strcmp(info.device_kind, "cuda") != 0) continue;
    void *library = dlopen(info.path, RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != nullptr);
    const auto query = reinterpret_cast<polyconv_backend_query>(dlsym(library, POLYCONV_BACKEND_ENTRY));
    const bool has_entry = query != nullptr;
    REQUIRE(has_entry);
    const polyconv_backend *backend = nullptr;
    REQUIRE(query(&kHost, &backend) == POLYCONV_SUCCESS);
    REQUIRE(backend->device != nullptr);
    result.push_back({info.name, backend->device});
  }
  return result;
}

#define GOOD(call) REQUIRE((call) == POLYCONV_SUCCESS)

// `a` makes things, `b` uses them.
void use_across(const polyconv_device_table &a, const polyconv_device_table &b) {
  constexpr size_t kBytes = 4096;
  void *memory = nullptr, *pinned = nullptr, *stream = nullptr, *event = nullptr, *start = nullptr, *graph = nullptr;
  GOOD(a.alloc(0, kBytes, POLYCONV_MEMORY_DEVICE, &memory));
  GOOD(a.alloc(0, kBytes, POLYCONV_MEMORY_PINNED, &pinned));
  GOOD(a.stream_create(0, &stream));
  GOOD(a.event_create(0, &start));
  GOOD(a.event_create(0, &event));
  std::memset(pinned, 0, kBytes);

  int32_t kind = -1;
  GOOD(b.pointer_kind(0, memory, &kind));
  CHECK(kind == POLYCONV_MEMORY_DEVICE);
  GOOD(b.pointer_kind(0, pinned, &kind));
  CHECK(kind == POLYCONV_MEMORY_PINNED);
  GOOD(b.event_record(0, start, stream));
  GOOD(b.fill(0, memory, 0x3c, kBytes, stream));
  GOOD(b.event_record(0, event, stream));
  GOOD(b.stream_wait(0, stream, event));
  GOOD(a.copy(0, pinned, memory, kBytes, stream));
  GOOD(b.stream_synchronize(0, stream));
  CHECK(static_cast<unsigned char *>(pinned)[kBytes - 1] == 0x3c);
  double ms = -1;
  GOOD(b.event_synchronize(0, event));
  GOOD(b.event_elapsed(0, start, event, &ms));
  CHECK(ms >= 0);

  GOOD(a.graph_begin(0, stream));
  GOOD(b.fill(0, memory, 0x77, kBytes, stream));
  GOOD(b.graph_end(0, stream, &graph));
  GOOD(a.graph_launch(0, graph, stream));
  GOOD(b.copy(0, pinned, memory, kBytes, stream));
  GOOD(a.stream_synchronize(0, stream));
  CHECK(static_cast<unsigned char *>(pinned)[0] == 0x77);

  GOOD(b.graph_destroy(0, graph));
  GOOD(b.event_destroy(0, event));
  GOOD(b.event_destroy(0, start));
  GOOD(b.stream_destroy(0, stream));
  GOOD(b.free(0, pinned, POLYCONV_MEMORY_PINNED));
  GOOD(b.free(0, memory, POLYCONV_MEMORY_DEVICE));
}

} // namespace

TEST_CASE("what one plug-in makes every other uses") {
  if (cuda_test::no_device()) return;
  const std::vector<PlugIn> all = plug_ins();
  REQUIRE(!all.empty());
  for (const PlugIn &a : all)
    for (const PlugIn &b : all) {
      CAPTURE(a.name);
      CAPTURE(b.name);
      use_across(*a.table, *b.table);
    }
  MESSAGE(all.size() * all.size() << " pairs");
}

TEST_CASE("every plug-in sees the same devices") {
  if (cuda_test::no_device()) return;
  const std::vector<PlugIn> all = plug_ins();
  for (const PlugIn &plug_in : all) CHECK(plug_in.table->count() == all.front().table->count());
}
