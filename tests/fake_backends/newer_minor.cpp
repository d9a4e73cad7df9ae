// newer_minor.cpp - a backend of a later minor: its tables are longer than this library's, and its minor is larger. It
// must load, the unknown ends unread.
// SPDX-License-Identifier: Apache-2.0
#include "fake_table.hpp"

namespace {

// What the tables may have grown by. The pattern would crash whoever took it for a pointer.
struct GrownKernel {
  polyconv_kernel known;
  uint64_t unknown[8];
};
struct GrownBackend {
  polyconv_backend known;
  uint64_t unknown[8];
};
constexpr uint64_t kPoison = 0x5a5a5a5a5a5a5a5a;

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  polyconv::sdk::host = host;
  static GrownKernel kernel;
  static GrownBackend grown;
  static const polyconv_kernel *kernels[] = {&kernel.known};
  const fake::Tables tables = fake::make_tables(FAKE_NAME);
  kernel.known = tables.kernel;
  kernel.known.struct_size = sizeof kernel;
  grown.known = tables.backend;
  grown.known.struct_size = sizeof grown;
  grown.known.abi_minor = POLYCONV_BACKEND_ABI_MINOR + 7;
  grown.known.kernels = kernels;
  for (uint64_t &value : kernel.unknown) value = kPoison;
  for (uint64_t &value : grown.unknown) value = kPoison;
  *backend = &grown.known;
  return POLYCONV_SUCCESS;
}
