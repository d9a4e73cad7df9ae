// one_defect.cpp - a backend that is wrong in one way (FAKE_CHOSEN, of one_defect.inc) or rightly says no. Loading it
// must end in a reason, never in a crash.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>

#include "fake_table.hpp"

namespace {

enum class Defect {
#define FAKE_DEFECT(name) name,
#include "one_defect.inc"
#undef FAKE_DEFECT
};

const std::string kLongName(2000, 'x');

const char *throw_in_config_name(const polyconv_kernel *, int32_t) {
  throw std::runtime_error("the fake cannot name its configs");
}

polyconv_status throw_in_probe(char *, size_t) {
  throw std::runtime_error("the fake cannot be probed");
}

polyconv_status say_unavailable(char *reason, size_t size) {
  std::snprintf(reason, size, "needs a machine that nobody has built yet");
  return POLYCONV_UNAVAILABLE;
}

void bend(Defect defect, fake::Tables *t) {
  polyconv_backend &backend = t->backend;
  switch (defect) {
    case Defect::short_table: backend.struct_size = offsetof(polyconv_backend, kernels); break;
    case Defect::short_kernel: t->kernel.struct_size = offsetof(polyconv_kernel, run); break;
    case Defect::huge_table: backend.struct_size = ~size_t{0}; break;
    case Defect::huge_kernel: t->kernel.struct_size = size_t{1} << (sizeof(size_t) > 4 ? 40 : 30); break;
    case Defect::many_kernels: backend.kernel_count = std::numeric_limits<int32_t>::max(); break;
    case Defect::many_configs: t->kernel.config_count = std::numeric_limits<int32_t>::max(); break;
    case Defect::null_entry: t->kernel.run = nullptr; break;
    case Defect::null_name: backend.name = nullptr; break;
    case Defect::null_probe: backend.probe = nullptr; break;
    case Defect::null_kind: backend.device_kind = nullptr; break;
    case Defect::null_kernels: backend.kernels = nullptr; break;
    case Defect::null_kernel: t->kernels[0] = nullptr; break;
    case Defect::no_kernels: backend.kernel_count = 0; break;
    case Defect::nameless_kernel: t->kernel.name = nullptr; break;
    case Defect::long_kernel:
      t->kernel.name = kLongName.c_str();
      t->kernel.run = nullptr; // the reason must not be lost behind a name that fills it
      break;
    case Defect::long_config:
      t->kernel.config_name = [](const polyconv_kernel *, int32_t) { return kLongName.c_str(); };
      break;
    case Defect::nameless_config:
      t->kernel.config_name = [](const polyconv_kernel *, int32_t) -> const char * { return nullptr; };
      break;
    case Defect::long_version: t->kernel.version = kLongName.c_str(); break;
    case Defect::no_configs: t->kernel.config_count = 0; break;
    case Defect::same_kernels: backend.kernel_count = 2; break;
    case Defect::wrong_name: backend.name = "somebody-else"; break;
    case Defect::throws_in_probe: backend.probe = throw_in_probe; break;
    case Defect::throws_in_config_name: t->kernel.config_name = throw_in_config_name; break;
    case Defect::unavailable: backend.probe = say_unavailable; break;
    case Defect::no_table:
    case Defect::throws_in_query:
    case Defect::refuses_host:
    case Defect::refuses_silently: break; // the query's own
  }
}

} // namespace

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  constexpr Defect chosen = Defect::FAKE_CHOSEN;
  polyconv::sdk::host = host;
  if (chosen == Defect::throws_in_query) throw std::runtime_error("the fake cannot be queried");
  if (chosen == Defect::refuses_silently) return POLYCONV_UNAVAILABLE;
  if (chosen == Defect::refuses_host) {
    host->set_error("needs a library of plug-in ABI 1.99 or newer");
    return POLYCONV_UNAVAILABLE;
  }
  if (chosen == Defect::no_table) return POLYCONV_SUCCESS;
  static fake::Tables tables = fake::make_tables(FAKE_NAME);
  tables.kernels[0] = tables.kernels[1] = &tables.kernel;
  tables.backend.kernels = tables.kernels;
  bend(chosen, &tables);
  *backend = &tables.backend;
  return POLYCONV_SUCCESS;
}
