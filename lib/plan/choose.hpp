// choose.hpp - from the answers of all kernels about one group to the candidate that is taken.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/tuner.hpp"
#include "select/select.hpp"

#include <string>
#include <vector>

namespace polyconv {

// The candidate to take: the first of those accepted, measured before where there is a tuning budget. Under
// DETERMINISM_INVARIANT it is that of one image on one thread, so that the choice is a function of neither batch nor
// threads. False where there is none; *why (which may be NULL) then says it in words.
bool choose(const Question &question, const Tuner &tuner, const Group &group, Candidate *choice, std::string *why);

// Turns a choice made for one image into one for the group as it is, by the same kernel and config or not at all.
bool confirm(const Question &question, const Group &group, Candidate *choice, std::string *why);

// What decides the order: the group as it is, or one image of it.
Question ordering_question(const Question &question, Group *group);

// Why nobody takes a group, from the answers: "openmp/gemm: takes f32, not f64; ...".
std::string reasons_of(const std::vector<Candidate> &candidates);

} // namespace polyconv
