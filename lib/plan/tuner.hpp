// tuner.hpp - what the choice wants of whoever measures: times known from earlier, and times taken now. tune/ is it;
// planning gets it handed in, since timing a candidate takes all that lies above planning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"

#include <vector>

namespace polyconv {

struct Grouping; // decide.hpp
struct Layer;    // problem/problem.hpp

class Tuner {
 public:
  // Says in a question about these layers what is up to the tuner: the key of what is known, and no budget where
  // nothing may be timed.
  virtual void prepare(const std::vector<Layer> &layers, Question *question) const = 0;

  // Replaces the estimates of as many accepted candidates as question.tuning_ns allows (of one at least) by measured
  // times and moves the measured ones to the front, fastest first. What is known is not timed again.
  virtual void time(const Question &question, const Group &group, std::vector<Candidate> *candidates) const = 0;

  // Times as many groupings of a chain as a whole as half of the budget allows, one run of each in turn, that without
  // fusing always among them; those with more layers on fallbacks than the first are left out. One that fails, in
  // whichever run, keeps its estimate and says why in `failure`.
  virtual void time_whole(const Question &question, const std::vector<Layer> &layers,
                          std::vector<Grouping> *groupings) const = 0;

  // The best that is known for a group of which `candidates` are in the order of estimates. False, and *choice as it
  // was, where nothing is, or where the estimates' favourite has never been timed: then nobody knows whether the
  // fastest known is any good.
  virtual bool choose_known(const Question &question, const Group &group, const std::vector<Candidate> &candidates,
                            Candidate *choice) const = 0;

 protected:
  ~Tuner() = default; // never destroyed through this
};

} // namespace polyconv
