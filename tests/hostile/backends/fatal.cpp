// fatal.cpp - a backend whose probe does not come back: it crashes, ends the process or hangs, as FAKE_FATE says. None
// can be survived in the process; `polyconv-bench info` must find out in another one.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "../../fake_backends/fake_table.hpp"

namespace {

enum class Fate { crashes, exits, hangs };

polyconv_status probe(char *, size_t) {
  constexpr Fate fate = Fate::FAKE_FATE;
  if (fate == Fate::crashes) std::abort(); // not SIGSEGV, which a sanitizer would turn into an exit
  if (fate == Fate::exits) std::_Exit(3);
  for (volatile bool forever = true; forever;) {
  }
  return POLYCONV_SUCCESS;
}

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  static fake::Tables tables = fake::make_tables(FAKE_NAME);
  tables.backend.probe = probe;
  return fake::answer(host, &tables, backend);
}
