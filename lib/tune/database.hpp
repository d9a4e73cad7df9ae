// database.hpp - the tuning database: what kernels took for a problem on this machine, kept from one process to the
// next. Plans made with a tuning budget write it, every plan reads it; no run does. POLYCONV_TUNING and
// POLYCONV_TUNING_DB say whether and where (docs/tuning.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"
#include "tune/text.hpp"

#include <string>
#include <vector>

namespace polyconv {

// The key of a problem under the question's options; "" where the database has no say: a chain, invariant results,
// a caller's own threads, or POLYCONV_TUNING=off.
std::string tuning_key(const Question &question, const std::string &token, size_t layers);

// Whether candidates may be timed: not under POLYCONV_TUNING=freeze.
bool tuning_allowed();

// "2026-11-28", UTC.
std::string today();

// What is known of a key; the first call of the process reads the files.
Measurements known_measurements(const std::string &key);

// Whether an entry is about this candidate as it stands: its kernels' plug-ins, and its workspace.
bool is_about(const Measurement &measured, const Candidate &candidate);

// Makes a candidate a measured one.
void take_measurement(const Measurement &measured, Candidate *candidate);

// Adds measured candidates under a key: in this process at once, and in the user's file, whole or not at all, together
// with what other processes have written there meanwhile. Where the file cannot be written one warning says so.
void remember(const std::string &key, const std::vector<Candidate> &measured);

// Moves to the front the one to take among measured candidates in order: of those whose times cannot be told apart from
// the first's, that with the least workspace, then the first in the list of kernels, so that two machines or runs
// choose the same.
void settle_noise(std::vector<Candidate> *measured);

// The best that the database knows for a group, ahead of `candidates`, which are in the order of estimates. Only where
// it has also timed the estimates' favourite: else nobody knows whether the fastest known is any good.
void put_known_first(const Question &question, const Group &group, std::vector<Candidate> *candidates);

// Says of each candidate what the database knows of it, and puts them in order again.
void mark_known(const Question &question, std::vector<Candidate> *candidates);

} // namespace polyconv
