// decide.cpp - every group's best kernel, every way to put groups together, and the fastest of them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/decide.hpp"

#include "plan/choose.hpp"
#include "plan/grouping.hpp"

#include <algorithm>
#include <limits>

namespace polyconv {
namespace {

using PartPointer = std::shared_ptr<const Part>;

// "layers 2 to 3".
std::string layers_text(int32_t first, int32_t end) {
  return "layers " + std::to_string(first) + " to " + std::to_string(end - 1);
}

// Why a group is none: a layer behind it needs what it would hide. "" where it is one.
std::string hidden_need(const std::vector<Layer> &layers, int32_t first, int32_t end) {
  for (size_t later = static_cast<size_t>(end); later < layers.size(); ++later) {
    const int32_t needed = layers[later].problem.epilogue.residual_from - POLYCONV_RESIDUAL_LAYER;
    if (needed >= first && needed < end - 1)
      return layers_text(first, end) + " as one would not store the output of layer " + std::to_string(needed) +
             ", which layer " + std::to_string(later) + " adds";
  }
  return "";
}

// The groups of neighbouring layers that somebody takes, each with its best candidate.
class Groups {
 public:
  Groups(const Question &question, const Tuner &tuner, const std::vector<Layer> &layers, std::string *why)
      : question_(question), tuner_(tuner), layers_(layers), wanted_(question.options.grouping, count()), why_(why) {
    parts_.resize(layers.size() * (layers.size() + 1));
    for (int32_t first = 0; first < count(); ++first)
      for (int32_t end = first + 1; end <= count(); ++end) ask(first, end);
    if (question.tuning_ns > 0) measure();
  }

  // NULL where nobody takes layers [first, end).
  const PartPointer &at(int32_t first, int32_t end) const { return parts_[index(first, end)]; }

  bool any_fused() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [](const PartPointer &part) { return part != nullptr && part->group.count() > 1; });
  }

 private:
  int32_t count() const { return static_cast<int32_t>(layers_.size()); }
  size_t index(int32_t first, int32_t end) const {
    return static_cast<size_t>(first) * (layers_.size() + 1) + static_cast<size_t>(end);
  }

  void ask(int32_t first, int32_t end) {
    if (!wanted_.admit(first, end - first)) return;
    const bool forced = !question_.options.grouping.empty(), alone = end - first == 1;
    const std::string hidden = hidden_need(layers_, first, end);
    if (!hidden.empty()) {
      if (forced) complain(hidden);
      return;
    }
    auto part = std::make_shared<Part>();
    part->group = make_group(layers_, first, end - first);
    Question untimed = question_;
    untimed.tuning_ns = 0;
    std::string why;
    if (choose(untimed, tuner_, part->group, &part->candidate, alone || forced ? &why : nullptr)) {
      parts_[index(first, end)] = std::move(part);
    } else if (alone) {
      complain(why);
    } else if (forced) { // kernels count layers from the group's first
      const std::string from = first > 0 ? ", of which layer " + std::to_string(first) + " is their layer 0" : "";
      complain(layers_text(first, end) + " as one" + from + ": " + why);
    }
  }

  // The first complaint is the one that is told.
  void complain(const std::string &sentence) {
    if (why_ != nullptr && why_->empty()) *why_ = sentence;
  }

  // Times the candidates of every group, which share half of the budget where groupings will want the other half.
  void measure() {
    const int64_t groups =
        std::count_if(parts_.begin(), parts_.end(), [](const PartPointer &p) { return p != nullptr; });
    if (groups == 0) return;
    Question share = question_;
    share.measures_all = any_fused();
    share.tuning_ns = question_.tuning_ns / (share.measures_all ? 2 * groups : groups);
    for (PartPointer &part : parts_) {
      if (part == nullptr) continue;
      auto timed = std::make_shared<Part>(*part);
      const bool chosen = choose(share, tuner_, timed->group, &timed->candidate, nullptr);
      const bool fails = timed->group.count() > 1 && !timed->candidate.accepted(); // the layers can do without
      part = chosen && !fails ? std::move(timed) : nullptr;
    }
  }

  const Question &question_;
  const Tuner &tuner_;
  const std::vector<Layer> &layers_;
  const WantedGroups wanted_;
  std::string *why_;
  std::vector<PartPointer> parts_;
};

// Of the times of all parts together: the day on which all had been measured; an estimate where one of them is.
Provenance provenance_of(const std::vector<PartPointer> &parts) {
  Provenance together;
  for (const PartPointer &part : parts) {
    const Provenance &one = part->candidate.provenance;
    if (one.day.empty()) return {};
    if (together.day.empty() || one.day < together.day) together.day = one.day; // as text
    together.elsewhere = together.elsewhere || one.elsewhere;
  }
  return together;
}

// Every way to cut layers [0, end), cheapest first; among equals those whose last groups are small.
void add_groupings(const Groups &groups, int32_t end, std::vector<PartPointer> *behind, std::vector<Grouping> *all) {
  if (end == 0) {
    Grouping grouping;
    grouping.parts.assign(behind->rbegin(), behind->rend());
    for (const PartPointer &part : grouping.parts) grouping.us += part->candidate.estimate_us;
    grouping.provenance = provenance_of(grouping.parts);
    all->push_back(std::move(grouping));
    return;
  }
  for (int32_t first = end - 1; first >= 0; --first) {
    const PartPointer &part = groups.at(first, end);
    if (part == nullptr) continue;
    behind->push_back(part);
    add_groupings(groups, first, behind, all);
    behind->pop_back();
  }
}

