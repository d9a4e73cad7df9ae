// cache.cpp - look up by the bytes of problems, make outside the lock, let go from the end.
// SPDX-License-Identifier: Apache-2.0
#include "plan/cache.hpp"

#include "base/sized.hpp"
#include "base/status.hpp"
#include "problem/problem.hpp"

#include <cstring>

namespace polyconv {
namespace {

// What a kernel's instance keeps is its own affair: an allowance for each, from the mean of the CPU's kernels.
constexpr int64_t kInstanceBytes = 3584;

// The caller's structs as they are: two that mean the same and differ in a field that is ignored are two problems.
std::string_view bytes_of_problems(const polyconv_problem *problems, int32_t count) {
  if (problems == nullptr || count < 1 || count > POLYCONV_MAX_CHAIN || problems->struct_size < kOldestProblem ||
      problems->struct_size > sizeof(polyconv_problem) + kMostGrowth)
    return {}; // planning says what is wrong
  return {reinterpret_cast<const char *>(problems), problems->struct_size * static_cast<size_t>(count)};
}

// Words of eight bytes, each mixed in by a multiplication (as in wyhash): the structs have hundreds of bytes, of which
// a byte-wise hash would take a microsecond.
uint64_t hash_of(std::string_view bytes) {
  constexpr uint64_t kFactor = 0x9e3779b97f4a7c15u;
  uint64_t hash = bytes.size() * kFactor, word = 0;
  size_t at = 0;
  for (; at + sizeof word <= bytes.size(); at += sizeof word) {
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = (hash ^ word) * kFactor;
    hash ^= hash >> 32;
  }
  for (; at < bytes.size(); ++at) hash = (hash ^ static_cast<unsigned char>(bytes[at])) * kFactor;
  return hash ^ (hash >> 29);
}

int64_t bytes_of_plan(const polyconv_plan &plan, size_t key) {
  int64_t bytes = static_cast<int64_t>(sizeof plan + key + plan.kernel_names.capacity());
  for (const PlanLayer &layer : plan.layers)
    bytes += static_cast<int64_t>(sizeof layer + layer.weights.id.capacity() + layer.weights.token.capacity());
  for (const Step &step : plan.steps)
    bytes += static_cast<int64_t>(sizeof step + step.wires.capacity() * sizeof(Wire)) + kInstanceBytes;
  return bytes;
}

} // namespace
} // namespace polyconv

using namespace polyconv;

polyconv_cache::Place polyconv_cache::find(std::string_view key, uint64_t hash) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto found = begin; found != end; ++found)
    if (found->second->key == key) return found->second;
  return entries_.end();
}

const polyconv_plan *polyconv_cache::hand_out(Place entry) {
  entries_.splice(entries_.begin(), entries_, entry);
  if (entry->users++ == 0) ++counts_.in_use;
  return entry->plan.get();
}

const polyconv_plan *polyconv_cache::get(const polyconv_problem *problems, int32_t count) {
  const std::string_view key = bytes_of_problems(problems, count);
  const uint64_t hash = hash_of(key);
  if (!key.empty()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Place found = find(key, hash);
    if (found != entries_.end()) {
      ++counts_.hits;
      return hand_out(found);
    }
    ++counts_.misses;
  }
  std::unique_ptr<polyconv_plan> plan = make_plan(device_, problems, count, options_, tuner_);
  Entries made, gone; // made: should another thread have been quicker, this one's goes
  const int64_t bytes = bytes_of_plan(*plan, key.size());
  made.push_back({std::string(key), hash, std::move(plan), bytes});
  const std::lock_guard<std::mutex> lock(mutex_);
  const Place other = find(key, hash);
  if (other != entries_.end()) return hand_out(other);
  const Place entry = made.begin();
  const auto place = by_hash_.emplace(hash, entry);
  try {
    by_plan_.emplace(entry->plan.get(), entry);
  } catch (...) {
    by_hash_.erase(place);
    throw;
  }
  entries_.splice(entries_.begin(), made, entry);
  counts_.bytes += bytes;
  const polyconv_plan *result = hand_out(entry);
  drop_beyond_limit(gone);
  return result;
}

void polyconv_cache::drop(Place entry, Entries &gone) {
  const auto [begin, end] = by_hash_.equal_range(entry->hash);
  for (auto found = begin; found != end; ++found)
    if (found->second == entry) {
      by_hash_.erase(found);
      break;
    }
  counts_.bytes -= entry->bytes;
  if (entry->users > 0) {
    entry->dropped = true;
    dropped_.splice(dropped_.begin(), entries_, entry);
    return;
  }
  by_plan_.erase(entry->plan.get());
  gone.splice(gone.begin(), entries_, entry);
}

// Those in use stay: who holds more plans than fit has the bytes anyway.
void polyconv_cache::drop_beyond_limit(Entries &gone) {
  if (byte_limit_ < 0) return;
  for (Place entry = entries_.end(); counts_.bytes > byte_limit_ && entry != entries_.begin();) {
    --entry;
    if (entry->users > 0) continue;
    const Place last = entry++;
    drop(last, gone);
    ++counts_.evictions;
  }
}

void polyconv_cache::release(const polyconv_plan *plan) {
  Entries gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_plan_.find(plan);
  if (found == by_plan_.end() || found->second->users == 0)
    throw Failure(POLYCONV_INVALID_ARGUMENT, "plan is none that this cache has handed out and not taken back");
  const Place entry = found->second;
  if (--entry->users > 0) return;
  --counts_.in_use;
  if (entry->dropped) {
    by_plan_.erase(found);
    gone.splice(gone.begin(), dropped_, entry);
  } else {
    drop_beyond_limit(gone);
  }
}

void polyconv_cache::clear() {
  Entries gone;
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!entries_.empty()) drop(entries_.begin(), gone);
}

polyconv_cache_stats polyconv_cache::stats() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  polyconv_cache_stats stats = counts_;
  stats.plans = static_cast<int64_t>(entries_.size());
  stats.byte_limit = byte_limit_;
  return stats;
}
