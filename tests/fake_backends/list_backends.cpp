// list_backends.cpp - a fresh process for the tests of the loader: runs the search and prints what it found, one
// backend a line, and how many threads there were before and after.
//   list_backends [--race] [--load PATH]...
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <tlhelp32.h>
#endif

namespace {

long count_threads() {
#if defined(_WIN32)
  long count = 0;
  const HANDLE all = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
  THREADENTRY32 thread = {};
  thread.dwSize = sizeof thread;
  for (BOOL more = Thread32First(all, &thread); more; more = Thread32Next(all, &thread))
    count += thread.th32OwnerProcessID == GetCurrentProcessId();
  CloseHandle(all);
  return count;
#else
  return static_cast<long>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
#endif
}

// Several threads need the search at once; all must see its whole result.
bool race() {
  std::vector<int32_t> counts(8);
  std::vector<std::thread> threads;
  for (int32_t &count : counts) threads.emplace_back([&count] { count = polyconv_backend_count(); });
  for (std::thread &thread : threads) thread.join();
  for (int32_t count : counts) {
    if (count != polyconv_backend_count()) return false;
  }
  return true;
}

void print_all() {
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info;
    info.struct_size = sizeof info;
    if (polyconv_backend_get(i, &info) != POLYCONV_SUCCESS) continue;
    std::printf("backend\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", info.name, info.available ? "available" : "missing",
                info.device_kind, static_cast<int>(info.kernel_count), info.path, info.version, info.reason);
  }
}

} // namespace

int main(int argc, char **argv) {
  const long threads_before = count_threads();
  const auto start = std::chrono::steady_clock::now();
  if (argc > 1 && std::strcmp(argv[1], "--race") == 0) {
    if (!race()) return 1;
  } else {
    polyconv_backend_count();
  }
  const auto stop = std::chrono::steady_clock::now();
  for (int i = 1; i + 1 < argc; ++i) {
    if (std::strcmp(argv[i], "--load") != 0) continue;
    const polyconv_status status = polyconv_backend_load(argv[i + 1]);
    std::printf("load\t%d\t%s\n", static_cast<int>(status), status != POLYCONV_SUCCESS ? polyconv_last_error() : "");
  }
  print_all();
  std::printf("threads\t%ld\t%ld\n", threads_before, count_threads());
  std::printf("search\t%.0f us\n", std::chrono::duration<double, std::micro>(stop - start).count());
  std::printf("last error\t%s\n", polyconv_last_error());
  return 0;
}
