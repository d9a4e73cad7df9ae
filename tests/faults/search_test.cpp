// search_test.cpp - the n-th allocation fails in the first search of a process, for all n: the search is made again by
// the next call, and then every backend is there. Each n is a process of its own.
// SPDX-License-Identifier: Apache-2.0
// ctest-timeout: 240
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include "../fake_backends/fakes.hpp"
#include "../skip.hpp"
#include "allocation.hpp"

namespace {

enum Outcome { kFine = 10, kNoFault = 11, kBackendLost = 12, kOddStatus = 13 };

bool available(const char *name) {
  polyconv_backend_info info;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    info.struct_size = sizeof info;
    if (polyconv_backend_get(i, &info) == POLYCONV_SUCCESS && std::string(info.name) == name)
      return info.available != 0;
  }
  return false;
}

// The first call of a process, and the second. Two plug-ins are found, and no thread runtime.
[[noreturn]] void child(int64_t n, faults::Kind kind) {
  setenv("POLYCONV_BACKEND_PATH", fakes::folder("good").c_str(), 1);
  setenv("POLYCONV_BACKEND_SKIP", "openmp,tbb,threads,c*,o*", 1);
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  problem.input_size[0] = problem.input_size[1] = 4;
  polyconv_plan *plan = nullptr;
  faults::arm(n, kind);
  const polyconv_status status = polyconv_plan_create(nullptr, &problem, 1, nullptr, &plan);
  const bool failed = faults::disarm();
  if (status != POLYCONV_SUCCESS && status != POLYCONV_OUT_OF_MEMORY) _exit(kOddStatus);
  if (!available("reference") || !available("fake-good")) _exit(kBackendLost);
  plan = nullptr;
  if (polyconv_plan_create(nullptr, &problem, 1, nullptr, &plan) != POLYCONV_SUCCESS) _exit(kOddStatus);
  _exit(failed ? kFine : kNoFault);
}

int64_t check_every_n(faults::Kind kind) {
  for (int64_t n = 0; n < 20000; ++n) {
    const pid_t pid = fork();
    if (pid == 0) child(n, kind);
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CAPTURE(n);
    if (!WIFEXITED(status)) {
      FAIL_CHECK("signal " << WTERMSIG(status) << " at allocation " << n);
      continue;
    }
    if (WEXITSTATUS(status) == kNoFault) return n;
    CHECK_MESSAGE(WEXITSTATUS(status) == kFine, "at allocation " << n);
  }
  FAIL("there is no end of allocations");
  return 0;
}

} // namespace

TEST_CASE("the n-th allocation of C++ code fails in the first search") {
  MESSAGE(check_every_n(faults::Kind::Cxx) << " allocations");
}

TEST_CASE("the n-th allocation of whoever fails in the first search") {
  if (!faults::all_can_fail()) return polyconv_test::skip("a sanitizer has the C library's allocators");
  MESSAGE(check_every_n(faults::Kind::All) << " allocations");
}

TEST_CASE("the first call of polyconv_set_log cannot fail") {
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("POLYCONV_LOG", "a level that nobody knows and that is too long to be kept without an allocation", 1);
    faults::arm(0, faults::Kind::Cxx, true);
    polyconv_set_log([](void *, int32_t, const char *) {}, nullptr, POLYCONV_LOG_ERROR);
    faults::disarm();
    _exit(kFine);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == kFine);
}
