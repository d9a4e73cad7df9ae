// schedule.hpp - everything about a region's runs for one set of sizes: how each tensor lies in memory and where, which
// layers are one plan, and in which order.
//
// Tensors inside a region lie channels first or last, whichever is estimated to be faster in all; outside they are
// channels first, and are turned where they meet. A layer whose result one other layer alone reads becomes a chain with
// it: polyconv then decides which of a chain's layers one kernel takes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_SCHEDULE_HPP
#define POLYCONV_ORT_SCHEDULE_HPP

#include "run/turn.hpp"
#include "schedule/network.hpp"

namespace polyconv_ort {

struct Schedule {
  struct Tensor {
    std::vector<int64_t> sizes; // batch and channels first, however it lies
    int type = kFloat;
    bool last = false;   // the channels lie last
    bool inside = false; // it lies in the arena, at `offset`; else it is the runtime's own
    size_t offset = 0;
    size_t bytes() const;
  };
  struct Step {             // a plan, an operator, or one tensor turned
    std::vector<int> links; // of the plan's layers; or the one of the operator, without a plan
    std::shared_ptr<const polyconv::Plan> plan;
    polyconv_plan_info info = {};
    std::vector<polyconv::Problem> problems;
    std::vector<std::shared_ptr<polyconv::Weights>> weights; // NULL: raw, or packed in each run
    int turned = -1;                                         // the tensor; -1: none
    Turn turn;
  };
  std::vector<Tensor> tensors; // as the network's
  std::vector<Step> steps;
  size_t arena = 0, bytes = 0; // of tensors inside; with the workspace of the steps behind them
};

struct Sized { // one of the tensors that come from outside
  int type = 0;
  std::vector<int64_t> sizes;
};

using Pieces = std::vector<std::vector<int>>; // links, each piece one plan

// What a schedule's time goes to, and sizes that are alike may share. Empty: still to be chosen.
struct Choice {
  std::vector<bool> last; // of each tensor, whether its channels lie last
  Pieces pieces;
};

// Throws Error, polyconv::Error or std::invalid_argument where the sizes do not fit. `weights` and `numbers` are the
// layers' own; `inputs` are by tensor. `choice` is taken as it is, or made where there is none.
Schedule make_schedule(const Network &, const Place &, const std::vector<Sized> &inputs,
                       const std::vector<View> &weights, const std::vector<Layer::Numbers> &numbers, Choice &choice);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_SCHEDULE_HPP
