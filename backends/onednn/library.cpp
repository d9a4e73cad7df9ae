// library.cpp - see library.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

#include <cstdlib>
#include <memory>
#include <polyconv/sdk/kernel.hpp>
#include "vendor/library.hpp"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

namespace polyconv::onednn {
namespace {

constexpr const char *kFile = "libdnnl.so.3";

std::string in_folder(const std::string &folder) {
  std::string file = folder + "/" + kFile;
  return access(file.c_str(), R_OK) == 0 ? file : "";
}

// The first of the folders that the system's loader searches on behalf of this plug-in.
std::string where_the_loader_looks() {
  static const char here = 0;
  Dl_info self = {};
  if (dladdr(&here, &self) == 0) return "";
  void *const plug_in = dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  Dl_serinfo size = {};
  if (plug_in == nullptr || dlinfo(plug_in, RTLD_DI_SERINFOSIZE, &size) != 0) return "";
  const std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(1, size.dls_size), &std::free);
  auto *const folders = static_cast<Dl_serinfo *>(memory.get());
  if (folders == nullptr) return "";
  folders->dls_size = size.dls_size;
  folders->dls_cnt = size.dls_cnt;
  if (dlinfo(plug_in, RTLD_DI_SERINFO, folders) != 0) return "";
  for (unsigned i = 0; i < folders->dls_cnt; ++i) {
    std::string file = in_folder(folders->dls_serpath[i].dls_name);
    if (!file.empty()) return file;
  }
  return "";
}

vendor::Table<Library> open() {
  vendor::Table<Library> found;
  const std::string path = library_file();
  vendor::Library file(path.empty() ? kFile : path, kFile, "oneDNN 3");
  Library &t = found.table;
#define POLYCONV_ONEDNN_RESOLVE(name) file.resolve("dnnl_" #name, &t.name);
  POLYCONV_ONEDNN_FUNCTIONS(POLYCONV_ONEDNN_RESOLVE)
#undef POLYCONV_ONEDNN_RESOLVE
  found.why = file.why();
  if (!found.why.empty()) return found;
  file.resolve("omp_get_max_threads", &t.omp_get_max_threads); // of its dependency
  file.resolve("omp_set_num_threads", &t.omp_set_num_threads);
  if (t.version()->cpu_runtime != DNNL_RUNTIME_OMP || !file.why().empty()) {
    found.why = "this oneDNN " + t.version_text() +
                " was not built for OpenMP (ONEDNN_CPU_RUNTIME=OMP), so a plan cannot say how many threads it runs on";
  } else if (t.engine_create(&t.engine, dnnl_cpu, 0) != dnnl_success) {
    found.why = "oneDNN " + t.version_text() + " makes no engine for the CPU";
  }
  return found;
}

} // namespace

std::string Library::version_text() const {
  const dnnl_version_t &v = *version();
  return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
}

std::string library_file() {
  const char *const root = secure_getenv("ONEDNN_ROOT");
  const std::string file = root != nullptr ? in_folder(std::string(root) + "/lib") : "";
  return !file.empty() ? file : where_the_loader_looks();
}

const Library *find_library(std::string *why) {
  static const auto *const found = new auto(open()); // for ever: plans may go after the statics of others
  return found->get(why);
}

void check(dnnl_status_t status, const char *what) {
  if (status == dnnl_success) return;
  const bool unsupported = status == dnnl_unimplemented || status == dnnl_invalid_arguments;
  throw sdk::Error(unsupported                    ? POLYCONV_UNSUPPORTED
                   : status == dnnl_out_of_memory ? POLYCONV_OUT_OF_MEMORY
                                                  : POLYCONV_DEVICE_ERROR,
                   std::string("oneDNN: ") + what + ": " +
                       (status == dnnl_unimplemented       ? "it has no implementation"
                        : status == dnnl_invalid_arguments ? "it refuses the arguments"
                        : status == dnnl_out_of_memory     ? "out of memory"
                                                           : "it failed"));
}

} // namespace polyconv::onednn
