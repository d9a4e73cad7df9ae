// log_test.cpp - the log goes where it is sent, at the level asked for, and nowhere unasked.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "fake_backends/fakes.hpp"

namespace {

struct Lines {
  std::mutex mutex;
  std::vector<std::pair<int32_t, std::string>> lines;
};

void keep(void *context, int32_t level, const char *message) {
  Lines &kept = *static_cast<Lines *>(context);
  const std::lock_guard<std::mutex> lock(kept.mutex);
  kept.lines.emplace_back(level, message);
}

// Leaves one info line: that a backend is not available.
void cause_a_line() {
  CHECK(polyconv_backend_load(fakes::path("unavailable").c_str()) == POLYCONV_UNAVAILABLE);
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a callback gets whole lines up to its level, and nothing after it was taken away") {
  polyconv_backend_count(); // the search logs too
  Lines kept;
  polyconv_set_log(keep, &kept, POLYCONV_LOG_INFO);
  cause_a_line();
  polyconv_set_log(keep, &kept, POLYCONV_LOG_WARNING);
  cause_a_line();
  polyconv_set_log(keep, &kept, -1);
  cause_a_line();
  polyconv_set_log(nullptr, nullptr, POLYCONV_LOG_DEBUG);
  cause_a_line();
  REQUIRE(kept.lines.size() == 1);
  CHECK(kept.lines[0].first == POLYCONV_LOG_INFO);
  CHECK(contains(kept.lines[0].second, "backend 'fake-unavailable' is not available: needs a machine"));
  CHECK(!contains(kept.lines[0].second, "\n"));
}

TEST_CASE("a level beyond the last means everything") {
  Lines kept;
  polyconv_set_log(keep, &kept, 1000);
  cause_a_line();
  polyconv_set_log(nullptr, nullptr, 0);
  CHECK(kept.lines.size() >= 1);
}

TEST_CASE("the sink may be changed while others log: no message reaches a context that was taken away") {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&stop] {
      while (!stop) polyconv_backend_load(fakes::path("unavailable").c_str());
    });
  }
  size_t seen = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10); // the threads may start late
  for (int round = 0; round < 200 || (seen == 0 && std::chrono::steady_clock::now() < deadline); ++round) {
    auto kept = std::make_unique<Lines>(); // freed right after: a late message would be found by a sanitizer
    polyconv_set_log(keep, kept.get(), POLYCONV_LOG_DEBUG);
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    polyconv_set_log(nullptr, nullptr, POLYCONV_LOG_ERROR);
    seen += kept->lines.size();
  }
  stop = true;
  for (std::thread &thread : threads) thread.join();
  CHECK(seen > 0);
}

TEST_CASE("nothing is written unless POLYCONV_LOG asks for it") {
  const std::string path = "POLYCONV_BACKEND_PATH='" + fakes::folder("unavailable") + ":relative' ";
  CHECK(fakes::list(path).err == "");
  CHECK(fakes::list(path + "POLYCONV_LOG=''").err == "");
  CHECK(fakes::list(path + "POLYCONV_LOG=error").err == "");

  const std::string warning = fakes::list(path + "POLYCONV_LOG=warning").err;
  CHECK(contains(warning, "polyconv: warning: POLYCONV_BACKEND_PATH has 'relative'"));
  CHECK(!contains(warning, "info:"));
  CHECK(std::count(warning.begin(), warning.end(), '\n') == 1);

  const std::string info = fakes::list(path + "POLYCONV_LOG=info").err;
  CHECK(contains(info, "polyconv: info: backend 'fake-unavailable' is not available: needs a machine"));
  CHECK(!contains(info, "debug:"));

  const std::string debug = fakes::list(path + "POLYCONV_LOG=debug").err;
  CHECK(contains(debug, "polyconv: debug: backends are searched in '"));

  const std::string unknown = fakes::list(path + "POLYCONV_LOG=loud").err;
  CHECK(contains(unknown, "POLYCONV_LOG is 'loud', expected error, warning, info or debug: taken as warning"));
  CHECK(contains(unknown, "warning: POLYCONV_BACKEND_PATH"));
}
