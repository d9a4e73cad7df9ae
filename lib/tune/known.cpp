// known.cpp - the choice among what the database knows.
// SPDX-License-Identifier: Apache-2.0
#include "tune/known.hpp"

#include "os/log.hpp"
#include "tune/key.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>

namespace polyconv {
namespace {

// Microseconds without the digits that no clock tells.
double to_nanoseconds(double us) {
  return std::round(us * 1e3) / 1e3;
}

// Whether two times are within the noise: the spread of either's runs, and what one and the same kernel differs by from
// one trial to the next, whose memory lies elsewhere.
bool within_noise(double a_us, double a_spread_us, double b_us, double b_spread_us) {
  constexpr double kTrials = 0.02;
  return std::abs(a_us - b_us) <= std::max({a_spread_us, b_spread_us, kTrials * std::min(a_us, b_us)});
}
bool cannot_be_told_apart(const Candidate &a, const Measurement &b) {
  return within_noise(a.estimate_us, a.spread_us, b.us, b.spread_us);
}
bool cannot_be_told_apart(const Candidate &a, const Candidate &b) {
  return within_noise(a.estimate_us, a.spread_us, b.estimate_us, b.spread_us);
}

// Whether options.kernel leaves a kernel with this config.
bool admits(const Question &question, const KernelEntry &entry, int32_t config) {
  if (entry.backend->on_request && !question.filter.names(entry.backend->name)) return false;
  if (question.filter.empty()) return true;
  const std::vector<int32_t> configs = question.filter.configs(entry);
  return std::any_of(configs.begin(), configs.end(), [&](int32_t one) { return one < 0 || one == config; });
}

// Whether `names`, those of a candidate's kernels, begin with this kernel: "threads/dense@avx512 + threads/pool@avx2".
bool begin_with(const std::string &names, const KernelEntry &entry) {
  const size_t size = entry.full_name.size();
  return names.size() > size && names[size] == '@' && names.compare(0, size, entry.full_name) == 0;
}

// Says once a process that a database is behind the kernels, as one that shipped may be.
void tell_of_other_version(const std::string &names) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    log(POLYCONV_LOG_INFO,
        "tuning: the times of %s were taken of another version of it and are left alone, as all such are; "
        "polyconv-bench tune takes them again",
        names.c_str());
}

// Whether a line's version of kernels is that of today's. Elsewhere another compiler may have made them.
bool same_version(const std::string &timed, const std::string &today, bool elsewhere) {
  return elsewhere ? sources_in(timed) == sources_in(today) : timed == today;
}

// What is known of a key, of this device or of its kind.
struct Times {
  const Measurements &rows;
  bool elsewhere;
};

// Whether the estimates' favourite is among what was timed, with any config. Entries are sorted by names.
bool has_timed(const Times &known, const Candidate &favourite) {
  const std::string version = version_of(*favourite.entry);
  for (auto entry = known.rows.lower_bound(favourite.entry->full_name + "@"); entry != known.rows.end(); ++entry) {
    if (!begin_with(entry->first, *favourite.entry)) return false;
    const std::string &timed = entry->second.version; // the kernel's own, then '+' and those of its helpers
    if (same_version(timed.substr(0, timed.find('+')), version, known.elsewhere)) return true;
    tell_of_other_version(entry->first);
  }
  return false;
}

// The config that names say behind a kernel's "@"; -1 where it has none of that name.
int32_t config_in(const std::string &names, const KernelEntry &entry) {
  const size_t begin = entry.full_name.size() + 1, end = std::min(names.find(" + ", begin), names.size());
  for (int32_t config = 0; config < entry.kernel->config_count; ++config)
    if (names.compare(begin, end - begin, config_name(entry, config)) == 0) return config;
  return -1;
}

// The kernel and config that an entry begins with, asked under the question; not accepted where it is not here, or
// would run otherwise than when it was timed. What has been asked already is not asked again.
Candidate ask_known(const Question &question, const Group &group, const std::vector<Candidate> &asked,
                    const std::string &names, const Measurement &measured, bool elsewhere) {
  for (const KernelEntry &entry : *question.kernels) {
    if (!begin_with(names, entry)) continue;
    const int32_t config = config_in(names, entry);
    if (config < 0 || !admits(question, entry, config)) return {};
    const auto same = [&](const Candidate &one) {
      return one.accepted() && one.entry == &entry && one.offer.config == config;
    };
    const auto found = std::find_if(asked.begin(), asked.end(), same);
    Candidate candidate = found != asked.end() ? *found : ask_kernel(question, group, entry, config);
    if (!candidate.accepted() || names_of(candidate) != names || !is_about(measured, candidate, elsewhere)) return {};
    take_measurement(measured, elsewhere, &candidate);
    return candidate;
  }
  return {};
}

// An entry that is worth asking about, the fastest first.
using Row = const Measurements::value_type *;
struct Slower {
  bool operator()(Row a, Row b) const { return a->second.us > b->second.us; }
};

// As choose_known, of one device's times.
bool choose_among(const Times &known, const Question &question, const Group &group,
                  const std::vector<Candidate> &candidates, Candidate *choice) {
  if (!has_timed(known, candidates.front())) return false;
  std::vector<Row> rest;
  rest.reserve(known.rows.size());
  for (const auto &entry : known.rows) rest.push_back(&entry);
  std::make_heap(rest.begin(), rest.end(), Slower());
  std::vector<Candidate> measured; // as many as matter: up to the first that is no fallback and clearly slower
  while (!rest.empty()) {
    std::pop_heap(rest.begin(), rest.end(), Slower());
    const Row row = rest.back();
    rest.pop_back();
    const bool settled = std::any_of(measured.begin(), measured.end(), [&](const Candidate &faster) {
      return faster.fallback_rank() == 0 && !cannot_be_told_apart(faster, row->second);
    });
    if (settled) break;
    Candidate candidate = ask_known(question, group, candidates, row->first, row->second, known.elsewhere);
    if (candidate.accepted()) measured.push_back(std::move(candidate));
  }
  settle_noise(&measured);
  if (measured.empty() || measured.front().fallback_rank() > candidates.front().fallback_rank()) return false;
  *choice = std::move(measured.front());
  return true;
}

} // namespace

