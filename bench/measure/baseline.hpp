// baseline.hpp - what a row is measured against: another kernel on the same problem, or the machine's own rate.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ceilings/ceilings.hpp"
#include "measure/timing.hpp"
#include "subject/planned.hpp"

namespace polyconv::bench {

// "fma" and "copy" are the time that the problem's operations, or its compulsory bytes, would take at the rate that the
// machine reaches at that moment on the same number of threads. Anything else is a backend's name or a kernel glob.
bool is_ceiling(const std::string &baseline);

// The names of baselines that are not a backend's.
std::vector<std::string> special_baselines();

// Error(kUsage) for a baseline that is neither such a name, nor a backend of `backends`, nor a glob over their kernels.
void refuse_unknown_baseline(const std::string &baseline, const std::vector<std::string> &backends);

// How a baseline that is no ceiling is planned beside `row`. "cudnn" is cudnn/direct in the row's mode, which has the
// products and sums of strict; "cudnn-any" is cudnn/any, whose FFT and Winograd engines only the mode fast admits, and
// beside rows that may round to TF32 cudnn/fast, which may too. "onednn" is onednn/conv@auto, strict beside every row:
// emulated f32 is measured against f32. They and other kernels of cudnn and onednn get `budget_ms` to find their best.
// "openmp" is openmp/*, a glob stays as it is. "unfused" is the library's choice for each layer of a chain alone, found
// by timing in `budget_ms`; of threads', openmp's or tbb's kernels alone beside a row of one of these.
PlanRequest baseline_request(const std::string &baseline, const PlanRequest &row, int64_t budget_ms);

// What a baseline computes of `work`. cuDNN's kernels here have no epilogue: "cudnn" and "cudnn-any" run the sums
// alone, with pooling, which makes the next layer's input, as a step of ours. That is less than the product does, so a
// stricter bar; *left_out says what: "without bias, activation", or nothing.
Work baseline_work(const std::string &baseline, const Work &work, std::string *left_out);

// What a note says of a baseline that may round f32 where the row's mode `row_math` lets the row; else nothing.
std::string baseline_rounding(const std::string &baseline, int32_t row_math, const Work &work);

// The math mode that a baseline must have entered beside a row in mode `row` and of a type.
std::string baseline_mode(const std::string &baseline, const std::string &row, const std::string &type);

// A unit that a layer's operations may run on: its kind of multiply-add, and the share of its rate that counts as the
// layer's own: f32 in three products of bf16 has a third.
struct Unit {
  std::string kind;
  double share;
};
// Every unit that the types of `layer`, which is no network, and the math mode let a kernel use; none where no kind is
// known for the types.
std::vector<Unit> units_for(const Work &layer, int32_t math);

// The sampler of one of the two ceilings, of the fastest unit that `meter` has; it must outlive it. Throws Unable where
// the problem has no such rate.
Sampler ceiling_sampler(const std::string &baseline, const Work &work, int32_t math, RateMeter &meter);

// The seconds that the work takes at least at those ceilings: its operations on the fastest unit, or its bytes,
// whichever take longer; of a network layer by layer. None where a rate is missing.
std::optional<double> seconds_at(const Ceilings &ceilings, int threads, const Work &work, int32_t math);

} // namespace polyconv::bench
