// loader.hpp - from folders to vetted backend tables: where to look, and what a shared library must answer before
// anybody calls it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace polyconv {

// The backend that a file claims to hold, by its name alone: "cuda-direct" for ".../libpolyconv_cuda_direct.so"; ""
// where no backend can be called so.
std::string backend_name_of_file(const std::string &path);

// The files that the search finds, in search order (registry/search.cpp): POLYCONV_BACKEND_PATH, the library's own
// folder +
// "/polyconv", the install folder; of several with one name the first. Never the current folder.
std::vector<std::string> find_backend_files();

// A backend that is listed as unavailable without a look at its file.
std::unique_ptr<Backend> leave_out(const std::string &path, const char *reason);

// A backend that is linked into the library (a static build): its name and its entry.
struct BuiltIn {
  const char *name;
  polyconv_backend_query query;
};
const std::vector<BuiltIn> &built_in_backends();
std::string path_of(const BuiltIn &built_in); // what stands for its file's: "built in: openmp"
std::unique_ptr<Backend> open_built_in(const BuiltIn &built_in);

// Opens a file and negotiates (registry/loader.cpp). Whatever goes wrong is the reason of an unavailable backend; this
// throws only when memory runs out (std::bad_alloc or Failure), also the backend's, and leaves the thread's last error
// alone.
std::unique_ptr<Backend> open_backend(const std::string &path);

} // namespace polyconv
