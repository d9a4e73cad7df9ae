// cache_test.cpp - polyconv_cache: what is found, what goes and when, what several threads may do, and that ten
// thousand shapes in a row hold no more memory than the first few.
// SPDX-License-Identifier: Apache-2.0
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <atomic>
#include <limits>
#include <thread>

#include "plan_job.hpp"
#include "sanitized.hpp"
#include "skip.hpp"

using namespace job;

namespace {

struct CacheDeleter {
  void operator()(polyconv_cache *cache) const { polyconv_cache_destroy(cache); }
};
using Cache = std::unique_ptr<polyconv_cache, CacheDeleter>;

polyconv_options on_threads() {
  polyconv_options o = options("threads/*,reference/*");
  o.threads = 1;
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  return o;
}

Cache make_cache(int64_t byte_limit) {
  const polyconv_options o = on_threads();
  polyconv_cache *cache = nullptr;
  REQUIRE_MESSAGE(polyconv_cache_create(nullptr, &o, byte_limit, &cache) == POLYCONV_SUCCESS, error());
  return Cache(cache);
}

polyconv_problem shape(int number) {
  return problem("fwd:n1,c" + std::to_string(number % 7 + 1) + ",k4,i" + std::to_string(number % 101 + 3) + "x" +
                 std::to_string(number / 101 + 3) + ",f3x3");
}

const polyconv_plan *get(const Cache &cache, const polyconv_problem &p) {
  const polyconv_plan *plan = nullptr;
  REQUIRE_MESSAGE(polyconv_cache_get(cache.get(), &p, 1, &plan) == POLYCONV_SUCCESS, error());
  return plan;
}

void release(const Cache &cache, const polyconv_plan *plan) {
  REQUIRE_MESSAGE(polyconv_cache_release(cache.get(), plan) == POLYCONV_SUCCESS, error());
}

polyconv_cache_stats stats(const Cache &cache) {
  polyconv_cache_stats s{};
  s.struct_size = sizeof s;
  REQUIRE(polyconv_cache_get_stats(cache.get(), &s) == POLYCONV_SUCCESS);
  return s;
}

} // namespace

TEST_CASE("a problem is planned once, and its plan runs as any other") {
  const Cache cache = make_cache(-1);
  const polyconv_problem p = problem("fwd:n1,c1,k1,i4x4,f2x2");
  const polyconv_plan *plan = get(cache, p);
  CHECK(get(cache, p) == plan);
  std::vector<float> input(16, 2), weights(4, 3);
  std::vector<float> output(9), workspace(1 << 16);
  polyconv_buffers b;
  polyconv_buffers_init(&b);
  polyconv_weights *packed = nullptr;
  REQUIRE(polyconv_weights_create(plan, 0, weights.data(), nullptr, nullptr, &packed) == POLYCONV_SUCCESS);
  b.input = input.data();
  b.packed[0] = packed;
  b.output = output.data();
  void *aligned = workspace.data();
  size_t space = workspace.size() * sizeof(float);
  REQUIRE(std::align(POLYCONV_ALIGNMENT, space / 2, aligned, space) != nullptr);
  b.workspace = aligned;
  b.workspace_size = static_cast<int64_t>(space);
  REQUIRE_MESSAGE(polyconv_run(plan, &b, nullptr) == POLYCONV_SUCCESS, error());
  CHECK(output == std::vector<float>(9, 24));
  polyconv_weights_destroy(packed);
  CHECK(stats(cache).hits == 1);
  CHECK(stats(cache).misses == 1);
  CHECK(stats(cache).in_use == 1);
  release(cache, plan);
  release(cache, plan);
  CHECK(stats(cache).in_use == 0);
  CHECK(stats(cache).plans == 1);
  const polyconv_problem two[2] = {p, problem("fwd:n1,c1,k1,i3x3,f2x2")};
  const polyconv_plan *chain = nullptr;
  REQUIRE(polyconv_cache_get(cache.get(), two, 2, &chain) == POLYCONV_SUCCESS);
  CHECK(chain != plan);
  release(cache, chain);
}

TEST_CASE("the least recently used goes first, and what is in use stays") {
  const Cache all = make_cache(-1);
  release(all, get(all, shape(0)));
  const int64_t one = stats(all).bytes;
  CHECK(one > 0);
  const Cache cache = make_cache(3 * one + one / 2);
  const polyconv_plan *held = get(cache, shape(0));
  for (int i : {7, 14, 7, 21}) release(cache, get(cache, shape(i))); // all with one channel: as many bytes
  CHECK(stats(cache).evictions == 1);
  CHECK(stats(cache).plans == 3);
  const int64_t misses = stats(cache).misses;
  release(cache, get(cache, shape(7)));
  CHECK(get(cache, shape(0)) == held);
  CHECK(stats(cache).misses == misses);
  release(cache, get(cache, shape(14))); // which had gone
  CHECK(stats(cache).misses == misses + 1);
  CHECK(stats(cache).bytes <= stats(cache).byte_limit);
  release(cache, held);
  release(cache, held);
}

