// cuda_device_test.cpp - the device table on a GPU: memory of every kind, streams, events, graphs, and what failures
// leave behind.
// SPDX-License-Identifier: Apache-2.0
#include "cuda.hpp"

#include <cstdint>
#include <cstring>

using cuda_test::Floats;
using cuda_test::no_device;
using polyconv::Device;

TEST_CASE("a GPU says what it is") {
  if (no_device()) return;
  const polyconv_device_properties p = Device("cuda:0").properties();
  CHECK(p.name[0] != '\0');
  CHECK(std::string(p.description).find("driver") != std::string::npos);
  CHECK(p.memory_bytes > 0);
  CHECK(p.compute_units > 0);
  CHECK(p.compute_capability >= 75);
  MESSAGE(std::string(p.name) << ", " << std::string(p.description) << ", " << p.compute_units << " multiprocessors, "
                              << p.clock_mhz << " MHz");
}

TEST_CASE("pointers say whose memory they are") {
  if (no_device()) return;
  const Device device("cuda:0");
  const polyconv::Memory own(device, 1000), pinned(device, 1000, POLYCONV_MEMORY_PINNED);
  const std::vector<char> host(1000);
  const auto kind = [&](const void *pointer) {
    int32_t answer = -1;
    polyconv::require(polyconv_device_pointer_kind(device.get(), pointer, &answer));
    return answer;
  };
  CHECK(kind(own.get()) == POLYCONV_MEMORY_DEVICE);
  CHECK(kind(static_cast<char *>(own.get()) + 999) == POLYCONV_MEMORY_DEVICE);
  CHECK(kind(pinned.get()) == POLYCONV_MEMORY_PINNED);
  CHECK(kind(host.data()) == POLYCONV_MEMORY_HOST);
  CHECK(reinterpret_cast<uintptr_t>(own.get()) % POLYCONV_ALIGNMENT == 0);
  CHECK(reinterpret_cast<uintptr_t>(pinned.get()) % POLYCONV_ALIGNMENT == 0);
}

TEST_CASE("copies and fills run in the order of their stream") {
  if (no_device()) return;
  const Device device("cuda:0");
  polyconv::Stream stream(device);
  const size_t bytes = 1 << 20;
  const polyconv::Memory a(device, bytes), b(device, bytes), pinned(device, bytes, POLYCONV_MEMORY_PINNED);
  std::memset(pinned.get(), 0, bytes);
  device.fill(a.get(), 0x5a, bytes, stream.get());
  device.fill(a.get(), 0x11, bytes / 2, stream.get());
  device.copy(b.get(), a.get(), bytes, stream.get());
  device.copy(pinned.get(), b.get(), bytes, stream.get());
  stream.synchronize();
  const auto *found = static_cast<const unsigned char *>(pinned.get());
  CHECK(found[0] == 0x11);
  CHECK(found[bytes / 2 - 1] == 0x11);
  CHECK(found[bytes / 2] == 0x5a);
  CHECK(found[bytes - 1] == 0x5a);
}

TEST_CASE("events order streams and measure time") {
  if (no_device()) return;
  const Device device("cuda:0");
  polyconv::Stream first(device), second(device);
  polyconv::Event start(device), stop(device);
  const size_t bytes = size_t{64} << 20;
  const polyconv::Memory memory(device, bytes);
  std::vector<unsigned char> found(1);
  start.record(first.get());
  for (int i = 0; i < 20; ++i) device.fill(memory.get(), i, bytes, first.get());
  stop.record(first.get());
  second.wait(stop);
  device.copy(found.data(), static_cast<char *>(memory.get()) + bytes - 1, 1, second.get());
  second.synchronize();
  CHECK(found[0] == 19);
  stop.synchronize();
  const double ms = start.milliseconds_until(stop);
  CHECK(ms > 0.05); // 1.3 GB cannot be written faster
  CHECK(ms < 5000);
}

TEST_CASE("graphs replay what was recorded") {
  if (no_device()) return;
  const Device device("cuda:0");
  polyconv::Stream stream(device);
  Floats from(device, {1, 2, 3, 4}), to(device, {0, 0, 0, 0});
  void *graph = nullptr;
  polyconv::require(polyconv_graph_begin(device.get(), stream.get()));
  device.copy(to.get(), from.get(), 4 * sizeof(float), stream.get());
  polyconv::require(polyconv_graph_end(device.get(), stream.get(), &graph));
  REQUIRE(graph != nullptr);
  CHECK(to.values() == std::vector<float>{0, 0, 0, 0}); // recorded, not run
  polyconv::require(polyconv_graph_launch(device.get(), graph, stream.get()));
  CHECK(to.values(stream.get()) == std::vector<float>{1, 2, 3, 4});
  from.set({5, 6, 7, 8});
  polyconv::require(polyconv_graph_launch(device.get(), graph, stream.get()));
  CHECK(to.values(stream.get()) == std::vector<float>{5, 6, 7, 8});
  polyconv::require(polyconv_graph_destroy(device.get(), graph));
}

TEST_CASE("memory that is not there is a status, and the next call works") {
  if (no_device()) return;
  const Device device("cuda:0");
  void *pointer = &pointer;
  CHECK(polyconv_device_alloc(device.get(), size_t{1} << 50, POLYCONV_MEMORY_DEVICE, &pointer) ==
        POLYCONV_OUT_OF_MEMORY);
  CHECK(pointer == &pointer);
  CHECK(std::string(polyconv_last_error()).find("1125899906842624 bytes") != std::string::npos);
  CHECK(Floats(device, {3, 4}).values() == std::vector<float>{3, 4});
}
