// backend.cpp - the onednn backend: Intel's library for those who have it and ask for it by name, and the yardstick
// that our own CPU kernels are measured with.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <polyconv/sdk/backend.hpp>

#include "library.hpp"

namespace polyconv::onednn {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "kernels.inc"
#undef POLYCONV_KERNEL

namespace {

// Every program waits for this, so the library is only looked for.
polyconv_status probe(char *reason, size_t size) {
  const std::string file = library_file();
  std::snprintf(reason, size, "%s",
                file.empty() ? "no oneDNN 3: libdnnl.so.3 is neither in the lib of ONEDNN_ROOT nor "
                               "in the folders of the system's loader"
                             : file.c_str());
  return file.empty() ? POLYCONV_UNAVAILABLE : POLYCONV_SUCCESS;
}

// It is opened when a kernel is first asked about a problem.
bool serves(const polyconv_request &, sdk::Offer &offer) {
  std::string why;
  return find_library(&why) != nullptr || offer.reject("%s", why.c_str());
}

sdk::Backend plug_in() {
  return {"onednn",
          POLYCONV_BACKEND_VERSION,
          "cpu",
          {
#define POLYCONV_KERNEL(name) &kernel_##name,
#include "kernels.inc"
#undef POLYCONV_KERNEL
          },
          probe,
          nullptr,
          POLYCONV_BACKEND_ON_REQUEST,
          serves};
}

} // namespace
} // namespace polyconv::onednn

POLYCONV_DEFINE_BACKEND(polyconv::onednn::plug_in())
