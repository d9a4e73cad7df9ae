// openmp.cpp - CPU runs on the OpenMP runtime that another library has brought into the process, PyTorch's: its threads
// wait awake for a while after each of its own loops, and threads of ours beside them would fight for the same
// processors (ResNet-50 on two cores: 41 ms with both, 28 ms with one of them asleep). Nothing of OpenMP is linked: the
// runtime is the one that PyTorch's own library leads to.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>

#include "objects.hpp"

namespace polyconv_python {
namespace {

// How compilers call `#pragma omp parallel`; libgomp has it, and Intel's and LLVM's runtimes have it beside their own.
using StartRegion = void (*)(void (*body)(void *), void *data, unsigned threads, unsigned flags);
std::atomic<StartRegion> start_region{nullptr};
std::atomic<bool> forked{false}; // a child has none of the runtime's threads, and some runtimes wait for them for ever

struct Loop {
  std::atomic<int64_t> next{0};
  int64_t tasks;
  void (*task)(void *, int64_t);
  void *context;
};

void work(void *data) {
  auto &loop = *static_cast<Loop *>(data);
  for (int64_t i; (i = loop.next.fetch_add(1, std::memory_order_relaxed)) < loop.tasks;) loop.task(loop.context, i);
}

// A polyconv_parallel_for; `threads` is the number of threads. Right with any number that the runtime gives, one
// included: whoever comes takes the next task, and the region ends when all have returned.
void run_loop(void *threads, int64_t tasks, void (*task)(void *, int64_t), void *context) {
  Loop loop;
  loop.tasks = tasks;
  loop.task = task;
  loop.context = context;
  const auto wanted = static_cast<int64_t>(reinterpret_cast<intptr_t>(threads));
  const int64_t count = wanted < tasks ? wanted : tasks;
  if (count <= 1 || forked) return work(&loop);
  start_region.load()(work, &loop, static_cast<unsigned>(wanted),
                      0); // all: a runtime starts anew where the number changes
}

// Finds the runtime that a library which is loaded already leads to. False where it leads to none.
bool share_openmp(const char *library) {
  if (start_region != nullptr) return true;
  void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  void *found = dlsym(handle, "GOMP_parallel"); // in the library or in what it was linked with
  if (found == nullptr) return false;
  static const bool watched = pthread_atfork(nullptr, nullptr, [] { forked = true; }) == 0;
  if (!watched) return false;
  start_region = reinterpret_cast<StartRegion>(found);
  return true;
}

} // namespace

polyconv_parallel_for shared_parallel_for() {
  return start_region != nullptr ? run_loop : nullptr;
}

void bind_openmp(nb::module_ &module) {
  module.def("share_openmp", share_openmp);
}

} // namespace polyconv_python
