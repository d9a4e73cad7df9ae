// fake_table.hpp - a backend's C tables by hand, complete and valid, for the fakes that then bend one entry.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/backend.hpp>

#include <cstdio>

// What each of them defines.
extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend);

namespace fake {

struct Tables {
  polyconv_kernel kernel;
  const polyconv_kernel *kernels[2];
  polyconv_backend backend;
};

inline polyconv_status says_no(const polyconv_kernel *, const polyconv_request *, int32_t, polyconv_offer *offer) {
  std::snprintf(offer->reason, sizeof offer->reason, "takes nothing at all");
  return POLYCONV_UNSUPPORTED;
}

// Never reached: the kernel accepts nothing.
inline polyconv_status internal() {
  polyconv::sdk::host->set_error("a fake kernel that takes nothing was called all the same");
  return POLYCONV_INTERNAL;
}

inline Tables make_tables(const char *name) {
  Tables t{};
  t.kernel.struct_size = sizeof t.kernel;
  t.kernel.name = "nothing";
  t.kernel.config_count = 1;
  t.kernel.config_name = [](const polyconv_kernel *, int32_t) { return "only"; };
  t.kernel.supports = says_no;
  t.kernel.create = [](const polyconv_kernel *, const polyconv_request *, int32_t, void **) { return internal(); };
  t.kernel.destroy = [](const polyconv_kernel *, void *) {};
  t.kernel.pack = [](const polyconv_kernel *, void *, int32_t, const void *, void *, void *) { return internal(); };
  t.kernel.run = [](const polyconv_kernel *, void *, const polyconv_arguments *, void *) { return internal(); };
  t.backend.struct_size = sizeof t.backend;
  t.backend.abi_minor = POLYCONV_BACKEND_ABI_MINOR;
  t.backend.name = name;
  t.backend.version = "0";
  t.backend.device_kind = "cpu";
  t.backend.probe = [](char *, size_t) { return static_cast<polyconv_status>(POLYCONV_SUCCESS); };
  t.backend.kernel_count = 1;
  return t;
}

// What the entry answers with one kernel; `tables` outlives the process.
inline polyconv_status answer(const polyconv_host *host, Tables *tables, const polyconv_backend **backend) {
  polyconv::sdk::host = host;
  tables->kernels[0] = &tables->kernel;
  tables->backend.kernels = tables->kernels;
  *backend = &tables->backend;
  return POLYCONV_SUCCESS;
}

} // namespace fake
