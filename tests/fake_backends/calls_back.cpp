// calls_back.cpp - a backend that calls the library while it is being loaded: it must be answered, not locked out.
// SPDX-License-Identifier: Apache-2.0
#include "fake_table.hpp"

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  static fake::Tables tables = fake::make_tables(FAKE_NAME);
  static char version[32];
  std::snprintf(version, sizeof version, "saw %d", static_cast<int>(polyconv_backend_count()));
  tables.backend.version = version;
  return fake::answer(host, &tables, backend);
}
