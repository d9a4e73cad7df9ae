// loader.cpp - one shared library becomes a backend or a reason why not. Nothing in its table is used before the
// table's own size says that it is there, and everything that the rest of the library calls is checked here, once.
// SPDX-License-Identifier: Apache-2.0
#include "registry/loader.hpp"

#include "os/log.hpp"
#include "os/os.hpp"
#include "registry/host.hpp"

#include <polyconv/sdk/printf.hpp>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <set>

namespace polyconv {
namespace {

// The bytes of the first version of a table, up to and including its last field. Later versions are longer; a shorter
// one was never published.
constexpr size_t kFirstBackendSize = offsetof(polyconv_backend, kernels) + sizeof(polyconv_backend::kernels);
constexpr size_t kFirstKernelSize = offsetof(polyconv_kernel, run) + sizeof(polyconv_kernel::run);
constexpr size_t kMaximumGrowth = 4096;    // a table that is longer by more is no newer one but damaged,
constexpr int32_t kMaximumKernels = 4096;  // as is one with more
constexpr int32_t kMaximumConfigs = 65536; // of either
constexpr size_t kMaximumName = 128; // characters: sentences have room for a full name and for what they say of it

// The reason of an unavailable backend, thrown from wherever it shows.
[[noreturn]] POLYCONV_PRINTF(1, 2) void reject(const char *format, ...) {
  char reason[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  throw Failure(POLYCONV_UNAVAILABLE, reason);
}

// A function of the backend failed: its own sentence is the reason. Running out of memory is no reason: it will pass.
void require_success(polyconv_status status) {
  if (status == POLYCONV_OUT_OF_MEMORY) throw Failure(status, last_error());
  if (status != POLYCONV_SUCCESS) reject("%s", last_error());
}

bool is_word(const char *text, const char *punctuation) {
  if (text == nullptr || text[0] == '\0' || std::strlen(text) > kMaximumName) return false;
  return std::all_of(text, text + std::strlen(text), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || std::strchr(punctuation, c) != nullptr;
  });
}

// A name as a sentence shows it: the beginning of one that is too long, so that there is room for what is expected.
std::string shown(const char *name) {
  if (name == nullptr) return "NULL";
  return std::strlen(name) <= kMaximumName ? name : std::string(name, kMaximumName) + "...";
}

// The entry symbol of that very file: the system would also take it from a library that the file depends on.
polyconv_backend_query find_entry(const std::string &path) {
  std::string reason;
  void *library = os::open_library(path, &reason);
  // The dynamic linker tells in many words that memory ran out for a moment, "No such file" among them: what is really
  // wrong is wrong twice.
  if (library == nullptr) library = os::open_library(path, &reason);
  if (library == nullptr) reject("does not load: %s", reason.c_str());
  const os::Symbol entry = os::find_symbol(library, POLYCONV_BACKEND_ENTRY);
  if (entry.address == nullptr) {
    for (const char *newer : {"polyconv_backend_query_v2", "polyconv_backend_query_v3"}) {
      if (os::find_symbol(library, newer).address != nullptr) {
        reject("speaks a newer plug-in ABI (it exports %s, this library asks for %s): update polyconv", newer,
               POLYCONV_BACKEND_ENTRY);
      }
    }
    reject("exports no %s: it is no polyconv backend", POLYCONV_BACKEND_ENTRY);
  }
  if (!os::same_file(entry.file, path)) {
    reject("exports no %s of its own: the symbol comes from '%s', which it depends on", POLYCONV_BACKEND_ENTRY,
           entry.file.c_str());
  }
  return reinterpret_cast<polyconv_backend_query>(entry.address);
}

// Every config must have a name: full names are built from them.
void vet_configs(const polyconv_kernel &kernel) {
  if (kernel.config_count < 1 || kernel.config_count > kMaximumConfigs) {
    reject("kernel '%s' has config_count %d, expected 1 to %d", kernel.name, static_cast<int>(kernel.config_count),
           static_cast<int>(kMaximumConfigs));
  }
  for (int32_t config = 0; config < kernel.config_count; ++config) {
    const char *name = nullptr;
    require_success(ask_backend(kernel.name, "config_name", [&] {
      name = kernel.config_name(&kernel, config);
      return POLYCONV_SUCCESS;
    }));
    if (name == nullptr || name[0] == '\0') {
      reject("kernel '%s' has no name for its config %d", kernel.name, static_cast<int>(config));
    }
    if (std::strlen(name) > kMaximumName) {
      reject("kernel '%s' has a name of %zu characters for its config %d, expected at most %zu", kernel.name,
             std::strlen(name), static_cast<int>(config), kMaximumName);
    }
  }
}

void vet_version(const polyconv_kernel &kernel) {
  if (kernel.struct_size < offsetof(polyconv_kernel, version) + sizeof kernel.version) return;
  if (kernel.version != nullptr && std::strlen(kernel.version) > kMaximumName) {
    reject("kernel '%s' has a version of %zu characters, expected at most %zu", kernel.name,
           std::strlen(kernel.version), kMaximumName);
  }
}

void vet_kernel(const polyconv_kernel *kernel, int32_t index) {
  const int number = static_cast<int>(index);
  if (kernel == nullptr) reject("kernel %d of its table is NULL", number);
  if (kernel->struct_size < kFirstKernelSize) {
    reject("the table of kernel %d has %zu bytes, expected at least %zu", number, kernel->struct_size,
           kFirstKernelSize);
  }
  if (kernel->struct_size > sizeof *kernel + kMaximumGrowth)
    reject("the table of kernel %d claims %zu bytes, expected about %zu", number, kernel->struct_size, sizeof *kernel);
  if (!is_word(kernel->name, "_")) {
    reject("kernel %d is called '%s', expected a name of at most %zu a-z, 0-9 and _", number,
           shown(kernel->name).c_str(), kMaximumName);
  }
  const struct {
    const char *name;
    bool missing;
  } functions[] = {
      {"config_name", kernel->config_name == nullptr},
      {"supports", kernel->supports == nullptr},
      {"create", kernel->create == nullptr},
      {"destroy", kernel->destroy == nullptr},
      {"pack", kernel->pack == nullptr},
      {"run", kernel->run == nullptr},
      {"unbind", kernel->bind != nullptr && kernel->unbind == nullptr},
  };
  for (const auto &function : functions) {
    if (function.missing) reject("kernel '%s' has no %s (NULL in its table)", kernel->name, function.name);
  }
  vet_configs(*kernel);
  vet_version(*kernel);
}

void vet_kernels(const polyconv_backend &table) {
  if (table.kernel_count < 1) reject("offers %d kernels, expected at least 1", static_cast<int>(table.kernel_count));
  if (table.kernel_count > kMaximumKernels) {
    reject("claims %d kernels, expected at most %d", static_cast<int>(table.kernel_count),
           static_cast<int>(kMaximumKernels));
  }
  if (table.kernels == nullptr) reject("has no kernels (NULL in its table)");
  std::set<std::string> names;
  for (int32_t i = 0; i < table.kernel_count; ++i) {
    vet_kernel(table.kernels[i], i);
    if (!names.insert(table.kernels[i]->name).second) {
      reject("has two kernels called '%s', expected unique names", table.kernels[i]->name);
    }
  }
}

// The table as a whole, before its kernels: size first, then what that size covers.
void vet_table(const polyconv_backend *table, const std::string &expected_name) {
  if (table == nullptr) reject("answered the query with success but no table");
  if (table->struct_size < kFirstBackendSize) {
    reject("its table has %zu bytes, expected at least %zu: it was built with a different plug-in ABI",
           table->struct_size, kFirstBackendSize);
  }
  if (table->struct_size > sizeof *table + kMaximumGrowth)
    reject("its table claims %zu bytes, expected about %zu", table->struct_size, sizeof *table);
  if (table->name == nullptr) reject("has no name (NULL in its table)");
  if (expected_name != table->name) {
    reject("calls itself '%s', expected '%s' after its file's name", shown(table->name).c_str(), expected_name.c_str());
  }
  if (!is_word(table->device_kind, "_-")) {
    reject("serves devices of kind '%s', expected a name of at most %zu a-z, 0-9, _ and -",
           shown(table->device_kind).c_str(), kMaximumName);
  }
  if (table->probe == nullptr) reject("has no probe (NULL in its table)");
  vet_kernels(*table);
}

// Negotiates: the host's table goes in, the backend's comes out, and only then is it asked whether it can serve.
void negotiate(Backend *backend, polyconv_backend_query query) {
  const std::string who = "backend '" + backend->name + "'";
  const polyconv_backend *table = nullptr;
  require_success(ask_backend(who.c_str(), "query", [&] { return query(&host_table, &table); }));
  vet_table(table, backend->name);
  backend->table = table;
  backend->version = table->version != nullptr ? table->version : "";
  backend->device_kind = table->device_kind;
  backend->is_reference = backend->name == "reference";
  backend->on_request = (table->flags & POLYCONV_BACKEND_ON_REQUEST) != 0;
  for (int32_t i = 0; i < table->kernel_count; ++i) {
    backend->kernel_names.push_back(backend->name + "/" + table->kernels[i]->name);
  }

  char note[POLYCONV_REASON_SIZE] = "";
  const polyconv_status status = ask_backend(who.c_str(), "probe", [&] { return table->probe(note, sizeof note); });
  note[sizeof note - 1] = '\0';
  if (status == POLYCONV_OUT_OF_MEMORY) require_success(status);
  if (status != POLYCONV_SUCCESS) reject("%s", note[0] != '\0' && status == POLYCONV_UNAVAILABLE ? note : last_error());
  backend->reason = note;
  backend->available = true;
}

// `find` gives the entry, or throws the reason why there is none.
template <class Find>
std::unique_ptr<Backend> open_as(const std::string &name, const std::string &path, Find find) {
  const KeepLastError keep;
  auto backend = std::make_unique<Backend>();
  backend->path = path;
  backend->name = name;
  log(POLYCONV_LOG_DEBUG, "backend '%s' is being opened (%s)", backend->name.c_str(), path.c_str());
  try {
    negotiate(backend.get(), find());
    log(POLYCONV_LOG_INFO, "backend '%s' %s is available%s%s (%s)", backend->name.c_str(), backend->version.c_str(),
        backend->reason.empty() ? "" : ": ", backend->reason.c_str(), path.c_str());
  } catch (const Failure &rejected) {
    if (rejected.status() == POLYCONV_OUT_OF_MEMORY) throw; // another time it will load: it is not listed as missing
    backend->reason = rejected.what();
    log(POLYCONV_LOG_INFO, "backend '%s' is not available: %s (%s)", backend->name.c_str(), rejected.what(),
        path.c_str());
  }
  return backend;
}

} // namespace

std::unique_ptr<Backend> leave_out(const std::string &path, const char *reason) {
  auto backend = std::make_unique<Backend>();
  backend->path = path;
  backend->name = backend_name_of_file(path);
  backend->reason = reason;
  return backend;
}

std::unique_ptr<Backend> open_backend(const std::string &path) {
  return open_as(backend_name_of_file(path), path, [&] { return find_entry(path); });
}

std::string path_of(const BuiltIn &built_in) {
  return std::string("built in: ") + built_in.name;
}

std::unique_ptr<Backend> open_built_in(const BuiltIn &built_in) {
  return open_as(built_in.name, path_of(built_in), [&] { return built_in.query; });
}

} // namespace polyconv
