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
  // Operations a second (a multiply-add is two), measured for about `seconds`.
  virtual double fma(bool f64, double seconds) = 0;
  // Bytes read and written a second by one pass over two arrays that no cache holds.
  virtual double copy() = 0;
};

// On a number of threads of the CPU.
class CpuMeter final : public RateMeter {
 public:
  // `array_bytes` is the size of each of the two arrays that are copied; by default eight times the last cache.
  explicit CpuMeter(int threads, int64_t array_bytes = 0);
  ~CpuMeter() override;

  // With the widest instruction set; and the loop that was fastest here.
  double fma(bool f64, double seconds) override { return fma(f64, seconds, ""); }
  double copy() override { return copy(""); }

  // With the instruction set `isa`; with the loop `name`.
  double fma(bool f64, double seconds, const std::string &isa);
  double copy(const std::string &name);

 private:
  struct CopyBuffers;
  double copy_with(const CopyLoop &loop);

  int threads_;
  int64_t array_bytes_;
  std::string fastest_copy_;
  std::unique_ptr<CopyBuffers> buffers_; // made at the first copy
};

// One rate: kind "fma_f32", "fma_f64" or "copy", variant an instruction set, a loop, or how it was found out.
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
  // above all. None where nothing was measured.
  std::optional<double> best(const std::string &kind, int threads) const;
};

// Measures everything about the CPU: about two seconds.
Ceilings measure_ceilings(const std::string &processor, int processors);

} // namespace polyconv::bench
