// tune_command.cpp - `polyconv-bench tune`: every problem is planned with a tuning budget, by which the library fills
// its tuning database. What is in there already is not timed again, so an interrupted command is simply given again.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>

#include "arguments/selection.hpp"
#include "command/commands.hpp"
#include "result/info.hpp"
#include "system/progress.hpp"

namespace polyconv::bench {

namespace {

// One line of the answer: the kernel that plans take from now on, and its time.
struct Tuned {
  std::string kernel;
  double us = 0;
  bool measured = false;
};

// Throws Error where the device is missing; no kernel where nobody takes the problem.
Tuned tune(const Work &work, const std::string &device, const PlanRequest &request) {
  const polyconv_device *handle = nullptr;
  if (polyconv_device_find(device.c_str(), &handle) != POLYCONV_SUCCESS) throw Error(kMissing, polyconv_last_error());
  const polyconv_options options = options_of(request);
  polyconv_explanation *raw = nullptr;
  require(polyconv_explain(handle, work.problems.data(), static_cast<int32_t>(work.problems.size()), &options, &raw));
  const ExplanationHandle explanation(raw);
  auto first = sized<polyconv_candidate>();
  if (polyconv_explanation_count(raw) == 0) return {};
  require(polyconv_explanation_get(raw, 0, &first));
  if (first.accepted == 0 || first.chosen == 0) return {};
  return {first.kernel, first.estimate_us, first.measured != 0};
}

// "about 40 s left", from what the steps so far took; "" before the first is done.
std::string time_left(std::chrono::steady_clock::time_point start, size_t done, size_t total) {
  if (done == 0) return "";
  const double gone = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return format(", about %.0f s left", gone / static_cast<double>(done) * static_cast<double>(total - done));
}

void refuse_where_nothing_is_kept() {
  const char *mode = std::getenv("POLYCONV_TUNING");
  const std::string word = mode != nullptr ? mode : "";
  if (word == "off" || word == "freeze")
    throw Error(kUsage, "POLYCONV_TUNING is " + word + ", under which nothing is kept; expected on");
}

} // namespace

int tune_command(const Arguments &typed) {
  refuse_where_nothing_is_kept();
  Arguments a = typed;
  if (a.tune == "0") a.tune = "5";
  const Selection selection = select(a, true);
  for (const Work &work : selection.works) {
    if (!work.invalid.empty()) throw Error(kUsage, work.invalid);
    if (work.problems.size() != 1)
      throw Error(kUsage, "tune: '" + work.token + "' is a chain, of which no times are kept; expected single layers");
  }
  const std::string filter = join(selection.globs, ",");
  const size_t total =
      selection.works.size() * selection.devices.size() * selection.maths.size() * selection.threads.size();
  Progress progress(total, a.progress);
  const auto start = std::chrono::steady_clock::now();
  size_t done = 0;
  int code = kGood;
  for (const Work &work : selection.works)
    for (const std::string &device : selection.devices)
      for (const MathMode &math : selection.maths)
        for (const long long threads : selection.threads) {
          progress.next(work.title() + " on " + device + time_left(start, done++, total));
          const Tuned tuned = tune(work, device, selection.request(filter, math, threads, ""));
          progress.wipe();
          if (tuned.kernel.empty()) code = kUnsupported;
          const std::string time = tuned.measured ? format("%.4g us", tuned.us) : "not timed";
          std::cout << (tuned.kernel.empty() ? "nobody takes it" : time + "  " + tuned.kernel) << "  " << work.token
                    << " on " << device << std::endl; // at once: the command may be interrupted
        }
  return code;
}

} // namespace polyconv::bench
