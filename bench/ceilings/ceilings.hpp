// ceilings.hpp - what this machine can do at best: multiply-adds and copied bytes per second. Measured once a
// machine by `info --ceilings` and kept; measured in the same run where an expectation is stated against them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace polyconv::bench {

struct CopyLoop;

// Measures one sample at a time on a number of threads.
class RateMeter {
 public:
  // `array_bytes` is the size of each of the two arrays that are copied; by default eight times the last cache.
  explicit RateMeter(int threads, int64_t array_bytes = 0);
  ~RateMeter();

  // Operations a second (a multiply-add is two) on all threads at once, for about `seconds`; with the instruction
  // set `isa`, or the widest where empty.
  double fma(bool f64, double seconds, const std::string &isa = "");

  // Bytes read and written a second by one pass of all threads over the arrays; with the
  // loop `name`, or the one that was fastest here where empty.
  double copy(const std::string &name = "");

 private:
  struct CopyBuffers;
  double copy_with(const CopyLoop &loop);

  int threads_;
  int64_t array_bytes_;
  std::string fastest_copy_;
  std::unique_ptr<CopyBuffers> buffers_; // made at the first copy
};

// One measured rate: kind "fma_f32", "fma_f64" or "copy", variant an instruction set or a loop.
struct Rate {
  std::string kind;
  std::string variant;
  int threads;
  double per_second; // operations or bytes
};

struct Ceilings {
  std::string processor;
  int processors = 0; // that this process may use
  std::string date;
  std::vector<Rate> rates;

  // The best variant at that many threads; between the measured counts (1 and all) 1 thread scaled up, but never
  // above all. None where nothing was measured.
  std::optional<double> best(const std::string &kind, int threads) const;
};

// Measures everything: about two seconds.
Ceilings measure_ceilings(const std::string &processor, int processors);

} // namespace polyconv::bench
