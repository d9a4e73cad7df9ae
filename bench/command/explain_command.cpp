// explain_command.cpp - `polyconv-bench explain`: the library's own answer, as text or as JSON.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "arguments/selection.hpp"
#include "command/commands.hpp"
#include "print/output.hpp"
#include "result/explain.hpp"
#include "result/info.hpp"
#include "result/json.hpp"
#include "system/progress.hpp"
#include "system/terminal.hpp"

namespace polyconv::bench {

namespace {

std::vector<Candidate> candidates_of(const polyconv_explanation *explanation) {
  std::vector<Candidate> candidates;
  for (int32_t i = 0; i < polyconv_explanation_count(explanation); ++i) {
    auto c = sized<polyconv_candidate>();
    require(polyconv_explanation_get(explanation, i, &c));
    candidates.push_back({c.kernel, c.reason, c.accepted != 0, c.chosen != 0, c.fallback != 0, c.estimate_us,
                          c.workspace_bytes, c.measured != 0, c.grouping, c.note, c.saved_bytes, c.recomputed_outputs,
                          c.blocks, c.shared_bytes, c.threads, static_cast<double>(c.occupancy)});
  }
  return candidates;
}

int explain(const Work &work, const std::string &device, const PlanRequest &request, bool json, size_t columns,
            std::ostream &out) {
  if (!work.invalid.empty()) throw Error(kUsage, work.invalid);
  const polyconv_device *handle = nullptr;
  if (polyconv_device_find(device.c_str(), &handle) != POLYCONV_SUCCESS) throw Error(kMissing, polyconv_last_error());
  const polyconv_options options = options_of(request);
  polyconv_explanation *raw = nullptr;
  require(polyconv_explain(handle, work.problems.data(), static_cast<int32_t>(work.problems.size()), &options, &raw));
  const ExplanationHandle explanation(raw);
  const std::vector<Candidate> candidates = candidates_of(raw);
  const std::string text = polyconv_explanation_text(raw);
  out << (json ? explanation_json(work.token, device, text, candidates) : wrapped(text, columns));
  if (!json && (text.empty() || text.back() != '\n')) out << "\n";
  const bool chosen = std::any_of(candidates.begin(), candidates.end(), [](const Candidate &c) { return c.chosen; });
  return chosen ? kGood : kUnsupported;
}

} // namespace

int explain_command(const Arguments &a) {
  const Selection selection = select(a, true);
  // One question takes all the kernels asked for at once: the others are listed as left out by the filter.
  const std::string filter = join(selection.globs, ",");
  Output output(a, {".json"});
  const bool json = output_format(a.output, a.out_file) == "json";
  int code = kGood;
  for (const std::string &glob : selection.globs) {
    const std::string missing = why_missing(backend_of(glob));
    if (missing.empty()) continue;
    std::cerr << "polyconv-bench: " << missing << "\n";
    code = kMissing;
  }
  const size_t columns = a.out_file.empty() ? stdout_columns() : 0;
  bool first = true;
  Progress progress(selection.works.size() * selection.devices.size() * selection.maths.size() *
                        selection.threads.size() * selection.groupings.size(),
                    a.progress);
  for (const Work &work : selection.works)
    for (const std::string &device : selection.devices)
      for (const MathMode &math : selection.maths)
        for (long long threads : selection.threads)
          for (const std::string &grouping : selection.groupings) {
            if (!first && !json) output.stream() << "\n";
            first = false;
            progress.next(work.title() + " on " + device);
            if (a.out_file.empty()) progress.wipe();
            const int answer = explain(work, device, selection.request(filter, math, threads, grouping), json, columns,
                                       output.stream());
            if (code == kGood) code = answer;
          }
  output.finish();
  return code;
}

} // namespace polyconv::bench
