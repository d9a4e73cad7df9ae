// tune_command.cpp - `polyconv-bench tune`: times the candidates of problems by polyconv_tune, which keeps the times.
// What is known already is not timed again, so an interrupted command is simply given again.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>

#include "arguments/selection.hpp"
#include "command/commands.hpp"
#include "result/info.hpp"
#include "subject/planned.hpp"
#include "system/machine.hpp"
#include "system/progress.hpp"

namespace polyconv::bench {

namespace {

constexpr int kInterrupted = 130; // as shells say it of SIGINT

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C ends the tuning behind the candidate at hand; the next one ends the program.
extern "C" void on_interrupt(int) {
  interrupted = 1;
  std::signal(SIGINT, SIG_DFL);
}

// "40 s", "12 min"; "" while nobody can know.
std::string time_left(double ms) {
  if (ms < 0) return "";
  const double seconds = ms * 1e-3;
  return seconds < 100 ? format("about %.0f s left", seconds) : format("about %.0f min left", seconds / 60);
}

// Works of one layer each, on one device after another, and what is told of them while they are timed.
class Tuning {
 public:
  Tuning(const Selection &selection, double budget_s, const std::string &progress)
      : selection_(selection),
        budget_s_(budget_s),
        runs_(selection.devices.size() * selection.maths.size() * selection.threads.size()),
        progress_(selection.works.size() * runs_, progress) {
    for (const Work &work : selection.works) problems_.push_back(work.problems.front());
  }

  // An exit code. Throws Error where times were taken that no file could take.
  int run() {
    const int code = tune_all();
    if (unkept_ > 0)
      throw Error(kUsage,
                  format("the times of %zu candidates were taken and could not be kept: ", unkept_) + why_unkept_);
    return code;
  }

 private:
  int tune_all() {
    const std::string filter = join(selection_.globs, ",");
    for (const std::string &device : selection_.devices)
      for (const MathMode &math : selection_.maths)
        for (const long long threads : selection_.threads)
          if (!tune(device, selection_.request(filter, math, threads, ""))) return stopped();
    progress_.wipe();
    return code_;
  }

  double left_s() const {
    return budget_s_ - std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  // False where not all problems were done. Throws Error where the device is missing.
  bool tune(const std::string &device, const PlanRequest &request) {
    const polyconv_device *handle = nullptr;
    if (polyconv_device_find(device.c_str(), &handle) != POLYCONV_SUCCESS) throw Error(kMissing, polyconv_last_error());
    if (interrupted != 0 || (budget_s_ > 0 && left_s() <= 0)) return false;
    const polyconv_options options = options_of(request);
    const int64_t budget_ms =
        budget_s_ > 0 ? static_cast<int64_t>(std::ceil(left_s() / static_cast<double>(runs_ - done_runs_) * 1e3)) : 0;
    device_ = device;
    done_here_ = 0;
    begin(0);
    require(polyconv_tune(
        handle, problems_.data(), static_cast<int32_t>(problems_.size()), &options, budget_ms,
        [](void *self, const polyconv_tune_progress *now) -> int32_t {
          return static_cast<Tuning *>(self)->hear(*now) ? 0 : 1;
        },
        this));
    ++done_runs_;
    return done_here_ == problems_.size();
  }

  void begin(size_t problem) {
    progress_.next(selection_.works[problem].title() + " on " + device_);
    if (!left_.empty()) progress_.stage(left_ + ":");
  }

  bool hear(const polyconv_tune_progress &now) {
    left_ = time_left(now.left_ms);
    if (now.finished == 0) {
      progress_.stage(format("%d timed", now.timed + now.known) + (left_.empty() ? "" : ", " + left_) + ":");
      return interrupted == 0;
    }
    progress_.wipe();
    const bool taken = now.kernel[0] != '\0';
    if (!taken) code_ = kUnsupported;
    if (now.unkept > 0) unkept_ += static_cast<size_t>(now.unkept), why_unkept_ = now.reason;
    std::cout << (taken ? format("%.4g us  ", now.us) + now.kernel : std::string("nobody takes it")) << "  "
              << now.token << " on " << device_ << std::endl; // at once: the command may be killed
    ++done_;
    ++done_here_;
    const size_t next = static_cast<size_t>(now.problem) + 1;
    if (next < problems_.size()) begin(next);
    return interrupted == 0;
  }

  int stopped() {
    progress_.wipe();
    std::cerr << format("polyconv-bench: %s behind %zu of %zu problems%s\n",
                        interrupted != 0 ? "interrupted" : "the budget is spent", done_, problems_.size() * runs_,
                        unkept_ > 0 ? "" : "; what was timed is kept, and the same command goes on from there");
    return interrupted != 0 ? kInterrupted : code_;
  }

  const Selection &selection_;
  const double budget_s_; // 0: none
  const size_t runs_;
  Progress progress_;
  std::vector<polyconv_problem> problems_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::string device_, left_;
  size_t done_ = 0, done_here_ = 0, done_runs_ = 0;
  size_t unkept_ = 0;
  std::string why_unkept_;
  int code_ = kGood;
};

int merge(const std::vector<std::string> &paths) {
  for (const std::string &path : paths) {
    int64_t taken = 0;
    if (polyconv_tune_merge(path.c_str(), &taken) != POLYCONV_SUCCESS) throw Error(kUsage, polyconv_last_error());
    std::cout << format("%lld lines taken from %s\n", static_cast<long long>(taken), path.c_str());
  }
  return kGood;
}

// Has the library fill this file and read no other but what ships. It looks at its settings at the first plan.
void fill(const std::string &file) {
#if defined(_WIN32)
  constexpr char kSeparator = ';';
#else
  constexpr char kSeparator = ':';
#endif
  const std::string path = std::filesystem::absolute(file).string();
  if (path.find(kSeparator) != std::string::npos)
    throw Error(kUsage,
                format("--database '%s' has a '%c', which separates files in POLYCONV_TUNING_DB; expected a path "
                       "without",
                       path.c_str(), kSeparator));
  set_environment("POLYCONV_TUNING_DB", path);
}

// Single layers, each of which is valid.
void check(const Selection &selection) {
  for (const Work &work : selection.works) {
    if (!work.invalid.empty()) throw Error(kUsage, work.invalid);
    if (work.problems.size() != 1)
      throw Error(kUsage, "tune: '" + work.token + "' is a chain, of which no times are kept; expected single layers");
  }
}

} // namespace

int tune_command(const Arguments &typed) {
  Arguments a = typed;
  if (a.tune == "0") a.tune = "5";
  // A network is tuned layer by layer, each distinct one once.
  if (!a.networks.empty()) a.suites += (a.suites.empty() ? "" : ",") + a.networks;
  a.networks.clear();
  if (!a.database.empty()) fill(a.database);
  const bool merges = !a.merges.empty();
  if (merges) {
    const int code = merge(a.merges);
    if (a.problems.empty() && a.suites.empty()) return code;
  }
  const Selection selection = select(a, true);
  check(selection);
  const double budget_s = parse_seconds(a.budget, "--budget");
  std::signal(SIGINT, on_interrupt);
  return Tuning(selection, budget_s, a.progress).run();
}

} // namespace polyconv::bench
