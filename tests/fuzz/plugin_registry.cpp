// plugin_registry.cpp - stands where lib/registry/registry.cpp stands in the library: it lists the plug-in of the
// present input and no other. The library's own keeps whatever it has loaded for ever, which no fuzz target can afford.
// SPDX-License-Identifier: Apache-2.0
#include "plugin_registry.hpp"

#include "base/status.hpp"

namespace polyconv_fuzz {

const polyconv::Backend *listed = nullptr;

} // namespace polyconv_fuzz

namespace polyconv {

std::vector<const Backend *> backends() {
  if (polyconv_fuzz::listed == nullptr) return {};
  return {polyconv_fuzz::listed};
}

std::shared_ptr<const KernelList> kernels_for(const std::string &device_kind) {
  auto kernels = std::make_shared<KernelList>();
  for (const Backend *backend : backends()) {
    if (!backend->available || backend->device_kind != device_kind) continue;
    for (size_t i = 0; i < backend->kernel_names.size(); ++i)
      kernels->push_back({backend, backend->table->kernels[i], backend->kernel_names[i]});
  }
  return kernels;
}

void load_backend(const std::string &path) {
  throw failure(POLYCONV_UNAVAILABLE, "path is '%s', but the fuzz target loads no files", path.c_str());
}

} // namespace polyconv
