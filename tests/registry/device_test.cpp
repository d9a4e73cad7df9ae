// device_test.cpp - devices through the C API: the CPU, a fake one whose memory the host cannot read and whose streams
// wait to be waited for, and a poor one that lacks nearly everything.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "fake_backends/fakes.hpp"
#include "skip.hpp"

namespace {

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

// The call fails with this status and a sentence that holds `part`.
#define CHECK_FAILS(call, status, part)              \
  do {                                               \
    CHECK((call) == (status));                       \
    const std::string error = polyconv_last_error(); \
    CAPTURE(error);                                  \
    CHECK(contains(error, part));                    \
  } while (false)

const polyconv_device *load(const char *fake, const char *device) {
  const polyconv_device *found = nullptr;
  if (polyconv_device_find(device, &found) == POLYCONV_SUCCESS) return found;
  REQUIRE(polyconv_backend_load(fakes::path(fake).c_str()) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_device_find(device, &found) == POLYCONV_SUCCESS);
  return found;
}

std::string description(const polyconv_device *device) {
  polyconv_device_properties properties{};
  properties.struct_size = sizeof properties;
  REQUIRE(polyconv_device_get_properties(device, &properties) == POLYCONV_SUCCESS);
  return properties.description;
}

#ifdef __GLIBC__
// Blocks from 128 KiB on are mapped by themselves from here on: else glibc, once it has freed such a block, takes the
// next ones from its heap, whose pages keep what was asked for those that lay there before.
[[maybe_unused]] const int kMapsByItself = mallopt(M_MMAP_THRESHOLD, 128 << 10);
#endif

// Whether the pages around an address are to be large ones, as Linux lists them.
bool asks_for_large_pages(const void *address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) here = begin <= wanted && wanted < end;
    if (here && line.rfind("VmFlags:", 0) == 0) return contains(line, " hg");
  }
  return false;
}

} // namespace

TEST_CASE("the CPU is always there, and NULL means it") {
  const polyconv_device *cpu = nullptr, *same = nullptr;
  REQUIRE(polyconv_device_find("cpu", &cpu) == POLYCONV_SUCCESS);
  REQUIRE(cpu != nullptr);
  CHECK(polyconv_device_find(nullptr, &same) == POLYCONV_SUCCESS);
  CHECK(same == cpu);
  CHECK(polyconv_device_find("cpu:0", &same) == POLYCONV_SUCCESS);
  CHECK(same == cpu);
  CHECK(polyconv_device_count() >= 1);
  CHECK(std::string(polyconv_device_name(0)) == "cpu");
  CHECK(polyconv_device_name(-1) == nullptr);
  CHECK(polyconv_device_name(polyconv_device_count()) == nullptr);

  polyconv_device_properties p{};
  p.struct_size = sizeof p;
  REQUIRE(polyconv_device_get_properties(nullptr, &p) == POLYCONV_SUCCESS);
  CHECK(p.name[0] != '\0');
  CHECK(p.description[0] != '\0');
  CHECK(p.memory_bytes > 0);
  CHECK(p.compute_units >= 1);
  CHECK(p.compute_capability == 0);
  MESSAGE(p.name << ", " << p.description << ", " << p.compute_units << " processors, " << p.clock_mhz << " MHz");
}

