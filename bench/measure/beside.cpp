// beside.cpp - arithmetic in registers: it takes processors, and neither caches nor memory.
// SPDX-License-Identifier: Apache-2.0
#include "measure/beside.hpp"

#include <functional>
#include <system_error>

#include "api/handles.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

void compute(const std::atomic<bool> &stop) {
  constexpr int kStretch = 1 << 12; // between two looks
  double value = 1;
  while (!stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < kStretch; ++i) value = value * 0.999 + 1e-3;
    [[maybe_unused]] volatile double kept = value; // so that the compiler leaves the loop
  }
}

} // namespace

Beside::Beside(int threads) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back(compute, std::cref(stop_));
  } catch (const std::system_error &) {
    const size_t given = threads_.size();
    stop();
    throw Unable("unavailable", format("--beside: the system gave %zu of %d threads", given, threads));
  }
}

Beside::~Beside() {
  stop();
}

void Beside::stop() {
  stop_ = true;
  for (std::thread &thread : threads_) thread.join();
}

} // namespace polyconv::bench
