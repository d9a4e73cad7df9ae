// library.cpp - see library.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <cstring>
#include <polyconv/sdk/kernel.hpp>

#include <dlfcn.h>

namespace polyconv::cudnn {
namespace {

constexpr const char *kFile = "libcudnn.so.9";
constexpr size_t kOldest = 90000; // cudnnGetLastErrorString and the statuses that it explains

struct Found {
  Library table = {};
  std::string why = "";
};

template <class Function>
void resolve(void *file, const char *name, Function *function, std::string *why) {
  void *const address = dlsym(file, name);
  if (address == nullptr && why->empty()) *why = std::string(kFile) + " has no " + name;
  std::memcpy(function, &address, sizeof address);
}

Found find() {
  Found found;
  void *const file = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    const char *const error = dlerror();
    found.why = std::string("no cuDNN 9: ") + (error != nullptr ? error : kFile);
    return found;
  }
  Library &t = found.table;
  resolve(file, "cudnnGetVersion", &t.get_version, &found.why);
  resolve(file, "cudnnGetCudartVersion", &t.get_cudart_version, &found.why);
  resolve(file, "cudnnGetErrorString", &t.get_error_string, &found.why);
  resolve(file, "cudnnGetLastErrorString", &t.get_last_error_string, &found.why);
  resolve(file, "cudnnCreate", &t.create, &found.why);
  resolve(file, "cudnnDestroy", &t.destroy, &found.why);
  resolve(file, "cudnnSetStream", &t.set_stream, &found.why);
  resolve(file, "cudnnBackendCreateDescriptor", &t.create_descriptor, &found.why);
  resolve(file, "cudnnBackendDestroyDescriptor", &t.destroy_descriptor, &found.why);
  resolve(file, "cudnnBackendSetAttribute", &t.set_attribute, &found.why);
  resolve(file, "cudnnBackendGetAttribute", &t.get_attribute, &found.why);
  resolve(file, "cudnnBackendFinalize", &t.finalize, &found.why);
  resolve(file, "cudnnBackendExecute", &t.execute, &found.why);
  if (found.why.empty() && t.get_version() < kOldest)
    found.why = "cuDNN " + std::to_string(t.get_version()) + " is older than " + std::to_string(kOldest);
  return found;
}

} // namespace

const Library *find_library(std::string *why) {
  static const Found *const found = new Found(find()); // for ever: plans may go after the statics of others
  if (found->why.empty()) return &found->table;
  if (why != nullptr) *why = found->why;
  return nullptr;
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