TEST_CASE("what the CPU allocates asks for large pages where these are given on demand, small blocks excepted") {
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!setting) return polyconv_test::skip("this system has no large pages on demand");
  constexpr size_t kLargePage = size_t{2} << 20;
  const auto allocated = [](size_t bytes) {
    void *pointer = nullptr;
    REQUIRE(polyconv_device_alloc(nullptr, bytes, POLYCONV_MEMORY_DEVICE, &pointer) == POLYCONV_SUCCESS);
    return static_cast<char *>(pointer);
  };
  const auto free = [](void *pointer) {
    CHECK(polyconv_device_free(nullptr, pointer, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  };
  for (int round = 0; round < 2; ++round) { // whatever was freed before
    char *const large = allocated(2 * kLargePage + (size_t{1} << 20) + 100);
    CHECK(reinterpret_cast<uintptr_t>(large) % kLargePage == 0);
    CHECK(asks_for_large_pages(large));
    CHECK_FALSE(asks_for_large_pages(large + 2 * kLargePage)); // no more than asked for
    free(large);
    char *small[4];
    for (char *&one : small) CHECK_FALSE(asks_for_large_pages(one = allocated(kLargePage / 2)));
    for (char *one : small) free(one);
    free(allocated(8 * kLargePage));
  }
}

TEST_CASE("names of devices that are malformed or missing get a sentence") {
  const polyconv_device *kept = nullptr;
  REQUIRE(polyconv_device_find("cpu", &kept) == POLYCONV_SUCCESS);
  const polyconv_device *device = kept;
  for (const char *name :
       {"", ":", ":0", "cpu:", "cpu:x", "cpu:-1", "cpu:+1", "CPU", "cpu 0", "cpu:0:0", "cpu:1000000000"}) {
    CAPTURE(std::string(name));
    CHECK_FAILS(polyconv_device_find(name, &device), POLYCONV_INVALID_ARGUMENT,
                "name is '" + std::string(name) + "', expected");
  }
  CHECK_FAILS(polyconv_device_find("cpu:1", &device), POLYCONV_UNAVAILABLE,
              "device 'cpu:1' is not available: there is one");
  CHECK_FAILS(polyconv_device_find("abacus", &device), POLYCONV_UNAVAILABLE,
              "no backend for devices of kind 'abacus' was found");
  CHECK(device == kept);
  CHECK_FAILS(polyconv_device_find("cpu", nullptr), POLYCONV_INVALID_ARGUMENT, "device is NULL");
}

TEST_CASE("the reason why a kind of device is missing is its backend's") {
  // It did not load and so told no kind: its name is all there is to go by.
  CHECK(polyconv_backend_load(fakes::path("missing_library").c_str()) == POLYCONV_UNAVAILABLE);
  const polyconv_device *device = nullptr;
  CHECK_FAILS(polyconv_device_find("fake-missing", &device), POLYCONV_UNAVAILABLE, "libpolyconv_fake_driver.so");
}

TEST_CASE("properties fill what the caller's struct has") {
  struct Newer {
    polyconv_device_properties known;
    int64_t beyond = 42;
  } newer;
  newer.known.struct_size = sizeof newer;
  REQUIRE(polyconv_device_get_properties(nullptr, &newer.known) == POLYCONV_SUCCESS);
  CHECK(newer.known.struct_size == sizeof newer);
  CHECK(newer.beyond == 0);
  newer.known.struct_size = 8;
  newer.known.name[0] = '!';
  CHECK_FAILS(polyconv_device_get_properties(nullptr, &newer.known), POLYCONV_INVALID_ARGUMENT,
              "properties.struct_size is 8");
  CHECK(newer.known.name[0] == '!');
  CHECK_FAILS(polyconv_device_get_properties(nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "properties is NULL");
}

TEST_CASE("CPU memory is aligned, copied and filled at once") {
  for (int32_t memory : {POLYCONV_MEMORY_DEVICE, POLYCONV_MEMORY_PINNED}) {
    void *a = nullptr, *b = nullptr;
    REQUIRE(polyconv_device_alloc(nullptr, 1000, memory, &a) == POLYCONV_SUCCESS);
    REQUIRE(polyconv_device_alloc(nullptr, 1000, memory, &b) == POLYCONV_SUCCESS);
    CHECK(reinterpret_cast<uintptr_t>(a) % POLYCONV_ALIGNMENT == 0);
    CHECK(polyconv_device_fill(nullptr, a, 0xab, 1000, nullptr) == POLYCONV_SUCCESS);
    CHECK(polyconv_device_copy(nullptr, b, a, 1000, nullptr) == POLYCONV_SUCCESS);
    CHECK(static_cast<unsigned char *>(b)[999] == 0xab);
    int32_t kind = -1;
    CHECK(polyconv_device_pointer_kind(nullptr, a, &kind) == POLYCONV_SUCCESS);
    CHECK(kind == POLYCONV_MEMORY_DEVICE);
    CHECK(polyconv_device_free(nullptr, a, memory) == POLYCONV_SUCCESS);
    CHECK(polyconv_device_free(nullptr, b, memory) == POLYCONV_SUCCESS);
  }
  void *none = &none;
  CHECK(polyconv_device_alloc(nullptr, 0, POLYCONV_MEMORY_DEVICE, &none) == POLYCONV_SUCCESS);
  CHECK(none == nullptr);
  CHECK(polyconv_device_free(nullptr, nullptr, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(nullptr, nullptr, nullptr, 0, nullptr) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_fill(nullptr, nullptr, 0, 0, nullptr) == POLYCONV_SUCCESS);
}

TEST_CASE("bad memory arguments get a sentence and change nothing") {
  void *kept = &kept;
  char bytes[4] = "abc";
  int32_t kind = 7;
  CHECK_FAILS(polyconv_device_alloc(nullptr, SIZE_MAX, POLYCONV_MEMORY_DEVICE, &kept), POLYCONV_OUT_OF_MEMORY,
              "bytes is 18446744073709551615: out of host memory");
  CHECK_FAILS(polyconv_device_alloc(nullptr, 8, POLYCONV_MEMORY_HOST, &kept), POLYCONV_INVALID_ARGUMENT,
              "memory is 2, expected POLYCONV_MEMORY_DEVICE (0) or POLYCONV_MEMORY_PINNED (1)");
  CHECK_FAILS(polyconv_device_alloc(nullptr, 8, -1, &kept), POLYCONV_INVALID_ARGUMENT, "memory is -1");
  CHECK(kept == &kept);
  CHECK_FAILS(polyconv_device_alloc(nullptr, 8, 0, nullptr), POLYCONV_INVALID_ARGUMENT, "pointer is NULL");
  CHECK_FAILS(polyconv_device_free(nullptr, bytes, 3), POLYCONV_INVALID_ARGUMENT, "memory is 3");
  CHECK_FAILS(polyconv_device_copy(nullptr, nullptr, bytes, 4, nullptr), POLYCONV_INVALID_ARGUMENT,
              "destination is NULL");
  CHECK_FAILS(polyconv_device_copy(nullptr, bytes, nullptr, 4, nullptr), POLYCONV_INVALID_ARGUMENT, "source is NULL");
  CHECK_FAILS(polyconv_device_copy(nullptr, bytes, bytes, 4, bytes), POLYCONV_INVALID_ARGUMENT,
              "stream is not NULL, expected NULL");
  CHECK_FAILS(polyconv_device_fill(nullptr, nullptr, 0, 4, nullptr), POLYCONV_INVALID_ARGUMENT, "destination is NULL");
  CHECK_FAILS(polyconv_device_fill(nullptr, bytes, 256, 4, nullptr), POLYCONV_INVALID_ARGUMENT,
              "byte is 256, expected 0 to 255");
  CHECK_FAILS(polyconv_device_fill(nullptr, bytes, -1, 4, nullptr), POLYCONV_INVALID_ARGUMENT, "byte is -1");
  CHECK_FAILS(polyconv_device_fill(nullptr, bytes, 1, 4, bytes), POLYCONV_INVALID_ARGUMENT, "stream is not NULL");
  CHECK(std::strcmp(bytes, "abc") == 0);
  CHECK_FAILS(polyconv_device_pointer_kind(nullptr, nullptr, &kind), POLYCONV_INVALID_ARGUMENT, "pointer is NULL");
  CHECK_FAILS(polyconv_device_pointer_kind(nullptr, bytes, nullptr), POLYCONV_INVALID_ARGUMENT, "memory is NULL");
  CHECK(kind == 7);
}

TEST_CASE("CPU streams are NULL, events are moments, graphs are unsupported") {
  void *stream = &stream, *start = nullptr, *stop = nullptr;
  REQUIRE(polyconv_stream_create(nullptr, &stream) == POLYCONV_SUCCESS);
  CHECK(stream == nullptr);
  REQUIRE(polyconv_event_create(nullptr, &start) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_event_create(nullptr, &stop) == POLYCONV_SUCCESS);
  double ms = -1;
  CHECK_FAILS(polyconv_event_elapsed(nullptr, start, stop, &ms), POLYCONV_INVALID_ARGUMENT, "start was never recorded");
  CHECK(polyconv_event_record(nullptr, start, stream) == POLYCONV_SUCCESS);
  CHECK_FAILS(polyconv_event_elapsed(nullptr, start, stop, &ms), POLYCONV_INVALID_ARGUMENT, "stop was never recorded");
  CHECK(ms == -1);
  CHECK(polyconv_stream_wait(nullptr, stream, start) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_synchronize(nullptr, stream) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_record(nullptr, stop, stream) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_synchronize(nullptr, stop) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_elapsed(nullptr, start, stop, &ms) == POLYCONV_SUCCESS);
  CHECK(ms >= 0);
  CHECK(ms < 60e3);
  CHECK_FAILS(polyconv_event_record(nullptr, start, start), POLYCONV_INVALID_ARGUMENT, "stream is not NULL");
  CHECK_FAILS(polyconv_stream_wait(nullptr, start, start), POLYCONV_INVALID_ARGUMENT, "stream is not NULL");
  CHECK_FAILS(polyconv_stream_synchronize(nullptr, start), POLYCONV_INVALID_ARGUMENT, "stream is not NULL");
  CHECK_FAILS(polyconv_stream_destroy(nullptr, start), POLYCONV_INVALID_ARGUMENT, "stream is not NULL");
  CHECK(polyconv_event_destroy(nullptr, start) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_destroy(nullptr, stop) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_destroy(nullptr, nullptr) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_destroy(nullptr, stream) == POLYCONV_SUCCESS);

  void *graph = &graph;
  CHECK_FAILS(polyconv_graph_begin(nullptr, nullptr), POLYCONV_UNSUPPORTED, "device 'cpu' has no graph_begin");
  CHECK_FAILS(polyconv_graph_end(nullptr, nullptr, &graph), POLYCONV_UNSUPPORTED, "device 'cpu' has no graph_end");
  CHECK_FAILS(polyconv_graph_launch(nullptr, graph, nullptr), POLYCONV_UNSUPPORTED, "has no graph_launch");
  CHECK_FAILS(polyconv_graph_destroy(nullptr, graph), POLYCONV_UNSUPPORTED, "has no graph_destroy");
  CHECK(polyconv_graph_destroy(nullptr, nullptr) == POLYCONV_SUCCESS);
  CHECK(graph == &graph);
}

TEST_CASE("NULL streams, events and graphs get a sentence") {
  double ms = 0;
  CHECK_FAILS(polyconv_stream_create(nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "stream is NULL");
  CHECK_FAILS(polyconv_stream_wait(nullptr, nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "event is NULL");
  CHECK_FAILS(polyconv_event_create(nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "event is NULL");
  CHECK_FAILS(polyconv_event_record(nullptr, nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "event is NULL");
  CHECK_FAILS(polyconv_event_synchronize(nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "event is NULL");
  CHECK_FAILS(polyconv_event_elapsed(nullptr, nullptr, &ms, &ms), POLYCONV_INVALID_ARGUMENT, "start is NULL");
  CHECK_FAILS(polyconv_event_elapsed(nullptr, &ms, nullptr, &ms), POLYCONV_INVALID_ARGUMENT, "stop is NULL");
  CHECK_FAILS(polyconv_event_elapsed(nullptr, &ms, &ms, nullptr), POLYCONV_INVALID_ARGUMENT, "milliseconds is NULL");
  CHECK_FAILS(polyconv_graph_end(nullptr, nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "graph is NULL");
  CHECK_FAILS(polyconv_graph_launch(nullptr, nullptr, nullptr), POLYCONV_INVALID_ARGUMENT, "graph is NULL");
}

TEST_CASE("a backend's devices are found by kind and number, and stay") {
  const polyconv_device *first = load("device", "fake"), *again = nullptr, *second = nullptr;
  CHECK(polyconv_device_find("fake:0", &again) == POLYCONV_SUCCESS);
  CHECK(again == first);
  CHECK(polyconv_device_find("fake:1", &second) == POLYCONV_SUCCESS);
  CHECK(second != first);
  CHECK_FAILS(polyconv_device_find("fake:2", &second), POLYCONV_UNAVAILABLE,
              "device 'fake:2' is not available: there are 2 of kind 'fake'");
  bool listed = false;
  for (int32_t i = 0; i < polyconv_device_count(); ++i) {
    listed = listed || std::string(polyconv_device_name(i)) == "fake:1";
  }
  CHECK(listed);
  CHECK(std::string(polyconv_device_name(0)) == "cpu");
  polyconv_device_properties p{};
  p.struct_size = sizeof p;
  CHECK(polyconv_device_get_properties(second, &p) == POLYCONV_SUCCESS);
  CHECK(std::string(p.name) == "fake device 1");
}

TEST_CASE("memory of a device is its own, and the kind of a pointer is told") {
  const polyconv_device *device = load("device", "fake"), *other = nullptr;
  REQUIRE(polyconv_device_find("fake:1", &other) == POLYCONV_SUCCESS);
  void *memory = nullptr, *pinned = nullptr;
  char host[64] = "what the host wrote", back[64] = "";
  REQUIRE(polyconv_device_alloc(device, sizeof host, POLYCONV_MEMORY_DEVICE, &memory) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_device_alloc(device, sizeof host, POLYCONV_MEMORY_PINNED, &pinned) == POLYCONV_SUCCESS);
  int32_t kind = -1;
  CHECK(polyconv_device_pointer_kind(device, memory, &kind) == POLYCONV_SUCCESS);
  CHECK(kind == POLYCONV_MEMORY_DEVICE);
  CHECK(polyconv_device_pointer_kind(device, static_cast<char *>(memory) + 63, &kind) == POLYCONV_SUCCESS);
  CHECK(kind == POLYCONV_MEMORY_DEVICE);
  CHECK(polyconv_device_pointer_kind(device, pinned, &kind) == POLYCONV_SUCCESS);
  CHECK(kind == POLYCONV_MEMORY_PINNED);
  CHECK(polyconv_device_pointer_kind(device, host, &kind) == POLYCONV_SUCCESS);
  CHECK(kind == POLYCONV_MEMORY_HOST);

  CHECK(polyconv_device_copy(device, memory, host, sizeof host, nullptr) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(device, back, memory, sizeof host, nullptr) == POLYCONV_SUCCESS);
  CHECK(back[0] == '\0'); // nothing is done before somebody waits
  CHECK(polyconv_stream_synchronize(device, nullptr) == POLYCONV_SUCCESS);
  CHECK(std::string(back) == host);

  CHECK_FAILS(polyconv_device_copy(device, memory, host, 65, nullptr), POLYCONV_DEVICE_ERROR, "past the end");
  CHECK_FAILS(polyconv_device_copy(other, memory, host, 1, nullptr), POLYCONV_DEVICE_ERROR,
              "memory of fake:0 was given to fake:1");
  CHECK_FAILS(polyconv_device_fill(device, host, 0, 1, nullptr), POLYCONV_INVALID_ARGUMENT, "host memory");
  CHECK_FAILS(polyconv_device_copy(device, memory, host, 1, host), POLYCONV_INVALID_ARGUMENT, "stream is not one of");
  CHECK_FAILS(polyconv_device_free(device, memory, POLYCONV_MEMORY_PINNED), POLYCONV_INVALID_ARGUMENT,
              "not allocated as such memory");
  CHECK_FAILS(polyconv_device_alloc(device, size_t{1} << 40, POLYCONV_MEMORY_DEVICE, &pinned), POLYCONV_OUT_OF_MEMORY,
              "1 GiB");
  CHECK(polyconv_device_free(device, memory, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_free(device, pinned, POLYCONV_MEMORY_PINNED) == POLYCONV_SUCCESS);
  CHECK_FAILS(polyconv_device_free(device, memory, POLYCONV_MEMORY_DEVICE), POLYCONV_INVALID_ARGUMENT, "not allocated");
  CHECK(contains(description(device), "live 0"));
}

TEST_CASE("streams are ordered by events, and graphs replay what was recorded") {
  const polyconv_device *device = load("device", "fake");
  void *first = nullptr, *second = nullptr, *event = nullptr, *stop = nullptr, *memory = nullptr, *graph = nullptr;
  REQUIRE(polyconv_stream_create(device, &first) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_stream_create(device, &second) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_event_create(device, &event) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_event_create(device, &stop) == POLYCONV_SUCCESS);
  REQUIRE(polyconv_device_alloc(device, 4, POLYCONV_MEMORY_DEVICE, &memory) == POLYCONV_SUCCESS);
  unsigned char back[4] = {};
  CHECK(polyconv_device_fill(device, memory, 5, 4, first) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_record(device, event, first) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_wait(device, second, event) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(device, back, memory, 4, second) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_record(device, stop, second) == POLYCONV_SUCCESS);
  double ms = -1;
  CHECK_FAILS(polyconv_event_elapsed(device, event, stop, &ms), POLYCONV_DEVICE_ERROR, "not been reached yet");
  CHECK(polyconv_event_synchronize(device, stop) == POLYCONV_SUCCESS);
  CHECK(back[3] == 5);
  CHECK(polyconv_event_elapsed(device, event, stop, &ms) == POLYCONV_SUCCESS);
  CHECK(ms >= 0);

  CHECK_FAILS(polyconv_graph_begin(device, nullptr), POLYCONV_UNSUPPORTED, "the default stream cannot be captured");
  CHECK(polyconv_graph_begin(device, first) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_fill(device, memory, 9, 4, first) == POLYCONV_SUCCESS);
  CHECK_FAILS(polyconv_stream_synchronize(device, first), POLYCONV_DEVICE_ERROR, "being captured");
  void *other = nullptr;
  CHECK_FAILS(polyconv_device_alloc(device, 4, POLYCONV_MEMORY_DEVICE, &other), POLYCONV_DEVICE_ERROR, "captured");
  CHECK(polyconv_graph_end(device, first, &graph) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(device, back, memory, 4, first) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_synchronize(device, first) == POLYCONV_SUCCESS);
  CHECK(back[0] == 5); // recorded, not run
  CHECK(polyconv_graph_launch(device, graph, second) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(device, back, memory, 4, second) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_synchronize(device, second) == POLYCONV_SUCCESS);
  CHECK(back[0] == 9);
  CHECK(polyconv_graph_destroy(device, graph) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_free(device, memory, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_destroy(device, event) == POLYCONV_SUCCESS);
  CHECK(polyconv_event_destroy(device, stop) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_destroy(device, first) == POLYCONV_SUCCESS);
  CHECK(polyconv_stream_destroy(device, second) == POLYCONV_SUCCESS);
}

TEST_CASE("what a short or incomplete device table lacks is unsupported") {
  const polyconv_device *device = load("poor_device", "poor");
  void *pointer = nullptr;
  char byte = 0;
  int32_t kind = 0;
  REQUIRE(polyconv_device_alloc(device, 4, POLYCONV_MEMORY_DEVICE, &pointer) == POLYCONV_SUCCESS);
  polyconv_device_properties p{};
  p.struct_size = sizeof p;
  CHECK_FAILS(polyconv_device_get_properties(device, &p), POLYCONV_UNSUPPORTED, "device 'poor:0' has no properties");
  CHECK_FAILS(polyconv_device_copy(device, &byte, pointer, 1, nullptr), POLYCONV_UNSUPPORTED, "has no copy");
  CHECK_FAILS(polyconv_device_pointer_kind(device, &byte, &kind), POLYCONV_UNSUPPORTED, "has no pointer_kind");
  CHECK_FAILS(polyconv_stream_synchronize(device, nullptr), POLYCONV_UNSUPPORTED, "has no stream_synchronize");
  CHECK_FAILS(polyconv_graph_begin(device, nullptr), POLYCONV_UNSUPPORTED, "has no graph_begin");
  CHECK(polyconv_device_free(device, pointer, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  CHECK_FAILS(polyconv_device_alloc(device, 1 << 21, POLYCONV_MEMORY_DEVICE, &pointer), POLYCONV_OUT_OF_MEMORY,
              "poor:0: alloc returned status 4 (out of memory) without a reason");
}
