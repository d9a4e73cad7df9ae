// many_devices.cpp - a backend for devices of kind "many" that counts as many as a number can hold.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "../../fake_backends/fake_table.hpp"

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  static polyconv_device_table devices = {};
  devices.struct_size = sizeof devices;
  devices.abi_minor = POLYCONV_BACKEND_ABI_MINOR;
  devices.count = [] { return std::numeric_limits<int32_t>::max(); };
  static fake::Tables tables = fake::make_tables(FAKE_NAME);
  tables.backend.device_kind = "many";
  tables.backend.device = &devices;
  return fake::answer(host, &tables, backend);
}
