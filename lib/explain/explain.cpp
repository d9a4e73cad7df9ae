// explain.cpp - asks as planning does, and keeps every answer.
// SPDX-License-Identifier: Apache-2.0
#include "explain/explain.hpp"

#include "base/sized.hpp"
#include "plan/choose.hpp"
#include "plan/plan.hpp"
#include "registry/device.hpp"
#include "tune/known.hpp"
#include "tune/tune.hpp"

#include <algorithm>
#include <cstring>

namespace polyconv {
namespace {

using Answer = polyconv_explanation::Answer;

Answer answer_of(const Candidate &candidate) {
  Answer answer = {};
  answer.kernel = kernel_name(*candidate.entry, candidate.offer.config);
  answer.reason = candidate.accepted() ? additions_of(candidate) : candidate.offer.reason;
  answer.estimate_us = candidate.estimate_us;
  answer.workspace_bytes = candidate.workspace_bytes;
  answer.accepted = candidate.accepted();
  answer.fallback = candidate.fallback;
  answer.measured = candidate.measured;
  answer.provenance = candidate.provenance;
  return answer;
}

bool same_choice(const Candidate &a, const Candidate &b) {
  return a.entry == b.entry && a.offer.config == b.offer.config;
}

// A grouping of several parts is a candidate too: the layers, or groups of them, one after another.
Answer answer_of(const Findings &findings, const Grouping &grouping) {
  Answer answer = {};
  answer.kernel = grouping.kernels();
  std::vector<Part> parts;
  for (const auto &part : grouping.parts) {
    answer.fallback = answer.fallback || part->candidate.fallback;
    parts.push_back(*part);
  }
  answer.reason =
      grouping.failure.empty() ? std::to_string(parts.size()) + " kernels one after another" : grouping.failure;
  answer.grouping = grouping.words();
  answer.figures = figures_of(grouping);
  answer.estimate_us = grouping.us;
  answer.measured = grouping.measured;
  answer.provenance = grouping.provenance;
  answer.accepted = grouping.failure.empty();
  if (answer.accepted) answer.workspace_bytes = lay_out(findings.layers, parts).workspace_bytes;
  return answer;
}

// Of a kernel that takes all layers.
Answer answer_about_all(const Findings &findings, const Candidate &candidate) {
  Answer answer = answer_of(candidate);
  if (findings.layers.size() < 2) return answer;
  answer.grouping = std::to_string(findings.layers.size());
  if (candidate.accepted())
    answer.figures =
        figures_of({make_group(findings.layers, 0, static_cast<int32_t>(findings.layers.size())), candidate});
  return answer;
}

// Every config was asked; a kernel that rejects them all for one reason says it once.
void forget_repetitions(std::vector<Candidate> *candidates) {
  const auto repeats = [](const Candidate &a, const Candidate &b) {
    return a.verdict == Verdict::Rejected && b.verdict == Verdict::Rejected && a.entry == b.entry &&
           std::strcmp(a.offer.reason, b.offer.reason) == 0;
  };
  candidates->erase(std::unique(candidates->begin(), candidates->end(), repeats), candidates->end());
}

// Of a single layer with a tuning budget: candidates are timed once, and the fastest is the choice.
Findings find_out_by_timing(Findings findings) {
  Question every_config = findings.question;
  every_config.all_configs = true;
  const Group group = make_group(findings.layers, 0, 1);
  findings.whole = ask_all(every_config, group, Keep::All);
  tuner().time(every_config, group, &findings.whole);
  if (!findings.whole.empty() && findings.whole.front().accepted()) {
    findings.parts.push_back({group, findings.whole.front()});
    findings.layout = lay_out(findings.layers, findings.parts);
    findings.us = findings.whole.front().estimate_us;
    findings.provenance = findings.whole.front().provenance;
  } else {
    findings.why_not = reasons_of(findings.whole);
  }
  forget_repetitions(&findings.whole);
  return findings;
}

std::vector<Answer> answers_of(const Findings &findings) {
  std::vector<Answer> answers;
  const Candidate *chosen = chosen_one(findings);
  if (chosen != nullptr) { // as planning settled it: measured where there is a tuning budget
    answers.push_back(answer_about_all(findings, *chosen));
    answers.back().estimate_us = findings.us;
    answers.back().provenance = findings.provenance;
  }
  for (const Grouping &grouping : findings.groupings)
    if (grouping.parts.size() > 1) answers.push_back(answer_of(findings, grouping));
  if (!answers.empty()) answers.front().chosen = !findings.parts.empty();
  for (const Candidate &candidate : findings.whole)
    if (chosen == nullptr || !same_choice(candidate, *chosen)) answers.push_back(answer_about_all(findings, candidate));
  if (answers.empty()) return answers;
  std::stable_sort(answers.begin() + 1, answers.end(), [](const Answer &a, const Answer &b) {
    if (a.accepted != b.accepted) return a.accepted;
    if (!a.accepted) return false; // as they came
    if (a.fallback != b.fallback) return b.fallback;
    return a.measured != b.measured ? a.measured : a.estimate_us < b.estimate_us;
  });
  return answers;
}

} // namespace

const Candidate *chosen_one(const Findings &findings) {
  return findings.parts.size() == 1 ? &findings.parts[0].candidate : nullptr;
}

std::string additions_of(const Candidate &candidate) {
  constexpr const char *kMoveNames[kMoves] = {"input", "output", "residual", "saved tensor"};
  std::string text;
  const auto add = [&text](const Helper &helper, const std::string &what) {
    if (helper.entry == nullptr) return;
    text += (text.empty() ? "+ " : ", + ") + what + " " + kernel_name(*helper.entry, helper.config) + " (" +
            time_text(helper.estimate_us) + ")";
  };
  add(candidate.gradient, "gradient of activation and pooling");
  add(candidate.pool, "pooling step");
  const char *layout = candidate.detour.layout == POLYCONV_CHANNELS_LAST ? "channels last" : "channels first";
  for (int role = 0; role < kMoves; ++role) {
    const std::string what = std::string("conversion of the ") + kMoveNames[role];
    add(candidate.moves[role], what + " for a kernel in " + layout + ",");
  }
  return text;
}

Findings find_out(const polyconv_device &device, const polyconv_problem *problems, int32_t count,
                  const polyconv_options *options) {
  Findings findings;
  const Options copied = read_options(options, device);
  findings.layers = normalise(copy_problems(problems, count), copied.values.save);
  findings.question = make_question(device, copied);
  tuner().prepare(findings.layers, &findings.question);
  const bool tuned = findings.question.tuning_ns > 0 && copied.values.determinism != POLYCONV_DETERMINISM_INVARIANT;
  if (tuned && count == 1) return find_out_by_timing(std::move(findings));
  Decision decision = decide(findings.question, tuner(), findings.layers, &findings.why_not);
  findings.parts = std::move(decision.parts);
  findings.us = decision.us;
  findings.provenance = decision.provenance;
  if (count > 1) findings.groupings = std::move(decision.tried);
  if (!findings.parts.empty()) findings.layout = lay_out(findings.layers, findings.parts);
  findings.whole = ask_all(findings.question, make_group(findings.layers, 0, count), Keep::All);
  const Candidate *chosen = chosen_one(findings);
  if (chosen != nullptr && chosen->measured)
    mark_known(findings.question, chosen->provenance.elsewhere, &findings.whole);
  for (int32_t layer = 0; layer < count && count > 1; ++layer)
    findings.per_layer.push_back(ask_all(findings.question, make_group(findings.layers, layer, 1), Keep::All));
  return findings;
}

} // namespace polyconv

