// plans.cpp - a plan for each key, which is the problems as they lie in memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "schedule/plans.hpp"

#include <exception>

namespace polyconv_ort {
namespace {

// Their tokens would say the same, and take a tenth of a plan's time.
std::string key_of(const Problems &problems, const polyconv::Options &options) {
  std::string key = std::to_string(options.threads) + "|";
  for (const polyconv_problem &problem : problems) key.append(reinterpret_cast<const char *>(&problem), sizeof problem);
  return key;
}

void make(const Problems &problems, const polyconv::Options &options, const polyconv::Device &device, Made &made) {
  try {
    auto plan = std::make_shared<const polyconv::Plan>(problems, options, device);
    made.info = plan->info();
    made.estimate = made.info.estimate_us, made.plan = std::move(plan);
  } catch (const std::exception &) { // NOLINT(bugprone-empty-catch): a step that needs it asks again and is told
  }
}

struct Missing {
  const Problems *problems;
  Made *made;
};

struct Work {
  const polyconv::Options &options;
  const polyconv::Device &device;
  std::vector<Missing> missing;
};

void make_one(void *data, int64_t i) {
  auto &work = *static_cast<Work *>(data);
  make(*work.missing[i].problems, work.options, work.device, *work.missing[i].made);
}

} // namespace

const Made &Plans::of(const Problems &problems, const polyconv::Options &options) {
  const auto [entry, is_new] = made_.try_emplace(key_of(problems, options));
  if (is_new) make(problems, options, device_, entry->second);
  return entry->second;
}

void Plans::prepare(const std::vector<Problems> &wanted, const polyconv::Options &options) {
  Work work{options, device_, {}};
  for (const Problems &problems : wanted) {
    const auto [entry, is_new] = made_.try_emplace(key_of(problems, options));
    if (is_new) work.missing.push_back({&problems, &entry->second});
  }
  const auto tasks = static_cast<int64_t>(work.missing.size());
  // With a number of threads that is left open a plan is for as many as the thread may use that makes it.
  if (options.parallel_for && options.threads > 0)
    return options.parallel_for(options.parallel_for_context, tasks, make_one, &work);
  for (int64_t i = 0; i < tasks; ++i) make_one(&work, i);
}

} // namespace polyconv_ort