TEST_CASE("a cache of no bytes keeps what is in use; clear lets go of the rest") {
  const Cache cache = make_cache(0);
  const polyconv_plan *plan = get(cache, shape(1));
  CHECK(get(cache, shape(1)) == plan);
  release(cache, plan);
  CHECK(stats(cache).plans == 1);
  release(cache, plan);
  CHECK(stats(cache).plans == 0);
  CHECK(stats(cache).bytes == 0);
  const polyconv_plan *old = get(cache, shape(2));
  polyconv_cache_clear(cache.get());
  CHECK(stats(cache).plans == 0);
  CHECK(stats(cache).in_use == 1);
  const polyconv_plan *anew = get(cache, shape(2));
  CHECK(anew != old);
  polyconv_plan_info info{};
  info.struct_size = sizeof info;
  CHECK(polyconv_plan_get_info(old, &info) == POLYCONV_SUCCESS);
  release(cache, old);
  release(cache, anew);
  CHECK(stats(cache).in_use == 0);
}

TEST_CASE("wrong calls say what is wrong and change nothing") {
  polyconv_cache *none = nullptr;
  CHECK(polyconv_cache_create(nullptr, nullptr, -2, &none) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "byte_limit is -2"));
  CHECK(polyconv_cache_create(nullptr, nullptr, 0, nullptr) == POLYCONV_INVALID_ARGUMENT);
  const Cache cache = make_cache(-1);
  const polyconv_plan *plan = nullptr;
  polyconv_problem p = shape(3);
  CHECK(polyconv_cache_get(nullptr, &p, 1, &plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_cache_get(cache.get(), &p, 1, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_cache_get(cache.get(), nullptr, 1, &plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_cache_get(cache.get(), &p, 0, &plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_cache_get(cache.get(), &p, 9, &plan) == POLYCONV_INVALID_ARGUMENT);
  p.in_channels = -1;
  CHECK(polyconv_cache_get(cache.get(), &p, 1, &plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "in_channels is -1"));
  p.struct_size = 1;
  CHECK(polyconv_cache_get(cache.get(), &p, 1, &plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(plan == nullptr);
  CHECK(stats(cache).plans == 0);
  plan = get(cache, shape(3));
  release(cache, plan);
  CHECK(polyconv_cache_release(cache.get(), plan) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "not taken back"));
  CHECK(polyconv_cache_release(cache.get(), nullptr) == POLYCONV_SUCCESS);
  CHECK(polyconv_cache_get_stats(cache.get(), nullptr) == POLYCONV_INVALID_ARGUMENT);
  polyconv_cache_clear(nullptr);
  polyconv_cache_destroy(nullptr);
}

TEST_CASE("several threads get, use and give back at once") {
  const Cache all = make_cache(-1);
  release(all, get(all, shape(0)));
  const Cache cache = make_cache(6 * stats(all).bytes);
  std::vector<polyconv_problem> problems;
  for (int i = 0; i < 12; ++i) problems.push_back(shape(i));
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 300; ++i) {
        const polyconv_problem &p = problems[static_cast<size_t>((i * 5 + t) % 12)];
        const polyconv_plan *plan = nullptr;
        polyconv_plan_info info{};
        info.struct_size = sizeof info;
        const bool good = polyconv_cache_get(cache.get(), &p, 1, &plan) == POLYCONV_SUCCESS &&
                          polyconv_plan_get_info(plan, &info) == POLYCONV_SUCCESS && info.kernel[0] != '\0' &&
                          polyconv_cache_release(cache.get(), plan) == POLYCONV_SUCCESS;
        if (!good) ++wrong;
        if (i % 100 == 99) polyconv_cache_clear(cache.get());
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  const polyconv_cache_stats s = stats(cache);
  CHECK(s.hits + s.misses == 1200);
  CHECK(s.in_use == 0);
  CHECK(s.bytes <= s.byte_limit);
}

TEST_CASE("ten thousand shapes in a row hold memory flat") {
#if __has_include(<malloc.h>)
  if (polyconv_test::kSanitized) polyconv_test::skip("a sanitizer keeps what is freed");
  const auto in_use = [] { return static_cast<int64_t>(mallinfo2().uordblks); };
  constexpr int64_t kLimit = 1 << 20;
  const Cache cache = make_cache(kLimit);
  for (int i = 0; i < 1000; ++i) release(cache, get(cache, shape(i)));
  const int64_t before = in_use();
  int64_t most = 0;
  for (int i = 1000; i < 11000; ++i) {
    release(cache, get(cache, shape(i)));
    if (i % 100 == 0) most = std::max(most, in_use());
  }
  const polyconv_cache_stats s = stats(cache);
  CHECK(s.misses == 11000);
  CHECK(s.evictions == 11000 - s.plans);
  CHECK(s.bytes <= kLimit);
  CHECK(most - before < kLimit / 2);
  MESSAGE("bytes counted " << s.bytes << ", allocated by " << s.plans << " plans, after clear " << [&] {
    const int64_t held = in_use();
    polyconv_cache_clear(cache.get());
    return held - in_use();
  }());
#else
  polyconv_test::skip("only glibc counts what is allocated");
#endif
}