using namespace polyconv;

extern "C" {

polyconv_status polyconv_explain(const polyconv_device *device, const polyconv_problem *problems, int32_t count,
                                 const polyconv_options *options, polyconv_explanation **explanation) {
  return guarded([&] {
    if (explanation == nullptr)
      throw Failure(POLYCONV_INVALID_ARGUMENT, "explanation is NULL, expected where to put it");
    const Findings findings = find_out(device_or_cpu(device), problems, count, options);
    auto made = std::make_unique<polyconv_explanation>();
    made->answers = answers_of(findings);
    made->text = text_of(findings);
    *explanation = made.release();
  });
}

const char *polyconv_explanation_text(const polyconv_explanation *explanation) {
  return explanation != nullptr ? explanation->text.c_str() : "";
}

int32_t polyconv_explanation_count(const polyconv_explanation *explanation) {
  return explanation != nullptr ? static_cast<int32_t>(explanation->answers.size()) : 0;
}

polyconv_status polyconv_explanation_get(const polyconv_explanation *explanation, int32_t index,
                                         polyconv_candidate *candidate) {
  return guarded([&] {
    const int32_t count = polyconv_explanation_count(explanation);
    if (explanation == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "explanation is NULL, expected one");
    if (index < 0 || index >= count)
      throw failure(POLYCONV_INVALID_ARGUMENT, "index is %d, expected 0 to %d", static_cast<int>(index),
                    static_cast<int>(count - 1));
    const Answer &answer = explanation->answers[static_cast<size_t>(index)];
    polyconv_candidate filled = {};
    filled.kernel = answer.kernel.c_str();
    filled.reason = answer.reason.c_str();
    filled.estimate_us = answer.estimate_us;
    filled.workspace_bytes = answer.workspace_bytes;
    filled.accepted = answer.accepted ? 1 : 0;
    filled.chosen = answer.chosen ? 1 : 0;
    filled.fallback = answer.fallback ? 1 : 0;
    filled.grouping = answer.grouping.c_str();
    filled.note = answer.figures.note.c_str();
    filled.saved_bytes = answer.figures.saved_bytes;
    filled.recomputed_outputs = answer.figures.recomputed_outputs;
    filled.blocks = answer.figures.blocks;
    filled.shared_bytes = answer.figures.shared_bytes;
    filled.threads = answer.figures.threads;
    filled.occupancy = answer.figures.occupancy;
    filled.measured = answer.measured ? 1 : 0;
    filled.measured_on = answer.provenance.day.c_str();
    filled.measured_elsewhere = answer.provenance.elsewhere ? 1 : 0;
    fill_sized(candidate, filled, offsetof(polyconv_candidate, kernel), "candidate");
  });
}

void polyconv_explanation_destroy(polyconv_explanation *explanation) {
  delete explanation;
}

} // extern "C"
