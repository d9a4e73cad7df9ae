// cache.cpp - the extern "C" wall: plan caches.
// SPDX-License-Identifier: Apache-2.0
#include "plan/cache.hpp"

#include "base/sized.hpp"
#include "registry/device.hpp"
#include "tune/tune.hpp"

using namespace polyconv;

namespace {

polyconv_cache &checked(polyconv_cache *cache) {
  if (cache == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "cache is NULL, expected a cache");
  return *cache;
}

} // namespace

extern "C" {

polyconv_status polyconv_cache_create(const polyconv_device *device, const polyconv_options *options,
                                      int64_t byte_limit, polyconv_cache **cache) {
  return guarded([&] {
    if (cache == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "cache is NULL, expected where to put it");
    if (byte_limit < -1)
      throw failure(POLYCONV_INVALID_ARGUMENT, "byte_limit is %lld, expected bytes, or -1 for no limit",
                    static_cast<long long>(byte_limit));
    const polyconv_device &where = device_or_cpu(device);
    *cache = std::make_unique<polyconv_cache>(where, read_options(options, where), tuner(), byte_limit).release();
  });
}

polyconv_status polyconv_cache_get(polyconv_cache *cache, const polyconv_problem *problems, int32_t count,
                                   const polyconv_plan **plan) {
  return guarded([&] {
    if (plan == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is NULL, expected where to put the plan");
    *plan = checked(cache).get(problems, count);
  });
}

polyconv_status polyconv_cache_release(polyconv_cache *cache, const polyconv_plan *plan) {
  return guarded([&] {
    polyconv_cache &from = checked(cache);
    if (plan != nullptr) from.release(plan);
  });
}

polyconv_status polyconv_cache_get_stats(const polyconv_cache *cache, polyconv_cache_stats *stats) {
  return guarded([&] {
    if (cache == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "cache is NULL, expected a cache");
    fill_sized(stats, cache->stats(), offsetof(polyconv_cache_stats, hits), "stats");
  });
}

void polyconv_cache_clear(polyconv_cache *cache) {
  if (cache != nullptr) cache->clear();
}

void polyconv_cache_destroy(polyconv_cache *cache) {
  delete cache;
}

} // extern "C"
