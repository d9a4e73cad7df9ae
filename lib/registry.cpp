// registry.cpp - the list of what was found, and the snapshots of it that planning reads. Backends are never destroyed,
// so that every pointer handed out stays good.
// SPDX-License-Identifier: Apache-2.0
#include "registry.hpp"

#include "loader.hpp"
#include "os.hpp"
#include "status.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace polyconv {
namespace {

// True while this thread runs code of a backend being loaded: should that call polyconv, it sees what is there by then.
thread_local bool loading = false;

struct Registry {
  std::mutex loading_mutex; // one load at a time; never held by readers
  std::atomic<bool> searched{false};
  std::mutex list_mutex;                             // of what follows
  std::vector<std::unique_ptr<const Backend>> owned; // also those that another has replaced in the list
  std::vector<const Backend *> list;                 // in the order of names
  std::map<std::string, std::shared_ptr<const KernelList>> kernels;
};

Registry &registry() {
  static Registry &made = *new Registry; // never destroyed: other libraries may still use it while the process ends
  return made;
}

class Loading {
 public:
  Loading() { loading = true; }
  ~Loading() { loading = false; }
  Loading(const Loading &) = delete;
  Loading &operator=(const Loading &) = delete;
};

std::unique_ptr<Backend> open_and_mark(const std::string &path) {
  const Loading mark;
  return open_backend(path);
}

// Lists a backend, in the place of one of that name which could not serve.
const Backend *add(std::unique_ptr<const Backend> added) {
  Registry &all = registry();
  const std::lock_guard<std::mutex> lock(all.list_mutex);
  all.owned.push_back(std::move(added));
  const Backend *backend = all.owned.back().get();
  const auto at = std::lower_bound(all.list.begin(), all.list.end(), backend->name,
                                   [](const Backend *listed, const std::string &name) { return listed->name < name; });
  if (at != all.list.end() && (*at)->name == backend->name) {
    *at = backend;
  } else {
    all.list.insert(at, backend);
  }
  all.kernels.clear();
  return backend;
}

// Runs the search once a process.
void search() {
  Registry &all = registry();
  if (all.searched.load(std::memory_order_acquire) || loading) return;
  const std::lock_guard<std::mutex> lock(all.loading_mutex);
  if (all.searched.load(std::memory_order_relaxed)) return;
  for (const std::string &path : find_backend_files()) add(open_and_mark(path));
  all.searched.store(true, std::memory_order_release);
}

// Breaks ties between equals: openmp, tbb, other backends by name, reference last.
int rank(const std::string &backend) {
  return backend == "openmp" ? 0 : backend == "tbb" ? 1 : backend == "reference" ? 3 : 2;
}

std::shared_ptr<const KernelList> collect(std::vector<const Backend *> list, const std::string &device_kind) {
  std::stable_sort(list.begin(), list.end(),
                   [](const Backend *a, const Backend *b) { return rank(a->name) < rank(b->name); });
  auto kernels = std::make_shared<KernelList>();
  for (const Backend *backend : list) {
    if (!backend->available || backend->device_kind != device_kind) continue;
    for (size_t i = 0; i < backend->kernel_names.size(); ++i) {
      kernels->push_back({backend, backend->table->kernels[i], backend->kernel_names[i]});
    }
  }
  return kernels;
}

} // namespace

std::vector<const Backend *> backends() {
  search();
  Registry &all = registry();
  const std::lock_guard<std::mutex> lock(all.list_mutex);
  return all.list;
}

std::shared_ptr<const KernelList> kernels_for(const std::string &device_kind) {
  search();
  Registry &all = registry();
  const std::lock_guard<std::mutex> lock(all.list_mutex);
  std::shared_ptr<const KernelList> &kernels = all.kernels[device_kind];
  if (!kernels) kernels = collect(all.list, device_kind);
  return kernels;
}

void load_backend(const std::string &path) {
  if (!os::is_absolute(path)) {
    throw failure(POLYCONV_INVALID_ARGUMENT, "path is '%s', expected an absolute path", path.c_str());
  }
  const std::string name = backend_name_of_file(path);
  if (name.empty()) {
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "path is '%s', expected a file called %s<name>%s, <name> of a-z, 0-9 and _", path.c_str(),
                  os::backend_prefix, os::backend_suffix);
  }
  if (loading) throw failure(POLYCONV_INVALID_ARGUMENT, "path is '%s': a backend cannot load another", path.c_str());
  search();
  const std::lock_guard<std::mutex> lock(registry().loading_mutex);
  for (const Backend *listed : backends()) {
    if (listed->available && listed->name == name) {
      throw failure(POLYCONV_INVALID_ARGUMENT, "path is '%s', but backend '%s' is already loaded from '%s'",
                    path.c_str(), name.c_str(), listed->path.c_str());
    }
  }
  const Backend *backend = add(open_and_mark(path));
  if (!backend->available) {
    throw failure(POLYCONV_UNAVAILABLE, "backend '%s' (%s): %s", name.c_str(), path.c_str(), backend->reason.c_str());
  }
}

} // namespace polyconv
