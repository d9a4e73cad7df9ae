// backend.cpp - the extern "C" wall of backends: loading one, and listing what was found.
// SPDX-License-Identifier: Apache-2.0
#include "base/sized.hpp"
#include "base/status.hpp"
#include "registry/host.hpp"
#include "registry/registry.hpp"

namespace polyconv {
namespace {

constexpr size_t kFirstInfoSize = offsetof(polyconv_backend_info, abi_minor) + sizeof(int32_t);

// Backend `index` in the order of names, or NULL. A backend lives for ever, so what it holds may be handed out.
const Backend *backend_at(int32_t index) {
  const std::vector<const Backend *> all = backends();
  return index >= 0 && static_cast<size_t>(index) < all.size() ? all[static_cast<size_t>(index)] : nullptr;
}

bool has_kernel(const Backend *backend, int32_t kernel) {
  return backend != nullptr && kernel >= 0 && static_cast<size_t>(kernel) < backend->kernel_names.size();
}

} // namespace
} // namespace polyconv

using namespace polyconv;

extern "C" {

polyconv_status polyconv_backend_load(const char *path) {
  return guarded([&] {
    if (path == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "path is NULL, expected an absolute path");
    load_backend(path);
  });
}

int32_t polyconv_backend_count(void) {
  int32_t count = 0;
  guarded([&] { count = static_cast<int32_t>(backends().size()); });
  return count;
}

polyconv_status polyconv_backend_get(int32_t index, polyconv_backend_info *info) {
  return guarded([&] {
    const Backend *backend = backend_at(index);
    if (backend == nullptr) {
      throw failure(POLYCONV_INVALID_ARGUMENT, "index is %d, expected 0 to polyconv_backend_count() - 1 = %d",
                    static_cast<int>(index), static_cast<int>(polyconv_backend_count()) - 1);
    }
    polyconv_backend_info filled{};
    filled.name = backend->name.c_str();
    filled.version = backend->version.c_str();
    filled.path = backend->path.c_str();
    filled.device_kind = backend->device_kind.c_str();
    filled.reason = backend->reason.c_str();
    filled.available = backend->available ? 1 : 0;
    filled.kernel_count = static_cast<int32_t>(backend->kernel_names.size());
    filled.abi_minor = backend->table != nullptr ? static_cast<int32_t>(backend->table->abi_minor) : 0;
    fill_sized(info, filled, kFirstInfoSize, "info");
  });
}

const char *polyconv_backend_kernel(int32_t index, int32_t kernel) {
  const char *name = nullptr;
  guarded([&] {
    const Backend *backend = backend_at(index);
    if (has_kernel(backend, kernel)) name = backend->kernel_names[static_cast<size_t>(kernel)].c_str();
  });
  return name;
}

const char *polyconv_backend_config(int32_t index, int32_t kernel, int32_t config) {
  const char *name = nullptr;
  guarded([&] {
    const Backend *backend = backend_at(index);
    if (!has_kernel(backend, kernel)) return;
    const polyconv_kernel &entry = *backend->table->kernels[kernel];
    if (config < 0 || config >= entry.config_count) return;
    const polyconv_status status = ask_backend(backend->name.c_str(), "config_name", [&] {
      name = entry.config_name(&entry, config);
      return POLYCONV_SUCCESS;
    });
    if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  });
  return name;
}

} // extern "C"
