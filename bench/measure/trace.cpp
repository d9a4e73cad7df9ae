// trace.cpp - a timeline of a run. Format: the "Trace Event Format" of Chrome, complete events ("ph": "X"),
// microseconds.
// SPDX-License-Identifier: Apache-2.0
#include "measure/trace.hpp"

#include "measure/gpu_kernels.hpp"
#include "measure/step_watch.hpp"
#include "result/json.hpp"
#include "subject/subject.hpp"
#include "text/text.hpp"

#ifdef POLYCONV_NVTX
#include <nvtx3/nvToolsExt.h> // a header alone: without a profiler its calls do nothing
#endif

namespace polyconv::bench {

namespace {

constexpr int kRows = 1, kStages = 2, kSteps = 3, kKernels = 4; // tracks

void push_range(const char *name) {
#ifdef POLYCONV_NVTX
  nvtxRangePushA(name);
#else
  (void)name;
#endif
}

void pop_range() {
#ifdef POLYCONV_NVTX
  nvtxRangePop();
#endif
}

} // namespace

bool has_nvtx() {
#ifdef POLYCONV_NVTX
  return true;
#else
  return false;
#endif
}

Trace::Trace(const std::string &path, bool ranges) : path_(path), ranges_(ranges) {
  if (ranges && !has_nvtx())
    throw Error(kUsage, "--nvtx: this polyconv-bench was built without nvtx3/nvToolsExt.h, which the CUDA Toolkit has");
  if (path.empty()) return;
  file_.open(path);
  if (!file_) throw Error(kUsage, "--trace: cannot write the file " + path);
  file_ << "[\n";
  for (const auto &[track, name] :
       {std::pair<int, const char *>{kRows, "rows"}, {kStages, "stages"}, {kSteps, "steps"}, {kKernels, "GPU kernels"}})
    file_ << R"({"ph":"M","name":"thread_name","pid":1,"tid":)" << track << R"(,"args":{"name":")" << name << "\"}},\n";
}

Trace::~Trace() {
  end();
}

double Trace::microseconds(HostClock::time_point time) const {
  return std::chrono::duration<double, std::micro>(time - start_).count();
}

void Trace::write(const std::string &name, const char *category, int track, double begin_us, double us) {
  if (!file_.is_open()) return;
  file_ << R"({"ph":"X","name":)" << json_string(name) << R"(,"cat":")" << category << R"(","pid":1,"tid":)" << track
        << format(",\"ts\":%.3f,\"dur\":%.3f},\n", begin_us, us);
}

void Trace::begin(Open &open, const std::string &name) {
  open = {name, HostClock::now()};
  if (ranges_) push_range(name.c_str());
}

void Trace::finish(Open &open, int track, const char *category) {
  if (open.name.empty()) return;
  if (ranges_) pop_range();
  write(open.name, category, track, microseconds(open.begin), seconds_since(open.begin) * 1e6);
  open.name.clear();
}

void Trace::row(const std::string &name) {
  end();
  begin(row_, name);
}

void Trace::stage(const std::string &name) {
  finish(stage_, kStages, "stage");
  begin(stage_, name);
}

void Trace::step(const std::string &kernel, HostClock::time_point begin, double us, const std::string &device) {
  write(kernel, device.c_str(), kSteps, microseconds(begin), us);
}

void Trace::gpu_kernel(const std::string &name, HostClock::time_point begin, double us, const std::string &device) {
  write(name, device.c_str(), kKernels, microseconds(begin), us);
}

void Trace::end() {
  finish(stage_, kStages, "stage");
  finish(row_, kRows, "row");
  file_.flush();
}

void Trace::close() {
  end();
  if (!file_.is_open()) return;
  file_ << R"({"ph":"M","name":"process_name","pid":1,"args":{"name":"polyconv-bench"}}])"
        << "\n";
  file_.close();
  if (!file_) throw Error(kUsage, "--trace: the file " + path_ + " could not be written to its end");
}

void trace_steps(Trace &trace, const polyconv_device *device, const std::string &device_name, const Work &work,
                 const PlanRequest &request, BufferPool &pool, int64_t memory_limit) {
  constexpr int kRuns = 3;
  const bool gpu = device_name != "cpu";
  StepWatch watch(device, gpu);
  Subject subject(device, work, watch.watched(request), pool, "workspace", memory_limit);
  for (int run = 0; run <= kRuns; ++run) {
    const bool records = gpu && run > 0 && begin_gpu_kernels();
    HostClock::time_point begin = HostClock::now();
    subject.submit();
    subject.wait();
    const std::vector<GpuKernel> kernels = records ? take_gpu_kernels() : std::vector<GpuKernel>();
    if (run == 0) continue;                              // caches are cold, and memory new
    if (!kernels.empty()) begin = kernels.front().begin; // the steps' events have no clock of the host's
    for (const StepWatch::Step &step : watch.last(begin)) trace.step(step.kernel, step.begin, step.us, device_name);
    for (const GpuKernel &kernel : kernels) trace.gpu_kernel(kernel.name, kernel.begin, kernel.us, device_name);
  }
}

} // namespace polyconv::bench