// Where workspace is limited: those that keep to it, if there are any. What is fused needs less between layers. As
// every choice it is made for what the candidates were asked about, which may be one image.
void drop_too_large(const Question &question, const std::vector<Layer> &layers, std::vector<Grouping> *groupings) {
  const int64_t limit = question.options.policy.workspace_limit;
  if (limit == std::numeric_limits<int64_t>::max() || layers.size() < 2) return;
  const auto fits = [&](const Grouping &grouping) {
    std::vector<Part> parts;
    for (const PartPointer &part : grouping.parts) {
      parts.push_back(*part);
      ordering_question(question, &parts.back().group);
    }
    return lay_out(layers, parts).workspace_bytes <= limit;
  };
  const auto end = std::stable_partition(groupings->begin(), groupings->end(), fits);
  if (end != groupings->begin()) groupings->erase(end, groupings->end());
}

// What fails when it is timed comes last, and before it what takes more layers on fallbacks.
bool faster(const Grouping &a, const Grouping &b) {
  if (a.failure.empty() != b.failure.empty()) return a.failure.empty();
  if (a.fallback_layers() != b.fallback_layers()) return a.fallback_layers() < b.fallback_layers();
  return a.measured != b.measured ? a.measured : a.us < b.us;
}

// The likeliest of all, with the one that fuses nothing.
void keep_likeliest(size_t layers, std::vector<Grouping> *groupings) {
  constexpr size_t kKept = 8;
  const auto unfused = std::find_if(groupings->begin(), groupings->end(),
                                    [layers](const Grouping &grouping) { return grouping.parts.size() == layers; });
  if (groupings->size() <= kKept) return;
  if (unfused != groupings->end() && unfused - groupings->begin() >= static_cast<std::ptrdiff_t>(kKept))
    std::swap((*groupings)[kKept - 1], *unfused);
  groupings->resize(kKept);
}

// From candidates that were asked about one image to those for the layers as they are. A grouping of which a kernel
// takes no more than the one image, or that needs too much workspace, cannot be taken.
void settle(const Question &question, const std::vector<Layer> &layers, Grouping *grouping) {
  const bool invariant = question.options.policy.determinism == POLYCONV_DETERMINISM_INVARIANT;
  std::vector<Part> parts;
  for (PartPointer &pointer : grouping->parts) {
    Part part = *pointer;
    if (!confirm(question, part.group, &part.candidate, &grouping->failure)) return;
    parts.push_back(part);
    if (invariant) pointer = std::make_shared<const Part>(std::move(part));
  }
  if (invariant) {
    grouping->us = grouping->predicted_us();
    grouping->provenance = {};
  }
  const int64_t needed = lay_out(layers, parts).workspace_bytes, limit = question.options.policy.workspace_limit;
  if (needed > limit)
    grouping->failure = "options.workspace_limit is " + std::to_string(limit) + ", expected at least " +
                        std::to_string(needed) + " for " + grouping->kernels();
}

} // namespace

std::string Grouping::kernels() const {
  std::string names;
  for (const PartPointer &part : parts) names += (names.empty() ? "" : " + ") + names_of(part->candidate);
  return names;
}

std::string Grouping::words() const {
  std::string text;
  bool fused = false;
  for (const auto &part : parts) {
    text += (text.empty() ? "" : "+") + std::to_string(part->group.count());
    fused = fused || part->group.count() > 1;
  }
  return fused ? text : "none";
}

double Grouping::predicted_us() const {
  double sum = 0;
  for (const PartPointer &part : parts) sum += part->candidate.heuristic_us();
  return sum;
}

size_t Grouping::fallback_layers() const {
  size_t layers = 0;
  for (const PartPointer &part : parts)
    if (part->candidate.fallback) layers += part->group.layers.size();
  return layers;
}

Decision decide(const Question &question, const Tuner &tuner, const std::vector<Layer> &layers, std::string *why) {
  Decision decision;
  const Groups groups(question, tuner, layers, why);
  std::vector<PartPointer> behind;
  add_groupings(groups, static_cast<int32_t>(layers.size()), &behind, &decision.tried);
  if (decision.tried.empty()) return decision;
  drop_too_large(question, layers, &decision.tried);
  std::stable_sort(decision.tried.begin(), decision.tried.end(), faster);
  keep_likeliest(layers.size(), &decision.tried);
  const bool timed = question.tuning_ns > 0 && question.options.policy.determinism != POLYCONV_DETERMINISM_INVARIANT;
  if (timed && decision.tried.size() > 1) {
    tuner.time_whole(question, layers, &decision.tried);
    std::stable_sort(decision.tried.begin(), decision.tried.end(), faster);
  }
  for (Grouping &grouping : decision.tried)
    if (grouping.failure.empty()) settle(question, layers, &grouping);
  const Grouping &chosen = decision.tried.front();
  if (!chosen.failure.empty()) {
    if (why != nullptr) *why = chosen.failure;
    return decision;
  }
  decision.us = chosen.us;
  decision.provenance = chosen.provenance;
  for (const PartPointer &part : chosen.parts) decision.parts.push_back(*part);
  return decision;
}

int64_t saved_bytes(const Part &part) {
  int64_t bytes = 0;
  for (int32_t i = 0; i + 1 < part.group.count(); ++i)
    bytes += 2 * bytes_of(part.group.layers[static_cast<size_t>(i)].result); // written once, read once
  return bytes;
}

} // namespace polyconv
