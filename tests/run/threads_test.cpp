// threads_test.cpp - the CPU backends where threads are scarce or gone: the system refuses them, the process is a fork
// of one that had them, many callers run at once, plans come and go. Nothing ends the process, nothing hangs, results
// stay.
//
// ctest-timeout: 240
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"
#include "sanitized.hpp"
#include "skip.hpp"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#if defined(__linux__)
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#endif

namespace {

using namespace job;

// Before the runtime is loaded: tests run side by side, and threads that spin would take the others' time.
[[maybe_unused]] const int passive = setenv("OMP_WAIT_POLICY", "passive", 0);

const char *const kToken = "fwd:n2,c24,k40,i29x28,f3x3,p1:bias+relu";

// The CPU backends that are here and run on threads.
std::vector<std::string> backends() {
  std::vector<std::string> names;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info{};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    for (const char *known : {"reference", "threads", "openmp", "tbb"})
      if (info.available != 0 && std::string(info.name) == known) names.push_back(known);
  }
  REQUIRE(!names.empty());
  return names;
}

polyconv_options on_threads(const std::string &kernels, int32_t threads) {
  polyconv_options o = options(kernels.c_str());
  o.threads = threads;
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  return o;
}

// What the first kernel of a backend makes of the problem on one thread.
std::vector<char> expected(const std::string &backend) {
  const std::string kernels = backend + "/*";
  Job job({kToken});
  REQUIRE_MESSAGE(job.run(on_threads(kernels, 1)) == POLYCONV_SUCCESS, error());
  return job.output;
}

} // namespace

#if defined(__linux__) && !defined(POLYCONV_TEST_SANITIZED)
#define POLYCONV_TEST_REFUSES 1

namespace {
std::atomic<int> threads_left{1 << 30}; // that pthread_create still gives
}

// Stands before the C library's, for the runtimes too.
extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                                     const pthread_attr_t *attributes,
                                                                     void *(*start)(void *), void *argument) {
  using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (--threads_left < 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}
#else
#define POLYCONV_TEST_REFUSES 0 // sanitizers have a pthread_create of their own
#endif

#if defined(__linux__)
namespace {

// Runs body in a forked child and waits for it, at most a minute. The child's exit status, or -1 and the signal or
// "no end" in *how.
template <class Body>
int in_child(const Body &body, std::string *how) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(body());
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  for (int status = 0; std::chrono::steady_clock::now() < until;) {
    if (waitpid(child, &status, WNOHANG) != child) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    *how = "signal " + std::to_string(WTERMSIG(status));
    return -1;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  *how = "no end";
  return -1;
}

} // namespace
#endif

// First, before a runtime has threads that it keeps.
TEST_CASE("where the system gives few threads, plans run on those") {
#if POLYCONV_TEST_REFUSES
  for (const std::string &backend : backends()) {
    const std::vector<char> right = expected(backend);
    for (int given : {0, 1, 3, 7}) {
      // A child each, for runtimes keep what they got; none of them has threads yet, in this process.
      std::string how;
      const int status = in_child(
          [&] {
            Job job({kToken});
            threads_left = given;
            for (int32_t threads : {2, 5, 16}) {
              const std::string kernels = backend + "/*";
              job.poison();
              if (job.run(on_threads(kernels, threads)) != POLYCONV_SUCCESS) return 2;
              if (job.output != right) return 3;
            }
            return 0;
          },
          &how);
      CHECK_MESSAGE(status == 0, backend << " with " << given << " threads: " << status << " " << how);
    }
  }
#else
  polyconv_test::skip("a sanitizer, or no Linux: threads cannot be refused");
#endif
}

TEST_CASE("where address space ends, plans run on the threads that fit") {
#if POLYCONV_TEST_REFUSES
  for (const std::string &backend : backends()) {
    const std::vector<char> right = expected(backend);
    std::string how;
    const int status = in_child(
        [&] {
          Job job({kToken});
          const std::string kernels = backend + "/*";
          rlim_t pages = 0;
          std::ifstream("/proc/self/statm") >> pages;
          rlimit limit = {pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{48} << 20), RLIM_INFINITY};
          limit.rlim_max = limit.rlim_cur;
          if (setrlimit(RLIMIT_AS, &limit) != 0) return 4;
          if (job.run(on_threads(kernels, 32)) != POLYCONV_SUCCESS) return 2;
          return job.output == right ? 0 : 3;
        },
        &how);
    CHECK_MESSAGE(status == 0, backend << ": " << status << " " << how);
  }
#else
  polyconv_test::skip("a sanitizer, or no Linux: address space cannot be limited");
#endif
}

