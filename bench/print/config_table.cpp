// config_table.cpp - the rows of a sweep over configs, put in an order that people can read.
// SPDX-License-Identifier: Apache-2.0
#include "print/config_table.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// "openmp/gemm" of "openmp/gemm@avx2", whether it ran or was only asked for.
std::string kernel_of(const Record &record) {
  const std::string &name = record.requested;
  return name.substr(0, name.find('@'));
}

bool same_sweep(const Record &a, const Record &b) {
  const auto key = [](const Record &r) {
    return std::tie(r.suite, r.problem, r.device, r.requested_math, r.grouping, r.baseline, r.requested_threads);
  };
  return key(a) == key(b);
}

bool faster(const Record *a, const Record *b) {
  return *a->median_us < *b->median_us;
}

// The rows that ran, kernel by kernel.
void add_timed(const std::vector<const Record *> &sweep, std::vector<Record> &ordered) {
  std::vector<std::string> kernels;
  std::map<std::string, std::vector<const Record *>> of_kernel;
  const Record *best = nullptr;
  for (const Record *record : sweep) {
    if (!record->median_us) continue;
    std::vector<const Record *> &configs = of_kernel[kernel_of(*record)];
    if (configs.empty()) kernels.push_back(kernel_of(*record));
    configs.push_back(record);
    if (!best || faster(record, best)) best = record;
  }
  for (const std::string &kernel : kernels) {
    std::vector<const Record *> &configs = of_kernel[kernel];
    std::stable_sort(configs.begin(), configs.end(), faster);
    for (const Record *record : configs) {
      ordered.push_back(*record);
      ordered.back().best = record == best;
    }
  }
}

// The others: configs of one kernel that say the same are one row.
void add_refused(const std::vector<const Record *> &sweep, std::vector<Record> &ordered) {
  std::vector<std::tuple<std::string, std::string, std::string>> keys;
  std::vector<std::vector<const Record *>> rows;
  for (const Record *record : sweep) {
    if (record->median_us) continue;
    const auto key = std::make_tuple(kernel_of(*record), record->status, record->reason);
    const auto known = static_cast<size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (known == keys.size()) keys.push_back(key), rows.emplace_back();
    rows[known].push_back(record);
  }
  for (const std::vector<const Record *> &row : rows) {
    ordered.push_back(*row.front());
    if (row.size() == 1) continue;
    ordered.back().requested = format("%s, %zu configs", kernel_of(*row.front()).c_str(), row.size());
    ordered.back().kernel.clear();
  }
}

} // namespace

std::vector<Record> ordered_by_config(const std::vector<Record> &records) {
  std::vector<Record> ordered;
  for (size_t begin = 0; begin < records.size();) {
    std::vector<const Record *> sweep;
    size_t end = begin;
    for (; end < records.size() && same_sweep(records[begin], records[end]); ++end) sweep.push_back(&records[end]);
    add_timed(sweep, ordered);
    add_refused(sweep, ordered);
    begin = end;
  }
  return ordered;
}

} // namespace polyconv::bench
