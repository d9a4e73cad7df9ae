// select.hpp - step 3 of the way through the code: every kernel of every backend serving the device says yes (with an
// estimate) or no (with a reason); the estimates, or measurements, order the yeses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"
#include "select/filter.hpp"
#include "select/options.hpp"
#include "select/route.hpp"

#include <memory>
#include <vector>

namespace polyconv {

// What is asked for: one layer, or neighbours of a chain for a fused kernel. Self-contained: residuals from outside
// have become RESIDUAL_BUFFER, those from inside count from the group's first layer.
struct Group {
  int32_t first = 0; // of the whole problem
  std::vector<polyconv_layer> layers;
  bool has_gradient = false; // one gradient, and a step before it:
  polyconv_layer gradient;   // what POLYCONV_OP_GRADIENT asks
  int64_t view_offset = 0;   // bytes from where the first layer's input lies to what it reads of that
  int32_t count() const { return static_cast<int32_t>(layers.size()); }
};

// Under which conditions.
struct Question {
  const polyconv_device *device = nullptr;
  std::shared_ptr<const KernelList> kernels;
  Filter filter;
  Options options;
  bool all_configs = false;  // ask about every config instead of letting kernels choose
  int64_t tuning_ns = 0;     // for timing the candidates of one group; 0: estimates only
  std::string tuning_key;    // under which the tuning database knows this problem; "": it is not asked
  bool measures_all = false; // time a group's only candidate too, to compare it with other groups
};

// Whether a kernel counts as a fallback: reference, or flagged generic.
bool is_fallback(const KernelEntry &entry);

Question make_question(const polyconv_device &device, const Options &options);

// A kernel that pools or converts for another, with its answer.
struct Helper {
  const KernelEntry *entry = nullptr; // NULL: not needed
  int32_t config = 0;
  double estimate_us = 0;
  int64_t workspace_bytes = 0;
};

enum class Verdict {
  Accepted,
  Hidden,  // accepted, were it not for options.kernel
  Rejected // by the kernel, or by a rule of the library
};

// Where a time comes from.
struct Provenance {
  std::string day;        // on which it was measured, UTC: "2026-11-28"; "" where it is an estimate
  bool elsewhere = false; // not here but on a machine of this kind, as what ships was

  std::string words() const; // "here on 2026-11-28"; "estimated"
};

// One kernel's answer.
struct Candidate {
  const KernelEntry *entry = nullptr;
  Verdict verdict = Verdict::Rejected;
  bool fallback = false; // it is one, or a step beside it is
  bool measured = false; // estimate_us is a measurement
  double spread_us = 0;  // of its runs, then
  Provenance provenance; // of estimate_us
  Detour detour;         // what the plan must add for this kernel to take the problem
  Helper gradient;
  Helper pool;
  Helper moves[kMoves];
  double estimate_us = 0;      // helpers included; the measured time after tuning
  int64_t workspace_bytes = 0; // likewise
  polyconv_offer offer;        // of the kernel itself; offer.reason says why not

  bool accepted() const { return verdict == Verdict::Accepted; }

  // What the heuristics say, also after tuning.
  double heuristic_us() const;

  // 0: no fallback; 1: a step beside the kernel is one; 2: the kernel itself.
  int fallback_rank() const;
};

// Asks one kernel, following its hints (rejects_pooling, wants_layout). config -1: the kernel chooses. Where `like` is
// given, the same detour with the same helpers is asked for and no other. Whether the filter admits it is not looked
// at.
Candidate ask_kernel(const Question &question, const Group &group, const KernelEntry &entry, int32_t config,
                     const Candidate *like = nullptr);

// Whether `a` goes before `b` among those that take a group: a fallback comes after all others, whatever its time; a
// measurement before a guess; then the shorter time.
bool goes_before(const Candidate &a, const Candidate &b);

// Whose answers are kept. An answer has a kilobyte, and of a hundred kernels few take a layer: a plan keeps no others.
enum class Keep {
  Takers, // who takes the group; only where nobody does, whom the filter admits, with their reasons
  All     // everybody, whom the filter does not admit too
};

// Asks every kernel that the filter admits, or really every one. Accepted first, then hidden, each as they go before
// another; ties and the rejected in the order of the kernel list.
std::vector<Candidate> ask_all(const Question &question, const Group &group, Keep keep);

// The names of a candidate's kernels, the convolving one first, joined by " + ".
std::string names_of(const Candidate &candidate);

} // namespace polyconv
