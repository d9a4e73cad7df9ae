// registry.hpp - what was found on this machine: backends, their kernels, devices. Filled by the loader at first
// need, grown by polyconv_backend_load, never shrunk; everything handed out stays valid for ever.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <memory>
#include <string>
#include <vector>

namespace polyconv {

struct Backend {
  std::string name;
  std::string version;
  std::string path;
  std::string device_kind;
  std::string reason; // why not available, or a note
  bool available = false;
  bool on_request = false;                 // only where options.kernel names it
  bool is_reference = false;               // whose kernels are all fallbacks
  const polyconv_backend *table = nullptr; // NULL where it did not get so far; else vetted: no entry is missing
  std::vector<std::string> kernel_names;   // full names without config, in the table's order
};

// One kernel of one available backend.
struct KernelEntry {
  const Backend *backend;
  const polyconv_kernel *kernel;
  std::string full_name; // "openmp/gemm", without config
};

// All kernels that serve one kind of device, in the order that breaks ties: threads, openmp, tbb, other backends by
// name, reference last; inside a backend its own order. Immutable once handed out.
using KernelList = std::vector<KernelEntry>;

// The backends by name, available or not. A snapshot.
std::vector<const Backend *> backends();

// The kernels serving a device kind now. A snapshot that later loads do not change.
std::shared_ptr<const KernelList> kernels_for(const std::string &device_kind);

// Loads one backend by path (polyconv_backend_load). Throws Failure.
void load_backend(const std::string &path);

} // namespace polyconv
