// choose.cpp - from answers to a choice, or to the sentence that says why there is none.
// SPDX-License-Identifier: Apache-2.0
#include "plan/choose.hpp"

#include <algorithm>

namespace polyconv {
namespace {

// One distinct reason, and who gave it.
struct Complaint {
  const char *reason;
  std::string kernel; // the first
  int others = 0;
};

std::vector<Complaint> complaints_of(const std::vector<Candidate> &candidates) {
  std::vector<Complaint> complaints;
  for (const Candidate &candidate : candidates) {
    if (candidate.accepted()) continue;
    const auto same = [&](const Complaint &complaint) {
      return std::string(complaint.reason) == candidate.offer.reason;
    };
    const auto found = std::find_if(complaints.begin(), complaints.end(), same);
    if (found != complaints.end()) {
      ++found->others;
    } else {
      complaints.push_back({candidate.offer.reason, candidate.entry->full_name});
    }
  }
  return complaints;
}

} // namespace

std::string reasons_of(const std::vector<Candidate> &candidates) {
  constexpr size_t kMost = 4; // a sentence, not a list: polyconv_explain has them all
  const std::vector<Complaint> complaints = complaints_of(candidates);
  std::string text;
  for (size_t i = 0; i < std::min(complaints.size(), kMost); ++i) {
    if (i > 0) text += "; ";
    text += complaints[i].kernel;
    if (complaints[i].others > 0) text += " and " + std::to_string(complaints[i].others) + " more";
    text += ": ";
    text += complaints[i].reason;
  }
  if (complaints.size() > kMost) text += "; ...";
  return text;
}

Question ordering_question(const Question &question, Group *group) {
  Question ordering = question;
  if (question.options.policy.determinism != POLYCONV_DETERMINISM_INVARIANT) return ordering;
  ordering.options.policy.threads = 1;
  for (polyconv_layer &layer : group->layers) set_batch(&layer, 1);
  if (group->has_gradient) set_batch(&group->gradient, 1);
  return ordering;
}

bool choose(const Question &question, const Tuner &tuner, const Group &group, Candidate *choice, std::string *why) {
  const bool invariant = question.options.policy.determinism == POLYCONV_DETERMINISM_INVARIANT;
  Group asked = group;
  Question ordering = ordering_question(question, &asked);
  const bool tuned = question.tuning_ns > 0 && !invariant;
  ordering.all_configs = tuned;
  std::vector<Candidate> candidates = ask_all(ordering, asked, Keep::Takers);
  if (candidates.empty() || !candidates.front().accepted()) {
    if (why != nullptr) *why = reasons_of(candidates);
    return false;
  }
  const bool several = candidates.size() > 1 && candidates[1].accepted(); // a kernel alone may tune itself in create
  if (tuned && (several || question.measures_all)) {
    tuner.time(question, asked, &candidates);
  } else if (!invariant && tuner.choose_known(ordering, asked, candidates, choice)) {
    return true;
  }
  *choice = candidates.front();
  return true;
}

bool confirm(const Question &question, const Group &group, Candidate *choice, std::string *why) {
  if (question.options.policy.determinism != POLYCONV_DETERMINISM_INVARIANT) return true;
  const Candidate answer = ask_kernel(question, group, *choice->entry, choice->offer.config, choice);
  if (!answer.accepted()) {
    if (why != nullptr)
      *why = "determinism 2 takes the kernel that is best for one image on one thread, " +
             kernel_name(*choice->entry, choice->offer.config) + ", which rejects this batch: " + answer.offer.reason;
    return false;
  }
  *choice = answer;
  return true;
}

} // namespace polyconv
