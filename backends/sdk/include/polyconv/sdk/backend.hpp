// backend.hpp - turns C++ kernels into the C tables of backend.h: included once in a backend, by the file that
// says POLYCONV_DEFINE_BACKEND. Versions are stamped here, not by the author.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/kernel_version.hpp>

#include <cstring>
#include <new>
#include <vector>

namespace polyconv::sdk {

// The library's side of the ABI; set before anything else runs.
inline const polyconv_host *host = nullptr;

// Asked before every kernel's supports where it is set (Backend::serves).
inline bool (*serves)(const polyconv_request &request, Offer &offer) = nullptr;

namespace detail {

struct TableEntry : polyconv_kernel {
  const Kernel *kernel;
};

inline const Kernel &kernel_of(const polyconv_kernel *self) {
  return *static_cast<const TableEntry *>(self)->kernel;
}

// Runs `body`; a C++ exception becomes a status here and goes no further.
template <class Body>
polyconv_status guarded(Body &&body) noexcept {
  try {
    body();
    return POLYCONV_SUCCESS;
  } catch (const Error &error) {
    host->set_error(error.what());
    return error.status();
  } catch (const std::bad_alloc &) {
    host->set_error("out of host memory");
    return POLYCONV_OUT_OF_MEMORY;
  } catch (const std::exception &error) {
    host->set_error(error.what());
    return POLYCONV_INTERNAL;
  } catch (...) {
    host->set_error("a backend threw something that is no std::exception");
    return POLYCONV_INTERNAL;
  }
}

// The version that the build has given a kernel; NULL where it has given none.
inline const char *version_of([[maybe_unused]] const char *kernel) {
#ifdef POLYCONV_KERNEL_VERSIONS // the generated list is linked in
  for (const KernelVersion *one = kernel_versions; one->kernel != nullptr; ++one)
    if (std::strcmp(one->kernel, kernel) == 0) return one->version;
#endif
  return nullptr;
}

inline const char *config_name(const polyconv_kernel *self, int32_t config) {
  const Kernel &kernel = kernel_of(self);
  return config >= 0 && config < kernel.config_count ? kernel.configs[config] : nullptr;
}

// The request of an older library, whose layers end sooner, as one of today's: what they lack is neutral. `ask` is
// given it; a request of today's is passed on as it is.
template <class Ask>
polyconv_status with_whole_layers(const polyconv_request &request, const Ask &ask) {
  polyconv_layer layers[POLYCONV_MAX_CHAIN];
  const polyconv_layer *pointers[POLYCONV_MAX_CHAIN];
  for (int i = 0; i < request.count; ++i) {
    layers[i] = {};
    for (int64_t &dilation : layers[i].pool_dilation) dilation = 1;
    std::memcpy(&layers[i], request.layers[i], request.layers[i]->struct_size);
    layers[i].struct_size = sizeof layers[i];
    pointers[i] = &layers[i];
  }
  polyconv_request whole = request;
  whole.layers = pointers;
  return ask(whole);
}

inline bool has_short_layers(const polyconv_request &request) {
  return request.layers != nullptr && request.count > 0 && request.count <= POLYCONV_MAX_CHAIN &&
         request.layers[0]->struct_size < sizeof(polyconv_layer);
}

inline polyconv_status supports(const polyconv_kernel *self, const polyconv_request *request, int32_t config,
                                polyconv_offer *offer) {
  if (has_short_layers(*request))
    return with_whole_layers(*request,
                             [&](const polyconv_request &whole) { return supports(self, &whole, config, offer); });
  if (offer->struct_size < sizeof *offer) { // an older library's, too short for all that a kernel may say
    polyconv_offer whole = {};
    whole.struct_size = sizeof whole;
    const polyconv_status status = supports(self, request, config, &whole);
    whole.struct_size = offer->struct_size;
    std::memcpy(offer, &whole, offer->struct_size);
    return status;
  }
  const Kernel &kernel = kernel_of(self);
  auto &answer = static_cast<Offer &>(*offer);
  answer.config = config < 0 ? 0 : config;
  for (int layer = 0; layer < request->count; ++layer) answer.set_weights(layer, POLYCONV_FORMAT_RAW, 0);
  bool yes = false;
  const polyconv_status status = guarded(
      [&] { yes = (serves == nullptr || serves(*request, answer)) && kernel.supports(*request, config, answer); });
  return status != POLYCONV_SUCCESS ? status : yes ? POLYCONV_SUCCESS : POLYCONV_UNSUPPORTED;
}

inline polyconv_status create(const polyconv_kernel *self, const polyconv_request *request, int32_t config,
                              void **instance) {
  if (has_short_layers(*request))
    return with_whole_layers(*request,
                             [&](const polyconv_request &whole) { return create(self, &whole, config, instance); });
  return guarded([&] { *instance = kernel_of(self).create(*request, config).release(); });
}

inline void destroy(const polyconv_kernel *, void *instance) {
  delete static_cast<Instance *>(instance);
}

inline polyconv_status pack(const polyconv_kernel *, void *instance, int32_t layer, const void *raw, void *packed,
                            void *stream) {
  return guarded([&] { static_cast<Instance *>(instance)->pack(layer, raw, packed, stream); });
}

inline polyconv_status bind(const polyconv_kernel *, void *instance, const polyconv_arguments *arguments,
                            void **bound) {
  return guarded([&] { *bound = static_cast<Instance *>(instance)->bind(*arguments); });
}

inline void unbind(const polyconv_kernel *, void *instance, void *bound) {
  guarded([&] { static_cast<Instance *>(instance)->unbind(bound); });
}

inline polyconv_status run(const polyconv_kernel *, void *instance, const polyconv_arguments *arguments, void *stream) {
  return guarded([&] { static_cast<const Instance *>(instance)->run(*arguments, stream); });
}

inline int64_t workspace(const polyconv_kernel *, const void *instance) {
  return static_cast<const Instance *>(instance)->workspace_bytes();
}

} // namespace detail

// Everything an author says of a backend.
struct Backend {
  const char *name;
  const char *version;
  const char *device_kind;
  std::vector<const Kernel *> kernels;
  polyconv_status (*probe)(char *reason, size_t size);
  const polyconv_device_table *device = nullptr; // NULL for "cpu"
  uint32_t flags = 0;
  // For what holds for every kernel on a device and is learnt late: false, with the reason, rejects whatever is asked.
  bool (*serves)(const polyconv_request &request, Offer &offer) = nullptr;
};

// The C table of a backend; built once, kept for ever.
inline const polyconv_backend *make_table(const Backend &backend) {
  struct Table : polyconv_backend {
    std::vector<detail::TableEntry> entries;
    std::vector<const polyconv_kernel *> pointers;
  };
  auto *table = new Table{};
  serves = backend.serves;
  table->entries.reserve(backend.kernels.size());
  for (const Kernel *kernel : backend.kernels) {
    detail::TableEntry entry{};
    entry.struct_size = sizeof(polyconv_kernel);
    entry.name = kernel->name;
    entry.flags = kernel->flags;
    entry.config_count = kernel->config_count;
    entry.config_name = detail::config_name;
    entry.supports = detail::supports;
    entry.create = detail::create;
    entry.destroy = detail::destroy;
    entry.pack = detail::pack;
    entry.bind = detail::bind;
    entry.unbind = detail::unbind;
    entry.run = detail::run;
    entry.workspace = detail::workspace;
    entry.takes = kernel->takes;
    entry.version = detail::version_of(kernel->name);
    entry.kernel = kernel;
    table->entries.push_back(entry);
    table->pointers.push_back(&table->entries.back());
  }
  table->struct_size = sizeof(polyconv_backend);
  table->abi_minor = POLYCONV_BACKEND_ABI_MINOR;
  table->flags = backend.flags;
  table->name = backend.name;
  table->version = backend.version;
  table->device_kind = backend.device_kind;
  table->probe = backend.probe;
  table->device = backend.device;
  table->kernel_count = static_cast<int32_t>(table->pointers.size());
  table->kernels = table->pointers.data();
  return table;
}

} // namespace polyconv::sdk

#if defined(_WIN32)
#define POLYCONV_BACKEND_EXPORT __declspec(dllexport)
#else
#define POLYCONV_BACKEND_EXPORT __attribute__((visibility("default")))
#endif

// The entry symbol; `...` is a polyconv::sdk::Backend.
#define POLYCONV_DEFINE_BACKEND(...)                                                                               \
  extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *given,         \
                                                                               const polyconv_backend **backend);  \
  extern "C" POLYCONV_BACKEND_EXPORT polyconv_status polyconv_backend_query_v1(const polyconv_host *given,         \
                                                                               const polyconv_backend **backend) { \
    polyconv::sdk::host = given;                                                                                   \
    return polyconv::sdk::detail::guarded([&] {                                                                    \
      static const polyconv_backend *const table = polyconv::sdk::make_table(__VA_ARGS__);                         \
      *backend = table;                                                                                            \
    });                                                                                                            \
  }
