// ceilings.cpp - measures what this machine can do at best.
// SPDX-License-Identifier: Apache-2.0
#include "ceilings/ceilings.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "api/handles.hpp"
#include "ceilings/rates.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"

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

bool CpuMeter::has(const std::string &kind) const {
  const std::vector<FmaLoop> loops = fma_loops();
  return std::any_of(loops.begin(), loops.end(), [&](const FmaLoop &loop) { return kind == loop.kind; });
}

double CpuMeter::fma(const std::string &kind, double seconds, const std::string &variant) {
  double (*run)(int64_t) = nullptr;
  for (const FmaLoop &loop : fma_loops())
    if (kind == loop.kind && (variant.empty() || variant == loop.variant)) run = loop.run;
  if (!run) throw Unable("unsupported", "this processor has no unit for " + kind_name(kind));
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
  if (all && one) all = std::max(*all, *one); // together they reach at least what one of them does
  if (threads >= processors || !one) return all;
  return all ? std::min(*one * threads, *all) : *one * threads;
}

std::vector<std::string> kinds_of_cpu() {
  std::vector<std::string> kinds = {"copy"};
  for (const FmaLoop &loop : fma_loops())
    if (std::find(kinds.begin(), kinds.end(), loop.kind) == kinds.end()) kinds.emplace_back(loop.kind);
  return kinds;
}

std::string kind_name(const std::string &kind) {
  return kind.rfind("fma_", 0) == 0 ? "multiply-add " + kind.substr(4) : kind;
}

std::vector<std::string> doubts_about(const Ceilings &ceilings, const std::vector<std::string> &kinds) {
  constexpr double kNoise = 0.95; // of what is compared: both are measured
  std::vector<std::string> doubts;
  const auto best_at = [&](const std::string &kind, int threads) {
    double best = 0;
    for (const Rate &rate : ceilings.rates)
      if (rate.kind == kind && rate.threads == threads) best = std::max(best, rate.per_second);
    return best;
  };
  const auto words = [](double rate) { return show_number(rate * 1e-9) + " G/s"; };
  for (const std::string &kind : kinds) {
    const double one = best_at(kind, 1), all = best_at(kind, ceilings.processors);
    if (all <= 0) {
      doubts.push_back(kind_name(kind) + " is not measured");
    } else if (one > 0 && all < kNoise * one) {
      doubts.push_back(format("%s: %d threads reach %s, one alone %s", kind_name(kind).c_str(), ceilings.processors,
                              words(all).c_str(), words(one).c_str()));
    }
  }
  for (const auto &[quick, slow] : {std::pair("fma_f32", "fma_f64"), std::pair("fma_bf16", "fma_f32")}) {
    const double above = best_at(quick, ceilings.processors), below = best_at(slow, ceilings.processors);
    if (above > 0 && below > 0 && above < kNoise * below)
      doubts.push_back(format("%s reaches %s, %s %s", kind_name(quick).c_str(), words(above).c_str(),
                              kind_name(slow).c_str(), words(below).c_str()));
  }
  return doubts;
}

Ceilings measure_ceilings(const std::string &processor, int processors) {
  constexpr int kSamples = 7;
  Ceilings ceilings{processor, processors, utc_now(), {}};
  std::vector<int> counts{1};
  if (processors > 1) counts.push_back(processors);
  for (int threads : counts) {
    CpuMeter meter(threads);
    const auto keep = [&](const std::string &kind, const std::string &variant, const std::function<double()> &sample) {
      // The best, not the median: a ceiling that other programs have lowered would flatter every kernel.
      double best = 0;
      for (int i = 0; i < kSamples; ++i) best = std::max(best, sample());
      ceilings.rates.push_back({kind, variant, threads, best});
    };
    for (const FmaLoop &loop : fma_loops())
      keep(loop.kind, loop.variant, [&] { return meter.fma(loop.kind, 0.02, loop.variant); });
    for (const CopyLoop &loop : copy_loops()) keep("copy", loop.name, [&] { return meter.copy(loop.name); });
  }
  return ceilings;
}

} // namespace polyconv::bench
