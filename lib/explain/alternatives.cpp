// alternatives.cpp - "what if": the same question under one other option at a time.
// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.hpp"
#include "registry/device.hpp"
#include "tune/tune.hpp"

#include <algorithm>
#include <cstdio>
#include <limits>

namespace polyconv {
namespace {

// A change of the question, and how a caller makes it.
struct Change {
  std::string words;
  Question question;
};

class Changes {
 public:
  explicit Changes(const Question &question) : question_(question) {}

  template <class Apply>
  void add_if(bool sensible, const std::string &words, Apply &&apply) {
    if (!sensible) return;
    Change change = {words, question_};
    apply(change.question);
    changes_.push_back(std::move(change));
  }

  const std::vector<Change> &all() const { return changes_; }

 private:
  const Question &question_;
  std::vector<Change> changes_;
};

std::vector<Change> possible_changes(const Question &question) {
  const polyconv_policy &policy = question.options.policy;
  Changes changes(question);
  for (int32_t mode = policy.math + 1; mode <= POLYCONV_MATH_FAST; ++mode)
    changes.add_if(true, std::string("math ") + math_name(mode),
                   [mode](Question &changed) { changed.options.policy.math = mode; });
  for (int32_t level = policy.determinism - 1; level >= POLYCONV_DETERMINISM_NONE; --level)
    changes.add_if(true, "determinism " + std::to_string(level),
                   [level](Question &changed) { changed.options.policy.determinism = level; });
  changes.add_if(policy.bind == 0, "bind", [](Question &changed) { changed.options.policy.bind = 1; });
  changes.add_if(policy.dynamic_weights != 0, "dynamic_weights 0",
                 [](Question &changed) { changed.options.policy.dynamic_weights = 0; });
  changes.add_if(
      policy.workspace_limit != std::numeric_limits<int64_t>::max(), "a larger workspace_limit",
      [](Question &changed) { changed.options.policy.workspace_limit = std::numeric_limits<int64_t>::max(); });
  changes.add_if(
      policy.shared_memory_limit != std::numeric_limits<int64_t>::max(), "a larger shared_memory_limit",
      [](Question &changed) { changed.options.policy.shared_memory_limit = std::numeric_limits<int64_t>::max(); });
  changes.add_if(!question.options.grouping.empty(), "without options.grouping",
                 [](Question &changed) { changed.options.grouping.clear(); });
  changes.add_if(question.options.values.fallback == POLYCONV_FALLBACK_ERROR, "fallback warn or allow",
                 [](Question &changed) { changed.options.values.fallback = POLYCONV_FALLBACK_ALLOW; });
  changes.add_if(!question.filter.empty(), std::string("without ") + question.options.kernel_from,
                 [](Question &changed) { changed.filter = Filter(); });
  std::vector<const Backend *> named;
  for (const KernelEntry &entry : *question.kernels) {
    const Backend *backend = entry.backend;
    const bool known = std::find(named.begin(), named.end(), backend) != named.end();
    if (known || !backend->on_request || question.filter.names(backend->name)) continue;
    named.push_back(backend);
    changes.add_if(true, "kernel '" + backend->name + "/*' (only taken when named)",
                   [backend](Question &changed) { changed.filter = Filter(backend->name + "/*"); });
  }
  return changes.all();
}

bool takes_fallback(const std::vector<Part> &parts) {
  return std::any_of(parts.begin(), parts.end(), [](const Part &part) { return part.candidate.fallback; });
}

// What a change leads to, if that is something better, no fallback or quicker by the estimates: nothing is timed under
// a changed question.
std::string consequence(const Findings &findings, const Change &change) {
  Question question = change.question;
  question.tuning_ns = 0;
  question.tuning_key.clear(); // what is known there was measured under the question as it is
  const Decision decision = decide(question, tuner(), findings.layers, nullptr);
  if (decision.parts.empty()) return "";
  const double us = decision.us;
  double now_us = 0;
  const bool now_fallback = takes_fallback(findings.parts), fallback = takes_fallback(decision.parts);
  std::string names;
  for (const Part &part : decision.parts) {
    names += (names.empty() ? "" : " + ") + kernel_name(*part.candidate.entry, part.candidate.offer.config);
  }
  for (const Part &part : findings.parts) now_us += part.candidate.heuristic_us();
  std::string line = change.words + ": " + names + " takes it in about " + time_text(us);
  if (findings.parts.empty()) return line;
  if (fallback != now_fallback) return fallback ? "" : line + ", which is no fallback";
  constexpr double kWorthTelling = 0.98;
  if (us > kWorthTelling * now_us) return "";
  char ratio[32];
  std::snprintf(ratio, sizeof ratio, "%.1f", now_us / us);
  return line + ", " + ratio + " times as fast";
}

} // namespace

std::vector<std::string> alternatives(const Findings &findings) {
  std::vector<std::string> lines;
  std::string last; // what the mode before led to: a wider one that leads to the same is not worth a line
  for (const Change &change : possible_changes(findings.question)) {
    const std::string line = consequence(findings, change);
    if (line.empty()) continue;
    const std::string effect = line.substr(change.words.size());
    if (effect != last) lines.push_back(line);
    last = effect;
  }
  for (const Backend *backend : backends()) {
    const bool could_serve = backend->device_kind.empty() || backend->device_kind == findings.question.device->kind;
    if (!backend->available && could_serve)
      lines.push_back("backend '" + backend->name + "' is not available: " + backend->reason);
  }
  return lines;
}

} // namespace polyconv
