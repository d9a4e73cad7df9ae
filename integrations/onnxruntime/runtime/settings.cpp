// settings.cpp - reads the provider's options and refuses what it does not know.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/settings.hpp"

#include <algorithm>
#include <cctype>
#include <memory>
#include <vector>

#include "runtime/graph.hpp"

namespace polyconv_ort {
namespace {

// One place of processors for each of the session's threads but the caller's, which is the only word that the runtime
// has for a provider of how many they are: sizes that the session's creator sets by SetIntraOpNumThreads are not shown.
constexpr char kAffinities[] = "session.intra_op_thread_affinities";

int32_t threads_of(const std::string &affinities) {
  if (affinities.empty()) return 0;
  const auto others = 1 + std::count(affinities.begin(), affinities.end(), ';');
  return others < 1024 ? static_cast<int32_t>(others) + 1 : 0;
}

// The place of a value in a list; throws a sentence that names all of them.
int32_t choice(const std::string &key, const std::string &value, const std::vector<std::string> &words) {
  auto found = std::find(words.begin(), words.end(), value);
  if (found != words.end()) return static_cast<int32_t>(found - words.begin());
  std::string all;
  for (const std::string &word : words) all += (all.empty() ? "" : ", ") + word;
  throw Error(kInvalidArgument, "polyconv: option " + key + " is \"" + value + "\", expected one of " + all);
}

int64_t number(const std::string &key, const std::string &value, int64_t least, int64_t most) {
  const bool digits = !value.empty() && value.size() <= 9 &&
                      std::all_of(value.begin(), value.end(), [](unsigned char c) { return std::isdigit(c); });
  const int64_t result = digits ? std::stoll(value) : -1;
  if (digits && result >= least && result <= most) return result;
  throw Error(kInvalidArgument, "polyconv: option " + key + " is \"" + value + "\", expected a number from " +
                                    std::to_string(least) + " to " + std::to_string(most));
}

void set(Settings &settings, const std::string &key, const std::string &value) {
  if (key == "math")
    settings.math = choice(key, value, {"strict", "fp32_emulated", "tf32", "fast"});
  else if (key == "determinism")
    settings.determinism = choice(key, value, {"none", "run", "invariant", "identical"});
  else if (key == "kernel")
    settings.kernel = value;
  else if (key == "threads")
    settings.threads = static_cast<int32_t>(number(key, value, 0, 1024));
  else if (key == "pool")
    settings.session_pool = choice(key, value, {"session", "own"}) == 0;
  else if (key == "log")
    settings.log = choice(key, value, {"0", "1"}) == 1;
  else if (key == "profile")
    settings.profile = choice(key, value, {"0", "1"}) == 1;
  else if (key == "report")
    settings.report = value;
  else if (key == "plans")
    settings.plans = number(key, value, 1, 100000);
  else
    throw Error(kInvalidArgument,
                "polyconv: there is no option \"" + key +
                    "\", expected math, determinism, kernel, threads, pool, log, profile, report or plans");
}

} // namespace

Settings read_settings(const Api &api, const OrtSessionOptions *options) {
  OrtKeyValuePairs *pairs = nullptr;
  require(api, api.GetSessionOptionsConfigEntries(options, &pairs));
  const std::unique_ptr<OrtKeyValuePairs, decltype(api.ReleaseKeyValuePairs)> released(pairs, api.ReleaseKeyValuePairs);
  const char *const *keys = nullptr, *const *values = nullptr;
  size_t count = 0;
  api.GetKeyValuePairs(pairs, &keys, &values, &count);
  std::string prefix = std::string("ep.") + kProviderName + ".";
  for (char &letter : prefix) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  Settings settings;
  int32_t told = 0;
  for (size_t i = 0; i < count; ++i) {
    const std::string key = keys[i];
    if (key == kAffinities) told = threads_of(values[i]);
    if (key.compare(0, prefix.size(), prefix) == 0) set(settings, key.substr(prefix.size()), values[i]);
  }
  settings.threads_of_affinities = settings.threads == 0 && told > 0;
  if (settings.threads_of_affinities) settings.threads = told;
  return settings;
}

} // namespace polyconv_ort
