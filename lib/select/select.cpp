// select.cpp - the rules of selection, and the questions to one kernel and to all.
// SPDX-License-Identifier: Apache-2.0
#include "select/select.hpp"

#include "problem/traits.hpp"
#include "registry/device.hpp"
#include "select/ask.hpp"
#include "select/layout.hpp"

#include <algorithm>
#include <numeric>

namespace polyconv {
namespace {

// A rule of the library that keeps a kernel out before it is asked; NULL where there is none.
const char *rule_against(const polyconv_policy &policy, const KernelEntry &entry) {
  const uint32_t flags = entry.kernel->flags;
  if ((flags & POLYCONV_KERNEL_TRANSFORM) != 0 && policy.math != POLYCONV_MATH_FAST)
    return "transforms (Winograd or FFT): taken only under math fast";
  if ((flags & POLYCONV_KERNEL_NEEDS_BIND) != 0 && policy.bind == 0)
    return "needs polyconv_bind: taken only with options.bind";
  if ((flags & POLYCONV_KERNEL_ATOMIC) != 0 && policy.determinism != POLYCONV_DETERMINISM_NONE)
    return "sums in an order that varies: taken only at determinism 0";
  if ((flags & POLYCONV_KERNEL_VARIANT) != 0 && policy.determinism > POLYCONV_DETERMINISM_RUN)
    return "its bits depend on batch or threads: taken only at determinism 0 and 1";
  return nullptr;
}

// A rule that keeps every kernel out.
const char *rule_against(const polyconv_policy &policy, const Group &group) {
  for (const polyconv_layer &layer : group.layers) {
    if (policy.determinism == POLYCONV_DETERMINISM_IDENTICAL && layer.sum_type != POLYCONV_S32)
      return "determinism 3 (identical on every backend) is offered for the s8/u8 rows only";
    if (policy.determinism == POLYCONV_DETERMINISM_INVARIANT && layer.direction == POLYCONV_BACKWARD_WEIGHTS)
      return "determinism 2 (invariant) is not offered for backward weights, which sum over the batch";
  }
  return nullptr;
}

bool must_be_named(const Question &question, const Backend &backend) {
  return backend.on_request && !question.filter.names(backend.name);
}

// Whether a step does better than the one found before, which may be none. Fallbacks come last here too.
bool better_helper(const KernelEntry &entry, double estimate_us, const Helper &found) {
  if (found.entry == nullptr) return true;
  const bool fallback = is_fallback(entry), found_fallback = is_fallback(*found.entry);
  return fallback != found_fallback ? found_fallback : estimate_us < found.estimate_us;
}

// Who does not do a step.
const char *nobody(const Question &question) {
  return question.filter.forbids() ? "nobody whom options.kernel leaves" : "nobody";
}

// Asks one kernel for a step and keeps its answer where that is better than *helper.
void ask_helper(const Question &question, int32_t op, const polyconv_layer &layer, const KernelEntry &entry,
                int32_t config, Helper *helper) {
  polyconv_offer offer;
  if (ask_supports(entry, op, &layer, 1, question.options.policy, config, &offer) &&
      better_helper(entry, offer.estimate_us, *helper))
    *helper = {&entry, offer.config, offer.estimate_us, offer.workspace_bytes};
}

// Asks for a step that serves a kernel of `backend`: the best of that backend, else the best of any. Of options.kernel
// only what it forbids counts: nobody who forces a kernel thinks of the steps beside it.
bool find_helper(const Question &question, int32_t op, const polyconv_layer &layer, const Backend *backend,
                 const Helper *like, Helper *helper) {
  for (const bool own : {true, false}) {
    for (const KernelEntry &entry : *question.kernels) {
      if (like != nullptr ? &entry != like->entry : (entry.backend == backend) != own) continue;
      if (!own && must_be_named(question, *entry.backend)) continue;
      if (rule_against(question.options.policy, entry) != nullptr) continue;
      if (op == POLYCONV_OP_GRADIENT && entry.backend->table->abi_minor < 2) continue; // it does not know the number
      if (like != nullptr || !question.filter.forbids()) { // as nearly always: no list is made
        ask_helper(question, op, layer, entry, like != nullptr ? like->config : -1, helper);
        continue;
      }
      for (const int32_t config : question.filter.helper_configs(entry))
        ask_helper(question, op, layer, entry, config, helper);
    }
    if (helper->entry != nullptr) return true;
  }
  return false;
}

bool find_helpers(const Question &question, const Route &route, const Candidate *like, Candidate *candidate) {
  const Backend *backend = candidate->entry->backend;
  if (route.pools &&
      !find_helper(question, POLYCONV_OP_POOL, route.pool, backend, like ? &like->pool : nullptr, &candidate->pool))
    return reject_offer(&candidate->offer, "does not pool, and %s takes the pooling as a step of its own",
                        nobody(question));
  for (int role = 0; role < kMoves; ++role) {
    const Move &move = route.moves[role];
    if (move.needed && !find_helper(question, POLYCONV_OP_CONVERT, move.request, backend,
                                    like ? &like->moves[role] : nullptr, &candidate->moves[role]))
      return reject_offer(&candidate->offer, "takes another layout only, and %s converts %s to it", nobody(question),
                          polyconv_type_name(move.request.input.type));
  }
  return true;
}

// The detour that a rejecting offer hints at, or what keeps the kernel from being asked, beyond the one already taken.
// False where there is none.
bool follow_hint(const KernelEntry &entry, const polyconv_offer &offer, const polyconv_layer &layer, Detour *detour) {
  if ((layer.traits & kMemoryTraits & ~takes_of(*entry.kernel)) != 0 && !detour->gather) {
    detour->gather = true;
    return true;
  }
  if (offer.rejects_pooling != 0 && !detour->split_pooling && layer.epilogue.pool.kind != POLYCONV_POOL_NONE) {
    detour->split_pooling = true;
    return true;
  }
  const int64_t layout = int64_t{offer.wants_layout} - 1; // any number may stand there
  if (detour->layout < 0 && (layout == POLYCONV_CHANNELS_FIRST || layout == POLYCONV_CHANNELS_LAST)) {
    detour->layout = static_cast<int32_t>(layout);
    return true;
  }
  return false;
}

// Asks along a detour, and for the helpers that it takes.
bool ask_detour(const Question &question, const Group &group, int32_t config, const Candidate *like,
                Candidate *candidate) {
  Route route;
  if (!make_route(group.layers[0], candidate->detour, &route)) return false; // the kernel's own words stand
  return ask_supports(*candidate->entry, POLYCONV_OP_CONVOLVE, &route.main, 1, question.options.policy, config,
                      &candidate->offer) &&
         find_helpers(question, route, like, candidate);
}

bool find_gradient(const Question &question, const Group &group, const Candidate *like, Candidate *candidate) {
  if (!group.has_gradient || find_helper(question, POLYCONV_OP_GRADIENT, group.gradient, candidate->entry->backend,
                                         like ? &like->gradient : nullptr, &candidate->gradient))
    return true;
  return reject_offer(&candidate->offer,
                      "takes the gradient of the sums, and %s takes that of activation or pooling as a step of its own",
                      nobody(question));
}

bool ask_along_hints(const Question &question, const Group &group, int32_t config, const Candidate *like,
                     Candidate *candidate) {
  if (like != nullptr && like->detour.any()) {
    candidate->detour = like->detour;
    return ask_detour(question, group, config, like, candidate);
  }
  if (ask_supports(*candidate->entry, POLYCONV_OP_CONVOLVE, group.layers.data(), group.count(), question.options.policy,
                   config, &candidate->offer))
    return true;
  if (like != nullptr || group.count() > 1) return false;
  while (follow_hint(*candidate->entry, candidate->offer, group.layers[0], &candidate->detour))
    if (ask_detour(question, group, config, nullptr, candidate)) return true;
  return false;
}

void add_up(const Group &group, Candidate *candidate) {
  const auto add = [candidate](const Helper &helper) {
    if (helper.entry != nullptr) candidate->fallback = candidate->fallback || is_fallback(*helper.entry);
  };
  add(candidate->gradient);
  add(candidate->pool);
  for (const Helper &helper : candidate->moves) add(helper);
  // Where there is nothing to compute nobody is slow.
  if ((group.layers[0].traits & POLYCONV_TRAIT_EMPTY) != 0) candidate->fallback = false;
  candidate->estimate_us = candidate->heuristic_us();
  candidate->workspace_bytes = workspace_of(group, *candidate);
}

bool check_policy(const Question &question, Candidate *candidate) {
  if (candidate->workspace_bytes > question.options.policy.workspace_limit)
    return reject_offer(&candidate->offer, "needs %lld bytes of workspace, options.workspace_limit is %lld",
                        static_cast<long long>(candidate->workspace_bytes),
                        static_cast<long long>(question.options.policy.workspace_limit));
  if (candidate->offer.shared_bytes > question.options.policy.shared_memory_limit)
    return reject_offer(&candidate->offer, "needs %lld bytes of shared memory, options.shared_memory_limit is %lld",
                        static_cast<long long>(candidate->offer.shared_bytes),
                        static_cast<long long>(question.options.policy.shared_memory_limit));
  if (candidate->fallback && question.options.values.fallback == POLYCONV_FALLBACK_ERROR)
    return reject_offer(&candidate->offer, "a fallback, and options.fallback is error");
  return true;
}

// An answer of a kernel that the options keep out.
void hide(const Question &question, Candidate *candidate) {
  if (!candidate->accepted()) return;
  candidate->verdict = Verdict::Hidden;
  if (must_be_named(question, *candidate->entry->backend))
    reject_offer(&candidate->offer, "taken only where options.kernel names it");
  else
    reject_offer(&candidate->offer, "hidden by %s", question.options.kernel_from);
}

} // namespace

bool is_fallback(const KernelEntry &entry) {
  return entry.backend->is_reference || (entry.kernel->flags & POLYCONV_KERNEL_GENERIC) != 0;
}

bool goes_before(const Candidate &a, const Candidate &b) {
  if (a.fallback_rank() != b.fallback_rank()) return a.fallback_rank() < b.fallback_rank();
  return a.measured != b.measured ? a.measured : a.estimate_us < b.estimate_us;
}

int Candidate::fallback_rank() const {
  return !fallback ? 0 : is_fallback(*entry) ? 2 : 1;
}

std::string Provenance::words() const {
  if (day.empty()) return "estimated";
  return (elsewhere ? "on a machine of this kind on " : "here on ") + day;
}

double Candidate::heuristic_us() const {
  double us = offer.estimate_us + gradient.estimate_us + pool.estimate_us;
  for (const Helper &helper : moves) us += helper.estimate_us;
  return us;
}

std::string names_of(const Candidate &candidate) {
  std::string names = kernel_name(*candidate.entry, candidate.offer.config);
  const auto add = [&names](const Helper &helper) {
    if (helper.entry != nullptr) names += " + " + kernel_name(*helper.entry, helper.config);
  };
  add(candidate.gradient);
  add(candidate.pool);
  for (const Helper &helper : candidate.moves) add(helper);
  return names;
}

Question make_question(const polyconv_device &device, const Options &options) {
  Question question = {&device,
                       kernels_for(device.kind),
                       Filter(options.kernel),
                       options,
                       false,
                       options.values.tuning_budget_ms * 1000000,
                       "",
                       false};
  return question;
}

Candidate ask_kernel(const Question &question, const Group &group, const KernelEntry &entry, int32_t config,
                     const Candidate *like) {
  Candidate candidate;
  candidate.entry = &entry;
  candidate.fallback = is_fallback(entry);
  const polyconv_policy &policy = question.options.policy;
  const char *rule = rule_against(policy, entry);
  if (rule == nullptr) rule = rule_against(policy, group);
  if (rule != nullptr || like != nullptr) { // else whoever is asked writes all of the offer, which has a kilobyte
    candidate.offer = {};
    candidate.offer.config = std::max(config, 0);
  }
  if (rule != nullptr) {
    reject_offer(&candidate.offer, "%s", rule);
    return candidate;
  }
  if (!ask_along_hints(question, group, config, like, &candidate)) return candidate;
  if (!find_gradient(question, group, like, &candidate)) return candidate;
  add_up(group, &candidate);
  if (!check_policy(question, &candidate)) return candidate;
  candidate.offer.reason[0] = '\0';
  candidate.verdict = Verdict::Accepted;
  return candidate;
}

namespace {

// Does something with each config to ask a kernel about; -1 where the kernel chooses.
template <class Do>
void for_each_config(const Question &question, const KernelEntry &entry, bool admitted, Do &&do_with) {
  std::vector<int32_t> configs; // none: nothing is said of them, as nearly always
  if (admitted && !question.filter.empty()) configs = question.filter.configs(entry);
  const bool free = configs.empty() || configs.front() < 0;
  if (free && !question.all_configs) {
    do_with(-1);
  } else if (free) {
    for (int32_t config = 0; config < entry.kernel->config_count; ++config) do_with(config);
  } else {
    for (const int32_t config : configs) do_with(config);
  }
}

// In the order of `before`, equals as they are. An answer has a kilobyte: it is moved once.
template <class Before>
void sort_stably(std::vector<Candidate> *candidates, Before &&before) {
  std::vector<size_t> order(candidates->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return before((*candidates)[a], (*candidates)[b]); });
  std::vector<Candidate> sorted;
  sorted.reserve(order.size());
  for (const size_t one : order) sorted.push_back(std::move((*candidates)[one]));
  candidates->swap(sorted);
}

// Adds an answer, or keeps it out beside those who take the group.
void add_answer(Keep keep, Candidate &&answer, std::vector<Candidate> *candidates) {
  if (keep == Keep::Takers) {
    const bool taken = !candidates->empty() && candidates->front().accepted();
    if (taken && !answer.accepted()) return;
    if (!taken && answer.accepted()) candidates->clear();
  }
  candidates->push_back(std::move(answer));
}

} // namespace

std::vector<Candidate> ask_all(const Question &question, const Group &group, Keep keep) {
  std::vector<Candidate> candidates;
  for (const KernelEntry &entry : *question.kernels) {
    const bool admitted = !must_be_named(question, *entry.backend) && question.filter.matches(entry);
    if (!admitted && keep != Keep::All) continue;
    for_each_config(question, entry, admitted, [&](int32_t config) {
      Candidate answer = ask_kernel(question, group, entry, config);
      if (!admitted) hide(question, &answer); // one filter for all configs: there may be 65536
      add_answer(keep, std::move(answer), &candidates);
    });
  }
  sort_stably(&candidates, [](const Candidate &a, const Candidate &b) {
    if (a.verdict != b.verdict) return a.verdict < b.verdict;
    return a.verdict != Verdict::Rejected && goes_before(a, b);
  });
  return candidates;
}

} // namespace polyconv
