// job.hpp - what one row of `run` asks for, and how every row of a command is measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "subject/planned.hpp"

namespace polyconv::bench {

struct Job {
  Work work;
  std::string device; // "cpu"
  PlanRequest request;
  std::string math; // the word of request.math
  std::string baseline;
  std::string technique; // of a ladder
};

class Trace; // trace.hpp

// Of timed runs; kWarm measures the ratio of cold to warm beside them.
enum class Cache { kWarm, kWarmOnly, kCold };

enum class Verify { kAuto, kAlways, kNever };

struct RunSettings {
  double min_seconds = 0.1;
  Cache cache = Cache::kWarm;
  bool transfers = false;
  bool end_to_end = false;
  bool profile = false;
  bool graph = false; // rows that have no baseline too
  int32_t beside = 0; // busy threads beside every row
  Verify verify = Verify::kAuto;
  Trace *trace = nullptr;     // where steps are told, if anywhere
  int64_t baseline_ms = 4000; // for a vendor's baseline to find its best engine
};

} // namespace polyconv::bench
