// check_command.cpp - `polyconv-bench check`: every kernel that takes a problem, against the reference, exactly and on
// random data. A loop over polyconv_check, which poisons, guards and compares.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <optional>
#include <polyconv/sdk/check.hpp>

#include "arguments/selection.hpp"
#include "command/commands.hpp"
#include "command/report.hpp"
#include "result/info.hpp"
#include "subject/tensors.hpp"

namespace polyconv::bench {

namespace {

// What one problem costs to check: expected values in f64, absolute sums, two runs, guards.
constexpr double kCopies = 8;
constexpr double kMemoryShare = 0.6;

// "" where the problem can be checked in this machine's memory.
std::string too_large(const Work &work, const polyconv_device *device) {
  auto properties = sized<polyconv_device_properties>();
  require(polyconv_device_get_properties(device, &properties));
  const double needed = kCopies * static_cast<double>(tensor_bytes(work));
  const double limit = kMemoryShare * static_cast<double>(properties.memory_bytes);
  if (properties.memory_bytes == 0 || needed <= limit) return "";
  return "checking it takes about " + show_bytes(needed) + ", more than the " + show_bytes(limit) +
         " that this machine has to spare";
}

void take(Record &record, const check::Result &result) {
  record.kernel = result.kernel;
  if (!result.kernel.empty()) record.backend = backend_of(result.kernel);
  record.math = result.math;
  record.check = check::verdict_name(result.verdict);
  record.reason = result.sentence;
  switch (result.verdict) {
    case check::Verdict::Good:
    case check::Verdict::Skipped: record.status = "good"; break;
    case check::Verdict::Wrong: record.status = "wrong"; break;
    case check::Verdict::Unsupported: record.status = "unsupported"; break;
    case check::Verdict::Failed:
      record.status = polyconv_status_string(result.status == POLYCONV_SUCCESS ? POLYCONV_INTERNAL + 0 : result.status);
  }
  if (result.good() || result.verdict == check::Verdict::Wrong) {
    record.max_abs_err = result.max_abs_err;
    record.rel_l2_err = result.rel_l2_err;
  }
}

class Checker {
 public:
  Checker(const Selection &selection, Report &report) : selection_(selection), report_(report) {}

  // One row for each kernel that takes the work; those that refuse it only where they were named, or where nobody
  // takes it.
  void check(const Work &work, const std::string &device, const MathMode &math, long long threads) {
    const auto row = [&](const std::string &name) {
      Record record = make_record(work, device, name);
      record.requested_math = math.word;
      if (threads > 0) record.threads = threads;
      return record;
    };
    const size_t before = report_.records().size();
    std::string nobody = "no kernel serves the device";
    try {
      if (!work.invalid.empty()) throw Unable("invalid argument", work.invalid);
      const polyconv_device *handle = nullptr;
      require(polyconv_device_find(device.c_str(), &handle));
      const std::string large = too_large(work, handle);
      if (!large.empty()) throw Unable("skipped", large);
      check::Case problem(work.problems);
      for (const std::string &name : names_on(device, selection_)) {
        report_.stage(name + ":");
        Record record = row(name);
        const std::string missing = why_missing(backend_of(name));
        if (missing.empty()) {
          const PlanRequest request = selection_.request(name, math, threads);
          take(record, problem.run_all(handle, options_of(request)));
        } else {
          record.status = "unavailable";
          record.reason = missing;
          record.backend = backend_of(name);
        }
        if (record.status != "unsupported" || named(name))
          keep(record);
        else
          nobody = record.reason;
      }
    } catch (const Unable &unable) {
      Record record = row("");
      record.status = unable.status();
      record.reason = unable.what();
      keep(record);
    }
    if (report_.records().size() == before) {
      Record record = row(join(selection_.globs, ","));
      record.status = "unsupported";
      record.reason = "no kernel asked for takes it; the last one said: " + nobody;
      keep(record);
    }
  }

 private:
  bool named(const std::string &name) const {
    for (const std::string &glob : selection_.globs)
      if (glob == as_named_by(glob, name)) return true;
    return false;
  }
  void keep(const Record &record) { report_.add(record); }

  const Selection &selection_;
  Report &report_;
};

} // namespace

int check_command(const Arguments &a) {
  const Selection selection = select(a, true);
  const size_t total =
      selection.works.size() * selection.devices.size() * selection.maths.size() * selection.threads.size();
  Report report(a, View::kChecks, total, [](const std::vector<Record> &records, size_t) {
    const auto good = std::count_if(records.begin(), records.end(), [](const Record &r) { return r.status == "good"; });
    return format("%lld of %zu rows good\n", static_cast<long long>(good), records.size());
  });
  Checker checker(selection, report);
  for (const Work &work : selection.works)
    for (const std::string &device : selection.devices)
      for (const MathMode &math : selection.maths)
        for (long long threads : selection.threads) {
          report.next(work.title());
          checker.check(work, device, math, threads);
        }
  report.finish();
  return exit_code(report.records());
}

} // namespace polyconv::bench
