// versions.cpp - the good fake, whose kernels say which version they are: `direct` the same in every build, `negated`
// that of this one. good.cpp is compiled with its entry called good_query.
// SPDX-License-Identifier: Apache-2.0
#undef polyconv_backend_query_v1
#include <polyconv/sdk/backend.hpp>

#include <cstddef>
#include <cstring>

extern "C" polyconv_status good_query(const polyconv_host *host, const polyconv_backend **backend);

extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend);
extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *host,
                                                                             const polyconv_backend **backend) {
  const polyconv_status status = good_query(host, backend);
  if (status != POLYCONV_SUCCESS) return status;
  for (int32_t i = 0; i < (*backend)->kernel_count; ++i) {
    auto *kernel = const_cast<polyconv_kernel *>((*backend)->kernels[i]); // made by the SDK, constant for others
    kernel->version = std::strcmp(kernel->name, "direct") == 0 ? "steady" : FAKE_VERSION;
    if (std::strcmp(FAKE_VERSION, "older") == 0) kernel->struct_size = offsetof(polyconv_kernel, version);
  }
  return status;
}
