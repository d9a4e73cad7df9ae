// pool.cpp - see pool.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/pool.hpp"

#include <algorithm>

namespace polyconv_ort {
namespace {

// To eighths of a power of two, so that sizes that are nearly alike share blocks.
size_t rounded(size_t bytes) {
  size_t unit = POLYCONV_ALIGNMENT;
  while (unit * 16 <= bytes) unit *= 2;
  return std::max<size_t>(1, (bytes + unit - 1) / unit) * unit;
}

} // namespace

Pool::~Pool() {
  release_all();
}

void *Pool::take(size_t bytes, void *stream, bool any) {
  bytes = rounded(bytes);
  std::lock_guard<std::mutex> lock(mutex_);
  void *block = any ? reuse(idle_of_any_, bytes, true) : reuse(idle_[stream], bytes, false);
  if (!block) {
    polyconv_status status = polyconv_device_alloc(device_.get(), bytes, POLYCONV_MEMORY_DEVICE, &block);
    if (status == POLYCONV_OUT_OF_MEMORY) {
      release_all();
      status = polyconv_device_alloc(device_.get(), bytes, POLYCONV_MEMORY_DEVICE, &block);
    }
    polyconv::require(status);
    used_[block] = {bytes, nullptr, true};
  }
  Block &taken = used_[block];
  taken.stream = stream, taken.any = any;
  used_bytes_ += taken.bytes;
  most_used_ = std::max(most_used_, used_bytes_);
  return block;
}

// The smallest idle block that is large enough and not twice as large.
void *Pool::reuse(Idles &idles, size_t bytes, bool any) {
  auto found = idles.lower_bound(bytes);
  if (found == idles.end() || found->first > 2 * bytes) return nullptr;
  const Idle idle = found->second;
  used_[idle.block] = {found->first, nullptr, any};
  idle_bytes_ -= found->first;
  idles.erase(found);
  if (any) drain_since(idle.since);
  return idle.block;
}

void Pool::give(void *block) {
  if (!block) return;
  std::lock_guard<std::mutex> lock(mutex_);
  auto found = used_.find(block);
  if (found == used_.end()) return; // not ours: nothing that would be right to do
  const Block given = found->second;
  used_.erase(found);
  used_bytes_ -= given.bytes, idle_bytes_ += given.bytes;
  Idles &idles = given.any || !drained_.count(given.stream) ? idle_of_any_ : idle_[given.stream];
  idles.emplace(given.bytes, Idle{block, ++given_});
  trim();
}

// Gives the largest idle blocks back to the device, which waits for whatever still uses them.
void Pool::trim() {
  while (idle_bytes_ > most_used_) {
    Idles *largest = nullptr;
    auto look = [&](Idles &idles) {
      if (!idles.empty() && (!largest || idles.rbegin()->first > largest->rbegin()->first)) largest = &idles;
    };
    look(idle_of_any_);
    for (auto &entry : idle_) look(entry.second);
    if (!largest) return;
    auto last = std::prev(largest->end());
    polyconv_device_free(device_.get(), last->second.block, POLYCONV_MEMORY_DEVICE);
    idle_bytes_ -= last->first;
    largest->erase(last);
  }
}

void Pool::release_all() {
  auto release = [&](Idles &idles) {
    for (const auto &entry : idles)
      polyconv_device_free(device_.get(), entry.second.block, POLYCONV_MEMORY_DEVICE), idle_bytes_ -= entry.first;
    idles.clear();
  };
  release(idle_of_any_);
  for (auto &entry : idle_) release(entry.second);
}

void Pool::opened(void *stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  drained_[stream] = given_;
}

void Pool::synchronize(void *stream) {
  int64_t before = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    before = given_;
  }
  polyconv::require(polyconv_stream_synchronize(device_.get(), stream)); // others may go on meanwhile
  std::lock_guard<std::mutex> lock(mutex_);
  if (drained_.count(stream)) drained_[stream] = before;
}

void Pool::closed(void *stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  drained_.erase(stream);
  auto found = idle_.find(stream);
  if (found == idle_.end()) return;
  for (const auto &entry : found->second) idle_of_any_.insert(entry);
  idle_.erase(found);
}

void Pool::drain() {
  std::lock_guard<std::mutex> lock(mutex_);
  drain_since(given_ + 1);
}

// Waits for each stream that has not been waited for since then.
void Pool::drain_since(int64_t since) {
  for (auto &entry : drained_) {
    if (entry.second >= since) continue;
    polyconv::require(polyconv_stream_synchronize(device_.get(), entry.first));
    entry.second = given_;
  }
}

} // namespace polyconv_ort
