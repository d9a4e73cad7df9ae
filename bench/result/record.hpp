// record.hpp - one row of results: everything that is known about one problem on one kernel, whatever became of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "work/work.hpp"

namespace polyconv::bench {

// One line of --profile: a call of the API, a step of the plan, a layer of the network or a copy, with the host's time
// for it and the device's.
struct ProfileLine {
  std::string kind; // "call", "step", "layer", "copy in", "copy out"
  std::string name;
  std::optional<double> host_us, device_us;
  std::optional<int64_t> bytes; // of a copy
};

// One distinct layer of a network, and what it runs on.
struct LayerLine {
  std::string name, problem;
  int64_t count; // how often it occurs
  std::string kernel, math;
  bool fallback;
};

// "40x cuda-tensor/wgmma, 13x cuda-direct/direct (fallback)": the kernels without their configs, the most frequent
// first.
std::string kernels_text(const std::vector<LayerLine> &layers);

struct Record {
  // What was asked.
  std::string problem, suite, name, type, device;
  int64_t count = 1;     // how often the layer occurs in its network
  std::string technique; // of a ladder, "" elsewhere
  std::string requested; // the kernel glob, "" for the library's choice
  std::string requested_math = "strict";
  int64_t requested_threads = 0; // 0 for all
  std::string grouping;          // of a chain, as asked for; "" for the planner's choice
  std::optional<int64_t> threads;
  int64_t beside = 0; // busy threads of the bench beside the measurement
  std::string cache = "warm";

  // What became of it: "good", "wrong", "skipped" (too large for this machine), or the words of the library's status.
  std::string status = "good";
  std::string reason;                // why not good; "" otherwise
  std::string backend, kernel, note; // note: what the kernel says of how it runs this, if anything
  std::string math;                  // the mode entered
  bool fallback = false;             // of a network: in any layer
  std::vector<LayerLine> layers;     // of a network, as far as they could be planned

  // Times in microseconds; what was not measured is absent.
  std::optional<double> median_us, p95_us, min_us, first_us, plan_us, pack_us;
  std::optional<double> median_low_us, median_high_us; // where the true median lies with 95 %
  std::optional<double> image_us;                      // of a network: the median over the images of its batch
  std::optional<double> cold_us, cold_ratio;
  std::string clock;             // of the median: "wall", "events" of the device, or events around a "graph" of runs
  std::optional<double> wall_us; // of one run and the wait for it, where the median is not by the wall clock
  std::optional<double> transfers_us, end_to_end_us;
  // How many times as fast as the first row of the problem, which is the first technique or the first device; without
  // and with transfers.
  std::optional<double> speedup, transfers_speedup;
  bool best = false; // of the configs of a sweep: known when all are measured, so that only tables show it
  std::optional<double> estimate_us; // the library's prediction
  std::optional<int64_t> samples;

  std::optional<double> gflop, bytes; // of one run
  std::optional<double> gflops, gbps, roofline_pct;
  std::optional<int64_t> workspace_bytes, weights_bytes;

  // Against the baseline: ratio is its time over ours, above 1 where we are faster.
  std::string baseline, baseline_kernel, baseline_note, baseline_math, baseline_reason;
  std::optional<double> baseline_us, ratio;
  std::optional<double> baseline_err; // as rel_l2_err

  std::vector<ProfileLine> profile; // none unless asked for

  std::optional<double> max_abs_err, rel_l2_err;
  std::optional<double> bound_pct; // how much of its rounding bound the worst element's error takes
  std::string check = "none";      // "good", "wrong", "none", or why it was left out

  // Where it was measured.
  std::string library_version, backend_version, device_name, driver, date;
};

// A record with what is known before anything has been tried.
Record make_record(const Work &work, const std::string &device, const std::string &requested);

// "f32", or input-weights-output where they differ; "mixed" of a network whose layers do.
std::string type_of(const Work &work);

using Value = std::variant<std::monostate, std::string, double, int64_t, bool>; // monostate: null

struct Field {
  const char *name;
  Value value;
};

// The format of records that this bench writes; a file of a later one is refused. A field that is added changes
// nothing; one whose meaning changes does.
inline constexpr int64_t kRecordFormat = 1;

// Every field of a record, in the order in which they are written. Absent and non-finite numbers are null.
std::vector<Field> fields_of(const Record &record);

// "a/b@c + d/e@f" -> "a/b + d/e".
std::string without_configs(const std::string &kernel);

// "cuda-tensor" of "cuda-tensor/wgmma_f16@128x256x64".
std::string backend_of(const std::string &kernel);

// Whether a status says that something went wrong; not that it was left out, or that nobody here takes it.
inline bool is_failure(const std::string &status) {
  return status != "good" && status != "skipped" && status != "unsupported" && status != "unavailable";
}

} // namespace polyconv::bench