bool is_about(const Measurement &measured, const Candidate &candidate, bool elsewhere) {
  return measured.workspace_bytes == candidate.workspace_bytes &&
         same_version(measured.version, version_of(candidate), elsewhere);
}

void take_measurement(const Measurement &measured, bool elsewhere, Candidate *candidate) {
  candidate->measured = true;
  candidate->estimate_us = measured.us;
  candidate->spread_us = measured.spread_us;
  candidate->provenance = {measured.date, elsewhere};
}

Measurements entries_of(const std::vector<Candidate> &measured) {
  Measurements entries;
  for (const Candidate &candidate : measured)
    entries[names_of(candidate)] = {version_of(candidate), kept_us(candidate.estimate_us),
                                    to_nanoseconds(candidate.spread_us), candidate.workspace_bytes,
                                    candidate.provenance.day};
  return entries;
}

double kept_us(double us) {
  return std::max(to_nanoseconds(us), 1e-3);
}

void settle_noise(std::vector<Candidate> *measured) {
  if (measured->empty()) return;
  // Whoever asks has them in another order, and times of a nanosecond's difference are often the same.
  std::stable_sort(measured->begin(), measured->end(), [](const Candidate &a, const Candidate &b) {
    if (goes_before(a, b) || goes_before(b, a)) return goes_before(a, b);
    if (a.spread_us != b.spread_us) return a.spread_us > b.spread_us;
    return a.entry != b.entry ? std::less<>()(a.entry, b.entry) : a.offer.config < b.offer.config;
  });
  const Candidate &first = measured->front();
  const auto end = std::find_if(measured->begin(), measured->end(), [&first](const Candidate &candidate) {
    return candidate.fallback_rank() != first.fallback_rank() || !cannot_be_told_apart(first, candidate);
  });
  const auto taken = std::min_element(measured->begin(), end, [](const Candidate &a, const Candidate &b) {
    if (a.workspace_bytes != b.workspace_bytes) return a.workspace_bytes < b.workspace_bytes;
    if (a.entry != b.entry) return std::less<>()(a.entry, b.entry); // both are in one list
    return a.offer.config < b.offer.config;
  });
  std::rotate(measured->begin(), taken, taken + 1);
}

bool choose_known(const Question &question, const Group &group, const std::vector<Candidate> &candidates,
                  Candidate *choice) {
  const Known known = known_measurements(question.tuning_key);
  if (known.here != nullptr && choose_among({*known.here, false}, question, group, candidates, choice)) return true;
  return known.elsewhere != nullptr && choose_among({*known.elsewhere, true}, question, group, candidates, choice);
}

void mark_known(const Question &question, bool elsewhere, std::vector<Candidate> *candidates) {
  const Known known = known_measurements(question.tuning_key);
  const std::shared_ptr<const Measurements> &rows = elsewhere ? known.elsewhere : known.here;
  if (rows == nullptr) return;
  for (Candidate &candidate : *candidates) {
    if (!candidate.accepted() || candidate.measured) continue;
    const auto found = rows->find(names_of(candidate));
    if (found != rows->end() && is_about(found->second, candidate, elsewhere))
      take_measurement(found->second, elsewhere, &candidate);
  }
  std::stable_sort(candidates->begin(), candidates->end(), [](const Candidate &a, const Candidate &b) {
    return a.accepted() != b.accepted() ? a.accepted() : a.accepted() && goes_before(a, b);
  });
}

} // namespace polyconv
