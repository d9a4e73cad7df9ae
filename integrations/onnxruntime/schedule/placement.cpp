// placement.cpp - an arena for the tensors, with the workspace of the steps behind it.
//
// SPDX-License-Identifier: Apache-2.0
#include "schedule/placement.hpp"

#include <algorithm>

#include "schedule/arena.hpp"

namespace polyconv_ort {
namespace {

template <class Visit>
void for_each_tensor(const Network &network, const Schedule::Step &step, Visit visit) {
  if (step.turned >= 0) return visit(step.turned);
  for (int tensor : network.read_by(step.links)) visit(tensor);
  visit(network.links[step.links.back()].output);
}

// The residual, or what an elementwise operator reads, into whose place the step's result goes, which saves a
// tensor's way through memory; -1 for none.
int in_place(const Network &network, const Schedule &schedule, size_t s, const std::vector<size_t> &last_use) {
  const Schedule::Step &step = schedule.steps[s];
  const Network::Link &link = network.links[step.links.back()];
  auto fits = [&](int tensor) {
    const Schedule::Tensor &from = schedule.tensors[tensor], &to = schedule.tensors[link.output];
    return last_use[tensor] == s && from.inside && to.inside && from.bytes() == to.bytes();
  };
  if (link.pass) {
    auto found = std::find_if(link.reads.begin(), link.reads.end(), fits);
    return link.pass->is_elementwise() && found != link.reads.end() ? *found : -1;
  }
  const int residual = link.residual();
  if (residual < 0 || residual == network.links[step.links[0]].input()) return -1;
  for (size_t k = 0; k + 1 < step.links.size(); ++k)
    if (network.links[step.links[k]].residual() == residual) return -1;
  return step.problems.back().epilogue.pool.kind == POLYCONV_POOL_NONE && fits(residual) ? residual : -1;
}

} // namespace

// A tensor's place is free again after the last step that reads it.
void place_tensors(const Network &network, Schedule &schedule) {
  std::vector<size_t> last_use(schedule.tensors.size(), 0);
  for (size_t s = 0; s < schedule.steps.size(); ++s)
    for_each_tensor(network, schedule.steps[s], [&](int tensor) { last_use[tensor] = s; });
  Arena arena;
  std::vector<bool> placed(schedule.tensors.size(), false);
  size_t workspace = 0;
  for (size_t s = 0; s < schedule.steps.size(); ++s) {
    const Schedule::Step &step = schedule.steps[s];
    workspace = std::max(workspace, static_cast<size_t>(step.info.workspace_bytes));
    const int written = step.turned >= 0 ? step.turned : network.links[step.links.back()].output;
    const int reused = step.turned >= 0 ? -1 : in_place(network, schedule, s, last_use);
    if (reused >= 0)
      schedule.tensors[written].offset = schedule.tensors[reused].offset, placed[written] = true,
      placed[reused] = false;
    else if (schedule.tensors[written].inside && !placed[written])
      schedule.tensors[written].offset = arena.take(schedule.tensors[written].bytes()), placed[written] = true;
    for_each_tensor(network, schedule.steps[s], [&](int tensor) {
      if (placed[tensor] && last_use[tensor] == s) arena.give(schedule.tensors[tensor].offset), placed[tensor] = false;
    });
  }
  schedule.arena = arena.bytes(), schedule.bytes = arena.bytes() + workspace;
}

} // namespace polyconv_ort
