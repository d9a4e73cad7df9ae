// tune.cpp - the extern "C" wall: tuning many problems, and merging what others have tuned.
// SPDX-License-Identifier: Apache-2.0
#include "base/sized.hpp"
#include "registry/device.hpp"
#include "tune/database.hpp"
#include "tune/session.hpp"

namespace polyconv {
namespace {

// All problems, valid and normalised, each a layer of its own: nothing is timed before the last of them is known to be
// right.
std::vector<Layer> read_problems(const polyconv_problem *problems, int32_t count, int32_t save) {
  if (count < 1) throw failure(POLYCONV_INVALID_ARGUMENT, "count is %d, expected 1 or more", static_cast<int>(count));
  if (problems == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "problems is NULL, expected that many");
  std::vector<Layer> layers;
  layers.reserve(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) {
    const auto *bytes = reinterpret_cast<const char *>(problems) + static_cast<size_t>(i) * problems->struct_size;
    try {
      layers.push_back(normalise(copy_problems(reinterpret_cast<const polyconv_problem *>(bytes), 1), save).front());
    } catch (const Failure &error) {
      throw failure(error.status(), "problems[%d]: %s", static_cast<int>(i), error.what());
    }
  }
  return layers;
}

// Under which nothing would be kept.
void refuse(const Options &options, int64_t budget_ms) {
  if (tuning_mode() != TuningMode::On)
    throw failure(POLYCONV_UNSUPPORTED, "POLYCONV_TUNING is %s, under which nothing is kept; expected on",
                  tuning_mode() == TuningMode::Off ? "off" : "freeze");
  if (options.policy.determinism == POLYCONV_DETERMINISM_INVARIANT)
    throw Failure(POLYCONV_INVALID_ARGUMENT,
                  "options.determinism is 2 (invariant), under which no time decides; expected another level");
  if (options.policy.parallel_for != nullptr)
    throw Failure(POLYCONV_INVALID_ARGUMENT,
                  "options.parallel_for is not NULL, expected NULL: no times are kept of a caller's own threads");
  if (budget_ms < 0 || budget_ms > INT64_MAX / 1000000)
    throw failure(POLYCONV_INVALID_ARGUMENT, "budget_ms is %lld, expected milliseconds, 0 for no limit",
                  static_cast<long long>(budget_ms));
}

TuneWatch watch_by(polyconv_tune_callback progress, void *context) {
  if (progress == nullptr) return nullptr;
  return [progress, context](const TuneProgress &now) {
    polyconv_tune_progress told = {};
    told.struct_size = sizeof told;
    told.problem = static_cast<int32_t>(now.problem);
    told.finished = now.finished ? 1 : 0;
    told.token = now.token.c_str();
    told.kernel = now.kernel.c_str();
    told.reason = now.reason.c_str();
    told.us = now.us;
    told.timed = now.timed;
    told.known = now.known;
    told.elapsed_ms = now.elapsed_ms;
    told.left_ms = now.left_ms;
    told.unkept = now.unkept;
    return progress(context, &told) == 0;
  };
}

} // namespace
} // namespace polyconv

using namespace polyconv;

extern "C" {

polyconv_status polyconv_tune(const polyconv_device *device, const polyconv_problem *problems, int32_t count,
                              const polyconv_options *options, int64_t budget_ms, polyconv_tune_callback progress,
                              void *context) {
  return guarded([&] {
    const polyconv_device &where = device_or_cpu(device);
    const Options read = read_options(options, where);
    refuse(read, budget_ms);
    tune_all(where, read_problems(problems, count, read.values.save), read, budget_ms, watch_by(progress, context));
  });
}

polyconv_status polyconv_tune_merge(const char *path, int64_t *taken) {
  return guarded([&] {
    if (path == nullptr) throw Failure(POLYCONV_INVALID_ARGUMENT, "path is NULL, expected a tuning file");
    const int64_t lines = merge_tuning_file(path);
    if (taken != nullptr) *taken = lines;
  });
}

} // extern "C"
