// failure.cpp - the sentence for a problem that no kernel takes: a filter that matches nothing is another matter
// than kernels that say no.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"
#include "registry/device.hpp"
#include "token/token.hpp"

namespace polyconv {
namespace {

// What is known of backends that the filter names but that serve nothing here: "backend 'cudnn': no driver".
std::string missing_backends(const Question &question) {
  std::string text;
  for (const Backend *backend : backends()) {
    if (!question.filter.names(backend->name)) continue;
    if (!backend->available) text += "; backend '" + backend->name + "' is not available: " + backend->reason;
    if (backend->available && backend->device_kind != question.device->kind)
      text += "; backend '" + backend->name + "' serves " + backend->device_kind;
  }
  return text;
}

// The names that a filter might have meant: every config of a kernel that it matches but for that, else the kernels.
std::string names_there(const Question &question) {
  constexpr size_t kEnough = 400;
  std::string kernels, configs;
  const auto add = [](std::string *text, const std::string &name) {
    if (text->size() < kEnough) *text += (text->empty() ? "" : ", ") + name;
  };
  for (const KernelEntry &entry : *question.kernels) {
    add(&kernels, entry.full_name);
    if (!question.filter.matches_but_config(entry)) continue;
    for (int32_t config = 0; config < entry.kernel->config_count; ++config) add(&configs, kernel_name(entry, config));
  }
  return !configs.empty() ? configs : !kernels.empty() ? kernels : "none is there";
}

} // namespace

Failure nobody_takes(const Question &question, const std::vector<Layer> &layers, const std::string &why) {
  const char *device = question.device->name.c_str();
  bool any = false;
  for (const KernelEntry &entry : *question.kernels) any = any || question.filter.matches(entry);
  if (!any && !question.filter.empty()) {
    return failure(POLYCONV_UNAVAILABLE,
                   "%s is '%s', which matches no kernel that serves %s%s; expected a glob that matches some of: %s",
                   question.options.kernel_from, question.options.kernel.c_str(), device,
                   missing_backends(question).c_str(), names_there(question).c_str());
  }
  if (!any) return failure(POLYCONV_UNAVAILABLE, "no backend that serves %s was found", device);
  return failure(POLYCONV_UNSUPPORTED, "no kernel on %s takes %s: %s", device, token_of(layers).c_str(),
                 why.empty() ? "none was asked" : why.c_str());
}

} // namespace polyconv
