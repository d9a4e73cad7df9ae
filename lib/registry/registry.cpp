// registry.cpp - the list of what was found, and the snapshots of it that planning reads. Backends are never destroyed,
// so that every pointer handed out stays good.
// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.hpp"

#include "base/glob.hpp"
#include "base/status.hpp"
#include "os/os.hpp"
#include "registry/loader.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

namespace polyconv {
namespace {

// True while this thread searches or loads: should a backend, or the log's callback, call polyconv meanwhile, it sees
// what is there by then.
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
  Loading() : before_(loading) { loading = true; }
  ~Loading() { loading = before_; }
  Loading(const Loading &) = delete;
  Loading &operator=(const Loading &) = delete;

 private:
  const bool before_;
};

std::unique_ptr<Backend> open_and_mark(const std::string &path) {
  const Loading mark;
  return open_backend(path);
}
std::unique_ptr<Backend> open_and_mark(const BuiltIn &built_in) {
  const Loading mark;
  return open_built_in(built_in);
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

// Whether a search that ran out of memory got so far.
bool is_listed(const std::string &path) {
  Registry &all = registry();
  const std::lock_guard<std::mutex> lock(all.list_mutex);
  return std::any_of(all.list.begin(), all.list.end(), [&](const Backend *listed) { return listed->path == path; });
}

// Runs the search once a process; where memory runs out, the next call goes on with it.
void search() {
  Registry &all = registry();
  if (all.searched.load(std::memory_order_acquire) || loading) return;
  const std::lock_guard<std::mutex> lock(all.loading_mutex);
  if (all.searched.load(std::memory_order_relaxed)) return;
  const Loading mark;
  const std::string skipped = os::environment("POLYCONV_BACKEND_SKIP");
  const auto skips = [&](const std::string &name) { return glob_match(skipped.c_str(), name.c_str()); };
  for (const BuiltIn &built_in : built_in_backends())
    if (!is_listed(path_of(built_in)) && !skips(built_in.name)) add(open_and_mark(built_in));
  if (built_in_backends().empty()) // a library that has its backends in it looks for no others
    for (const std::string &path : find_backend_files()) {
      if (is_listed(path)) continue;
      const bool left_out = skips(backend_name_of_file(path));
      add(left_out ? leave_out(path, "left out by POLYCONV_BACKEND_SKIP") : open_and_mark(path));
    }
  all.searched.store(true, std::memory_order_release);
}

// Breaks ties between equals: threads, openmp, tbb, other backends by name, reference last. Threads of our own come
// first because they alone neither hold up a busy machine nor need anything of it (docs/performance/cpu/threads.md).
int rank(const std::string &backend) {
  constexpr const char *kFirst[] = {"threads", "openmp", "tbb"};
  const auto at = std::find(std::begin(kFirst), std::end(kFirst), backend);
  if (at != std::end(kFirst)) return static_cast<int>(at - std::begin(kFirst));
  return backend == "reference" ? 4 : 3;
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
  const Loading mark;
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
