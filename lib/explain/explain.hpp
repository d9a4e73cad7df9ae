// explain.hpp - the answer to "why this kernel": every kernel's answer as data, and as text for people.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/decide.hpp"

#include <polyconv/sdk/printf.hpp>

#include <string>
#include <vector>

namespace polyconv {

// What kernels tell of how they run a chain.
struct Figures {
  int64_t saved_bytes = 0, recomputed_outputs = 0, blocks = 0, shared_bytes = 0;
  int32_t threads = 0;
  float occupancy = 0;
  std::string note;
};

} // namespace polyconv

struct polyconv_explanation {
  struct Answer {
    std::string kernel, reason, grouping;
    polyconv::Provenance provenance; // of estimate_us
    double estimate_us;
    int64_t workspace_bytes;
    bool accepted, chosen, fallback, measured;
    polyconv::Figures figures;
  };
  std::vector<Answer> answers; // in order of preference
  std::string text;
};

namespace polyconv {

// What was found out about a problem; explain/text.cpp turns it into words.
struct Findings {
  Question question;
  std::vector<Layer> layers;
  std::vector<Part> parts;         // what planning takes; empty where nobody takes the problem
  std::string why_not;             // then
  double us = 0;                   // that the parts take
  Provenance provenance;           // of that time
  std::vector<Grouping> groupings; // of a chain, those that were weighed
  Layout layout;
  std::vector<Candidate> whole;                  // every kernel's answer about all layers at once
  std::vector<std::vector<Candidate>> per_layer; // of a chain: about each layer alone
};

Findings find_out(const polyconv_device &device, const polyconv_problem *problems, int32_t count,
                  const polyconv_options *options);

// The one candidate that planning takes for all layers at once; NULL where there is none, or several parts.
const Candidate *chosen_one(const Findings &findings);

// The figures of one part; where there are several, sums, and the rest of the slowest fused one.
Figures figures_of(const Part &part);
Figures figures_of(const Grouping &grouping);

// "+ pooling step openmp/pool@avx2 (3.1 us)": what an accepted candidate adds; "" where nothing.
std::string additions_of(const Candidate &candidate);

std::string text_of(const Findings &findings);

// Of a chain: the groupings that were weighed, and what the fused kernels among them tell (explain/chain.cpp).
std::string groupings_text(const Findings &findings);

// Lines that say what would change the answer: other options, hidden kernels, missing backends. May be empty.
std::vector<std::string> alternatives(const Findings &findings);

// "423.6 us", "12.3 ms"; "760 KiB".
std::string time_text(double us);
std::string bytes_text(int64_t bytes);

POLYCONV_PRINTF(1, 2) std::string formatted(const char *format, ...);

// Rows whose columns line up. Trailing blanks are dropped.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(const char *indent) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

} // namespace polyconv
