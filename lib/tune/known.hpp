// known.hpp - the choice among what the tuning database knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"
#include "tune/database.hpp"

#include <string>
#include <vector>

namespace polyconv {

// Whether an entry is about this candidate as it stands: its kernels' versions, and its workspace. Of one that was
// taken elsewhere another compiler may have made the kernels, of the same sources.
bool is_about(const Measurement &measured, const Candidate &candidate, bool elsewhere);

// Makes a candidate a measured one.
void take_measurement(const Measurement &measured, bool elsewhere, Candidate *candidate);

// Measured candidates as entries of the database.
Measurements entries_of(const std::vector<Candidate> &measured);

// A time as the database keeps it: what decides now must decide later.
double kept_us(double us);

// Puts measured candidates in order, and to the front the one to take: of those whose times cannot be told apart from
// the first's, that with the least workspace, then the first in the list of kernels, so that two machines or runs
// choose the same.
void settle_noise(std::vector<Candidate> *measured);

// As Tuner::choose_known.
bool choose_known(const Question &question, const Group &group, const std::vector<Candidate> &candidates,
                  Candidate *choice);

// Says of each candidate what the database knows of it, by this machine's times or those of its kind: two machines'
// are not put beside each other. Puts them in order again.
void mark_known(const Question &question, bool elsewhere, std::vector<Candidate> *candidates);

} // namespace polyconv
