// poor_device.cpp - a backend for devices of kind "poor", whose device table is of an imaginary older minor: it ends
// after free, and properties is missing as well. What it lacks is unsupported, not a crash.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdlib>

#include "../platform.hpp"
#include "fake_table.hpp"

namespace {

polyconv_status alloc(int32_t, size_t bytes, int32_t, void **pointer) {
  if (bytes > 1 << 20) return POLYCONV_OUT_OF_MEMORY; // without a sentence, which is rude
  *pointer = polyconv_test::allocate_aligned(POLYCONV_ALIGNMENT, bytes);
  return POLYCONV_SUCCESS;
}

polyconv_status release(int32_t, void *pointer, int32_t) {
  polyconv_test::free_aligned(pointer);
  return POLYCONV_SUCCESS;
}

// Only the part that the size covers exists.
struct ShortTable {
  alignas(polyconv_device_table) unsigned char bytes[offsetof(polyconv_device_table, copy)];
};

const polyconv_device_table *device_table() {
  static ShortTable table;
  polyconv_device_table whole{};
  whole.struct_size = sizeof table;
  whole.count = [] { return 1; };
  whole.alloc = alloc;
  whole.free = release;
  for (size_t i = 0; i < sizeof table; ++i) table.bytes[i] = reinterpret_cast<const unsigned char *>(&whole)[i];
  return reinterpret_cast<const polyconv_device_table *>(&table);
}

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  static fake::Tables tables = fake::make_tables(FAKE_NAME);
  tables.backend.device_kind = "poor";
  tables.backend.device = device_table();
  return fake::answer(host, &tables, backend);
}
