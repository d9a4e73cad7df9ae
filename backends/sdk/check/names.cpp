// names.cpp - names of modes and verdicts, and of every kernel that the library found.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

namespace polyconv::check {

const char *mode_name(Mode mode) {
  return mode == Mode::Exact ? "exact" : mode == Mode::Random ? "random" : "nonfinite";
}

const char *verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::Good: return "good";
    case Verdict::Wrong: return "wrong";
    case Verdict::Skipped: return "skipped";
    case Verdict::Unsupported: return "unsupported";
    default: return "failed";
  }
}

std::vector<std::string> kernel_names(const std::string &device_kind) {
  std::vector<std::string> names;
  for (int32_t backend = 0; backend < polyconv_backend_count(); ++backend) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    if (polyconv_backend_get(backend, &info) != POLYCONV_SUCCESS) continue;
    if (info.available == 0 || device_kind != info.device_kind) continue;
    for (int32_t kernel = 0; const char *name = polyconv_backend_kernel(backend, kernel); ++kernel)
      for (int32_t config = 0; const char *tile = polyconv_backend_config(backend, kernel, config); ++config)
        names.push_back(std::string(name) + "@" + tile);
  }
  return names;
}

} // namespace polyconv::check
