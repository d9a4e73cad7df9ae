// trace.hpp - a timeline of a run for chrome://tracing and Perfetto: rows, what is done of each, and the steps of its
// plan; and the same as ranges of NVTX, which NVIDIA's profilers show beside their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <fstream>
#include <string>

#include "subject/buffers.hpp"
#include "subject/host_clock.hpp"
#include "subject/planned.hpp"

namespace polyconv::bench {

// Whether this bench was built with NVTX's header.
bool has_nvtx();

// Events are written as they end, in the JSON array that viewers read without its end too: an interrupted run keeps its
// timeline.
class Trace {
 public:
  // `path` may be "" where ranges are all that is wanted. Error(kUsage) for a file that cannot be written, and for
  // ranges that this bench has not.
  Trace(const std::string &path, bool ranges);
  ~Trace(); // ends what goes on

  void row(const std::string &name);   // ends the row before
  void stage(const std::string &name); // ends the stage before
  // A step of a plan's run that began at `begin`, on the track of its device.
  void step(const std::string &kernel, HostClock::time_point begin, double us, const std::string &device);
  // One of the kernels that a GPU ran for a step, where they are known (gpu_kernels.hpp).
  void gpu_kernel(const std::string &name, HostClock::time_point begin, double us, const std::string &device);

  void end();   // of the last row
  void close(); // Error(kUsage) where not all could be written

 private:
  struct Open {
    std::string name;
    HostClock::time_point begin;
  };
  void finish(Open &open, int track, const char *category);
  void begin(Open &open, const std::string &name);
  void write(const std::string &name, const char *category, int track, double begin_us, double us);
  double microseconds(HostClock::time_point time) const;

  std::string path_;
  std::ofstream file_;
  bool ranges_;
  HostClock::time_point start_ = HostClock::now();
  Open row_, stage_;
};

// Runs the problem on a plan of its own whose steps are watched, once to warm up and three times for the trace. Throws
// Unable.
void trace_steps(Trace &trace, const polyconv_device *device, const std::string &device_name, const Work &work,
                 const PlanRequest &request, BufferPool &pool, int64_t memory_limit);

} // namespace polyconv::bench