TEST_CASE("forked children run, destroy and make plans, whatever their parent used") {
#if defined(__linux__)
  for (const std::string &backend : backends()) {
    const std::string kernels = backend + "/*";
    const std::vector<char> right = expected(backend);
    Job job({kToken});
    REQUIRE_MESSAGE(job.run(on_threads(kernels, 3)) == POLYCONV_SUCCESS, error());
    CHECK(job.output == right);
    std::string how;
    const int status = in_child(
        [&] {
          for (int run = 0; run < 3; ++run) {
            job.poison();
            if (polyconv_run(job.plan.get(), &job.buffers, nullptr) != POLYCONV_SUCCESS) return 2;
            if (job.output != right) return 3;
          }
          job.plan.reset();
          job.poison();
          if (job.run(on_threads(kernels, 3)) != POLYCONV_SUCCESS) return 4;
          if (job.output != right) return 5;
          job.plan.reset();
          return 0;
        },
        &how);
    CHECK_MESSAGE(status == 0, backend << ": " << status << " " << how);
    job.poison(); // and the parent goes on
    CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
    CHECK(job.output == right);
  }
#else
  polyconv_test::skip("nothing forks here");
#endif
}

TEST_CASE("many callers run one plan at once") {
  for (const std::string &backend : backends()) {
    const std::string kernels = backend + "/*";
    const std::vector<char> right = expected(backend);
    Job shared({kToken});
    REQUIRE_MESSAGE(shared.run(on_threads(kernels, 3)) == POLYCONV_SUCCESS, error());
    const polyconv_plan_info i = info(shared.plan);
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 8; ++caller)
      callers.emplace_back([&] {
        std::vector<char> output(right.size());
        Aligned workspace(static_cast<size_t>(i.workspace_bytes));
        polyconv_buffers buffers = shared.buffers;
        buffers.output = output.data();
        buffers.workspace = workspace.data.get();
        for (int run = 0; run < 5; ++run) {
          std::fill(output.begin(), output.end(), static_cast<char>(0xff));
          wrong += polyconv_run(shared.plan.get(), &buffers, nullptr) != POLYCONV_SUCCESS || output != right;
        }
      });
    for (std::thread &caller : callers) caller.join();
    CHECK_MESSAGE(wrong == 0, backend);
  }
}

// Of the whole process: oneTBB has an allocator of its own.
TEST_CASE("plans that come, run and go leave no memory behind") {
#if POLYCONV_TEST_REFUSES
  for (const std::string &backend : backends()) {
    const std::string kernels = backend + "/*";
    const auto resident_after = [&](int plans) {
      Job job({"fwd:n1,c32,k32,i28x28,f3x3"});
      for (int plan = 0; plan < plans; ++plan)
        REQUIRE_MESSAGE(job.run(on_threads(kernels, 2)) == POLYCONV_SUCCESS, error());
      long size = 0, resident = 0;
      std::ifstream("/proc/self/statm") >> size >> resident;
      return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
    };
    constexpr int kPlans = 1000;
    const double before = resident_after(100);
    const double bytes = (resident_after(kPlans) - before) / kPlans;
    CHECK_MESSAGE(bytes < 1500, backend << " loses " << bytes << " bytes a plan");
  }
#else
  polyconv_test::skip("a sanitizer, which keeps what is freed, or no Linux");
#endif
}
