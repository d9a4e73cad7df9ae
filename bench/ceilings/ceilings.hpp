// ceilings.hpp - what a device can do at best: multiply-adds and copied bytes per second. Measured once a machine by
// `info --ceilings` and kept; measured in the same run where an expectation is stated against them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyconv::bench {

struct CopyLoop;

// Measures one sample at a time.
class RateMeter {
 public:
  virtual ~RateMeter() = default;
  // Whether the device has a rate of multiply-adds of that kind: "fma_f32", "fma_f64", "fma_bf16", "fma_f16",
  // "fma_tf32" or "fma_s8".
  virtual bool has(const std::string &kind) const = 0;
  // Operations a second (a multiply-add is two), measured for about `seconds`. Throws Unable for a kind that it has
  // not.
  virtual double fma(const std::string &kind, double seconds) = 0;
  // Bytes read and written a second by one pass over two arrays that no cache holds.
  virtual double copy() = 0;
};

// On a number of threads of the CPU.
class CpuMeter final : public RateMeter {
 public:
  // `array_bytes` is the size of each of the two arrays that are copied; by default eight times the last cache.
  explicit CpuMeter(int threads, int64_t array_bytes = 0);
  ~CpuMeter() override;

  bool has(const std::string &kind) const override;
  // With the widest unit; and the loop that was fastest here.
  double fma(const std::string &kind, double seconds) override { return fma(kind, seconds, ""); }
  double copy() override { return copy(""); }

  // With the unit `variant`; with the loop `name`.
  double fma(const std::string &kind, double seconds, const std::string &variant);
  double copy(const std::string &name);

 private:
  struct CopyBuffers;
  double copy_with(const CopyLoop &loop);

  int threads_;
  int64_t array_bytes_;
  std::string fastest_copy_;
  std::unique_ptr<CopyBuffers> buffers_; // made at the first copy
};

// One rate: kind as of a RateMeter or "copy", variant a unit, a loop, or how it was found out.
struct Rate {
  std::string kind;
  std::string variant;
  int threads;       // of a GPU always all its multiprocessors
  double per_second; // operations or bytes
};

struct Ceilings {
  std::string processor;
  int processors = 0; // of a CPU, those that this process may use; of a GPU, its multiprocessors
  std::string date;
  std::vector<Rate> rates;

  // The best variant at that many threads; between the measured counts (1 and all) 1 thread scaled up, but never
  // above all, which is at least what 1 reaches. None where nothing was measured.
  std::optional<double> best(const std::string &kind, int threads) const;
};

// What cannot be of these rates, in words: threads that together reach less than one, units that are slower than
// those they replace, kinds that this bench measures on a CPU and these do not have.
std::vector<std::string> doubts_about(const Ceilings &ceilings, const std::vector<std::string> &kinds);

// The kinds of multiply-add that this CPU has units for, and "copy".
std::vector<std::string> kinds_of_cpu();

// What a rate is called for people: "multiply-add bf16".
std::string kind_name(const std::string &kind);

// Measures everything about the CPU: about two seconds.
Ceilings measure_ceilings(const std::string &processor, int processors);

} // namespace polyconv::bench
