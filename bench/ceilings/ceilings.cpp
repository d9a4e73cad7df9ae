// ceilings.cpp - measures what this machine can do at best.
// SPDX-License-Identifier: Apache-2.0
#include "ceilings.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "../handles.hpp"
#include "../machine.hpp"
#include "../text.hpp"
#include "rates.hpp"

namespace polyconv::bench {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Runs work(i) on `threads` threads that start together; the seconds from the first start to the last end.
double together(int threads, const std::function<void(int)> &work) {
  std::atomic<int> waiting{threads};
  std::vector<Clock::time_point> begin(threads), end(threads);
  const auto body = [&](int i) {
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    begin[i] = Clock::now();
    work(i);
    end[i] = Clock::now();
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(body, i);
  body(0);
  for (std::thread &other : others) other.join();
  return std::chrono::duration<double>(*std::max_element(end.begin(), end.end()) -
                                       *std::min_element(begin.begin(), begin.end()))
      .count();
}

} // namespace

// Two arrays, of the pages that tensors have, touched by the threads that will copy them.
struct CpuMeter::CopyBuffers {
  size_t bytes;
  DeviceObject first_array, second_array;
  unsigned char *source, *destination;

  CopyBuffers(int threads, int64_t array_bytes)
      : bytes(static_cast<size_t>(array_bytes) / 4096 * 4096),
        first_array(make_memory(nullptr, bytes, POLYCONV_MEMORY_DEVICE)),
        second_array(make_memory(nullptr, bytes, POLYCONV_MEMORY_DEVICE)),
        source(static_cast<unsigned char *>(first_array.get())),
        destination(static_cast<unsigned char *>(second_array.get())) {
    together(threads, [&](int i) {
      const auto [first, size] = slice(i, threads);
      for (size_t at = 0; at < size; ++at) source[first + at] = static_cast<unsigned char>(at * 7);
      std::memset(destination + first, 0, size);
    });
  }

  // The whole pages that thread i of `threads` copies.
  std::pair<size_t, size_t> slice(int i, int threads) const {
    const size_t pages = bytes / 4096;
    const size_t begin = pages * static_cast<size_t>(i) / static_cast<size_t>(threads);
    const size_t end = pages * static_cast<size_t>(i + 1) / static_cast<size_t>(threads);
    return {begin * 4096, (end - begin) * 4096};
  }
};

CpuMeter::CpuMeter(int threads, int64_t array_bytes) : threads_(std::max(threads, 1)), array_bytes_(array_bytes) {
  if (array_bytes_ == 0)
    array_bytes_ = std::clamp<int64_t>(8 * last_level_cache(), int64_t{128} << 20, int64_t{1} << 30);
}
CpuMeter::~CpuMeter() = default;

double CpuMeter::fma(bool f64, double seconds, const std::string &isa) {
  const std::vector<FmaLoop> loops = fma_loops();
  FmaLoop loop = loops.back();
  for (const FmaLoop &candidate : loops)
    if (candidate.isa == isa) loop = candidate;
  const auto run = f64 ? loop.f64 : loop.f32;
  constexpr int64_t kProbe = 20000;
  const Clock::time_point begin = Clock::now();
  run(kProbe);
  const double probe = std::max(seconds_since(begin), 1e-7);
  const auto rounds = std::max<int64_t>(kProbe, static_cast<int64_t>(kProbe * seconds / probe));
  std::vector<double> operations(threads_);
  const double elapsed = together(threads_, [&](int i) { operations[i] = run(rounds); });
  return operations[0] * threads_ / elapsed;
}

double CpuMeter::copy_with(const CopyLoop &loop) {
  const double elapsed = together(threads_, [&](int i) {
    const auto [first, size] = buffers_->slice(i, threads_);
    loop.copy(buffers_->destination + first, buffers_->source + first, size);
  });
  return 2.0 * static_cast<double>(buffers_->bytes) / elapsed;
}

double CpuMeter::copy(const std::string &name) {
  if (!buffers_) buffers_ = std::make_unique<CopyBuffers>(threads_, array_bytes_);
  const std::vector<CopyLoop> loops = copy_loops();
  if (name.empty() && fastest_copy_.empty()) {
    double best = 0;
    for (int round = 0; round < 3; ++round) {
      for (const CopyLoop &loop : loops) {
        const double rate = copy_with(loop);
        if (rate > best) best = rate, fastest_copy_ = loop.name;
      }
    }
  }
  const std::string &wanted = name.empty() ? fastest_copy_ : name;
  for (const CopyLoop &loop : loops)
    if (loop.name == wanted) return copy_with(loop);
  throw Error(kUsage, "no copy loop is called '" + wanted + "'");
}

std::optional<double> Ceilings::best(const std::string &kind, int threads) const {
  std::optional<double> one, all;
  for (const Rate &rate : rates) {
    if (rate.kind != kind) continue;
    if (rate.threads == processors) all = std::max(all.value_or(0), rate.per_second);
    if (rate.threads == 1) one = std::max(one.value_or(0), rate.per_second);
  }
  if (threads >= processors || !one) return all;
  return all ? std::min(*one * threads, *all) : *one * threads;
}

Ceilings measure_ceilings(const std::string &processor, int processors) {
  constexpr int kSamples = 7;
  Ceilings ceilings{processor, processors, utc_now(), {}};
  std::vector<int> counts{1};
  if (processors > 1) counts.push_back(processors);
  for (int threads : counts) {
    CpuMeter meter(threads);
    const auto keep = [&](const char *kind, const char *variant, const std::function<double()> &sample) {
      // The best, not the median: a ceiling that other programs have lowered would flatter every kernel.
      double best = 0;
      for (int i = 0; i < kSamples; ++i) best = std::max(best, sample());
      ceilings.rates.push_back({kind, variant, threads, best});
    };
    for (const FmaLoop &loop : fma_loops()) {
      keep("fma_f32", loop.isa, [&] { return meter.fma(false, 0.02, loop.isa); });
      keep("fma_f64", loop.isa, [&] { return meter.fma(true, 0.02, loop.isa); });
    }
    for (const CopyLoop &loop : copy_loops()) keep("copy", loop.name, [&] { return meter.copy(loop.name); });
  }
  return ceilings;
}

} // namespace polyconv::bench
