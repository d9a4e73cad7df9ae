// library.cpp - see library.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <polyconv/sdk/kernel.hpp>
#include "vendor/library.hpp"

namespace polyconv::cudnn {
namespace {

constexpr const char *kFile = "libcudnn.so.9";
constexpr size_t kOldest = 90000; // cudnnGetLastErrorString and the statuses that it explains

vendor::Table<Library> open() {
  vendor::Table<Library> found;
  vendor::Library file(kFile, kFile, "cuDNN 9");
  Library &t = found.table;
  file.resolve("cudnnGetVersion", &t.get_version);
  file.resolve("cudnnGetCudartVersion", &t.get_cudart_version);
  file.resolve("cudnnGetErrorString", &t.get_error_string);
  file.resolve("cudnnGetLastErrorString", &t.get_last_error_string);
  file.resolve("cudnnCreate", &t.create);
  file.resolve("cudnnDestroy", &t.destroy);
  file.resolve("cudnnSetStream", &t.set_stream);
  file.resolve("cudnnBackendCreateDescriptor", &t.create_descriptor);
  file.resolve("cudnnBackendDestroyDescriptor", &t.destroy_descriptor);
  file.resolve("cudnnBackendSetAttribute", &t.set_attribute);
  file.resolve("cudnnBackendGetAttribute", &t.get_attribute);
  file.resolve("cudnnBackendFinalize", &t.finalize);
  file.resolve("cudnnBackendExecute", &t.execute);
  found.why = file.why();
  if (found.why.empty() && t.get_version() < kOldest)
    found.why = "cuDNN " + std::to_string(t.get_version()) + " is older than " + std::to_string(kOldest);
  return found;
}

} // namespace

const Library *find_library(std::string *why) {
  static const auto *const found = new auto(open()); // for ever: plans may go after the statics of others
  return found->get(why);
}

void check(cudnnStatus_t status, const char *what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[256] = "";
  library().get_last_error_string(detail, sizeof detail);
  std::string sentence = std::string("cuDNN: ") + what + ": " + library().get_error_string(status);
  if (detail[0] != '\0') sentence += std::string(" (") + detail + ")";
  const bool unsupported = CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
                           CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM;
  throw sdk::Error(unsupported                                                    ? POLYCONV_UNSUPPORTED
                   : status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ? POLYCONV_OUT_OF_MEMORY
                                                                                  : POLYCONV_DEVICE_ERROR,
                   sentence);
}

} // namespace polyconv::cudnn
