// cache.hpp - plans by problem, the least recently used of which go where they hold too many bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

struct polyconv_cache {
 public:
  // `byte_limit` -1: none.
  polyconv_cache(const polyconv_device &device, polyconv::Options options, const polyconv::Tuner &tuner,
                 int64_t byte_limit)
      : device_(device), options_(std::move(options)), tuner_(tuner), byte_limit_(byte_limit) {}

  // The plan of these problems, made where there is none; it stays until it is given back. Throws Failure.
  const polyconv_plan *get(const polyconv_problem *problems, int32_t count);

  // Gives one plan back. Throws Failure(INVALID_ARGUMENT) for one that is not in use.
  void release(const polyconv_plan *plan);

  // Lets go of every plan; those in use go when they are given back.
  void clear();

  polyconv_cache_stats stats() const;

 private:
  struct Entry {
    std::string key;
    uint64_t hash;
    std::unique_ptr<polyconv_plan> plan;
    int64_t bytes;
    int64_t users = 0;
    bool dropped = false; // no longer found, alive for its users
  };
  using Entries = std::list<Entry>; // the most recently used first
  using Place = Entries::iterator;

  Place find(std::string_view key, uint64_t hash);
  const polyconv_plan *hand_out(Place entry);
  // What goes is moved to `gone`, to be destroyed when the lock is free: on a GPU that may wait for what runs there,
  // and nobody's hit need wait with it.
  void drop(Place entry, Entries &gone);
  void drop_beyond_limit(Entries &gone);

  const polyconv_device &device_;
  const polyconv::Options options_;
  const polyconv::Tuner &tuner_;
  const int64_t byte_limit_;

  mutable std::mutex mutex_;
  Entries entries_;
  Entries dropped_;
  std::unordered_multimap<uint64_t, Place> by_hash_;
  std::unordered_map<const polyconv_plan *, Place> by_plan_; // dropped ones too
  polyconv_cache_stats counts_ = {};
};
