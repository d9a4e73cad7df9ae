// library.hpp - cuDNN's graph API as a table of functions, found at run time: nothing links cuDNN, so that the plug-in
// loads everywhere and says why it cannot serve.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn_graph.h>

#include <string>

namespace polyconv::cudnn {

struct Library {
  decltype(&cudnnGetVersion) get_version;
  decltype(&cudnnGetCudartVersion) get_cudart_version;
  decltype(&cudnnGetErrorString) get_error_string;
  decltype(&cudnnGetLastErrorString) get_last_error_string;
  decltype(&cudnnCreate) create;
  decltype(&cudnnDestroy) destroy;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnBackendCreateDescriptor) create_descriptor;
  decltype(&cudnnBackendDestroyDescriptor) destroy_descriptor;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

// NULL where libcudnn.so.9 is missing or too old; `why` (may be NULL) then holds the reason. Looked for once, where the
// system's loader looks: its folders, and those of LD_LIBRARY_PATH in programs that are not privileged.
const Library *find_library(std::string *why);

// For use once a probe has found it.
inline const Library &library() {
  return *find_library(nullptr);
}

// Throws sdk::Error where a call failed; `what` says what was tried ("finalising the operation graph").
void check(cudnnStatus_t status, const char *what);

} // namespace polyconv::cudnn
