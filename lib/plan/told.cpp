// told.cpp - the words of that line. What polyconv-bench has no option for is named behind a '#', where a shell stops
// reading.
// SPDX-License-Identifier: Apache-2.0
#include "plan/told.hpp"

#include "os/log.hpp"
#include "registry/device.hpp"
#include "token/token.hpp"

#include <algorithm>

namespace polyconv {
namespace {

// As a POSIX shell reads it back: in quotes, unless all letters stand for themselves.
std::string shell_word(const std::string &word) {
  constexpr const char *kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:,./=+-_@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string token_of(const polyconv_plan &plan) {
  std::vector<Layer> layers;
  for (const PlanLayer &layer : plan.layers) layers.push_back(layer.layer);
  return token_of(layers);
}

// Whether one kernel takes all layers: the bench can be held to that one, and otherwise only to the groups, since of
// several kernels it would make a row each.
bool is_one_kernels(const polyconv_plan &plan) {
  return plan.layers.size() == 1 || plan.grouping == std::to_string(plan.layers.size());
}

// That kernel with its config, and what options.kernel keeps out beside it; "" where there is neither.
std::string kernel_globs(const polyconv_plan &plan) {
  std::string globs;
  if (is_one_kernels(plan)) globs = plan.kernel_names.substr(0, plan.kernel_names.find(" + "));
  const std::string &asked = plan.options.kernel;
  for (size_t begin = 0; begin < asked.size();) {
    const size_t end = std::min(asked.find(',', begin), asked.size());
    const size_t mark = asked.find_first_not_of(' ', begin);
    if (mark < end && asked[mark] == '!') globs += (globs.empty() ? "" : ",") + asked.substr(mark, end - mark);
    begin = end + 1;
  }
  return globs;
}

// " # without save", or "".
std::string what_it_lacks(const polyconv_plan &plan) {
  const polyconv_options &options = plan.options.values;
  const bool free_choice = !is_one_kernels(plan);
  std::string text;
  const auto add = [&text](bool asked, const char *what) {
    if (asked) text += (text.empty() ? " # without " : ", ") + std::string(what);
  };
  add(options.save != POLYCONV_SAVE_NONE, "save");
  add(options.parallel_for != nullptr, "parallel_for");
  add(options.dynamic_weights != 0 && free_choice, "dynamic_weights");
  add(!plan.options.kernel.empty() && free_choice, plan.options.kernel_from);
  return text;
}

std::string command_of(const polyconv_plan &plan, const std::string &token) {
  std::string text = "polyconv-bench run " + shell_word(token);
  const auto add = [&text](bool needed, const char *option, const std::string &value) {
    if (needed) text += std::string(" ") + option + " " + shell_word(value);
  };
  const polyconv_policy &policy = plan.options.policy;
  const polyconv_options &options = plan.options.values;
  const std::string globs = kernel_globs(plan);
  add(true, "--device", plan.device->name);
  add(!globs.empty(), "--kernel", globs);
  add(plan.layers.size() > 1, "--grouping", plan.grouping);
  add(policy.math != POLYCONV_MATH_STRICT, "--math", math_name(policy.math));
  add(policy.determinism != POLYCONV_DETERMINISM_RUN, "--determinism", std::to_string(policy.determinism));
  add(plan.device->kind == "cpu", "--threads", std::to_string(policy.threads));
  add(options.workspace_limit >= 0, "--workspace-limit", std::to_string(options.workspace_limit));
  add(options.shared_memory_limit >= 0, "--shared-memory", std::to_string(options.shared_memory_limit));
  return text + what_it_lacks(plan);
}

} // namespace

void tell(const polyconv_plan &plan) {
  if (!listens(POLYCONV_LOG_INFO)) return;
  const std::string token = token_of(plan);
  const std::string when = (plan.provenance.day.empty() ? "" : "measured ") + plan.provenance.words();
  log(POLYCONV_LOG_INFO, "plan %s on %s: %s, %.1f us %s; run: %s", token.c_str(), plan.device->name.c_str(),
      plan.kernel_names.c_str(), plan.estimate_us, when.c_str(), command_of(plan, token).c_str());
}

} // namespace polyconv
