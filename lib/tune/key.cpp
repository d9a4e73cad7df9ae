// key.cpp - problem, conditions and device as text; a kernel's code as a hash.
// SPDX-License-Identifier: Apache-2.0
#include "tune/key.hpp"

#include "os/os.hpp"
#include "registry/device.hpp"
#include "tune/database.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace polyconv {
namespace {

// Which rules decide what a kernel may do to numbers under a math mode and a determinism level. It counts up when they
// change, since what was the fastest under the old rules may not be taken under the new ones.
constexpr int kNumericsClass = 1;

// Asked once a device: a system or driver takes longer to answer than a plan to be made.
std::string device_words(const polyconv_device &device) {
  static std::mutex mutex;
  static auto &known = *new std::map<const polyconv_device *, std::string>; // handles are valid for ever
  const std::lock_guard<std::mutex> lock(mutex);
  std::string &words = known[&device];
  if (!words.empty()) return words;
  polyconv_device_properties properties = {};
  properties.struct_size = sizeof properties;
  if (polyconv_device_get_properties(&device, &properties) != POLYCONV_SUCCESS) return device.kind;
  return words = tuning_field(std::string(properties.name) + "; " + properties.description);
}

// The build id of the file that a kernel's code lies in, or the backend's own version where the platform has none.
std::string version_of_file(const KernelEntry &entry) {
  static std::mutex mutex;
  static auto &known = *new std::map<const Backend *, std::string>; // backends stay, and so does this
  const std::lock_guard<std::mutex> lock(mutex);
  std::string &version = known[entry.backend];
  if (version.empty()) {
    const std::string id = os::build_id(reinterpret_cast<const void *>(entry.kernel->supports));
    version = tuning_field(id.empty() ? entry.backend->version : id.substr(0, 12));
  }
  return version;
}

} // namespace

std::string version_of(const KernelEntry &entry) {
  const polyconv_kernel &kernel = *entry.kernel;
  constexpr size_t kSize = offsetof(polyconv_kernel, version) + sizeof kernel.version;
  const bool says = kernel.struct_size >= kSize && kernel.version != nullptr && kernel.version[0] != '\0';
  return says ? tuning_field(kernel.version) : version_of_file(entry);
}

std::string version_of(const Candidate &candidate) {
  std::vector<std::string> versions = {version_of(*candidate.entry)};
  const auto add = [&versions](const Helper &helper) {
    if (helper.entry == nullptr) return;
    std::string version = version_of(*helper.entry);
    if (std::find(versions.begin(), versions.end(), version) == versions.end()) versions.push_back(std::move(version));
  };
  add(candidate.gradient);
  add(candidate.pool);
  for (const Helper &helper : candidate.moves) add(helper);
  std::string text;
  for (const std::string &version : versions) text += (text.empty() ? "" : "+") + version;
  return text;
}

std::string sources_in(const std::string &version) {
  std::string sources;
  for (size_t begin = 0; begin < version.size();) {
    const size_t end = std::min(version.find('+', begin), version.size());
    const std::string one = version.substr(begin, end - begin);
    sources += (sources.empty() ? "" : "+") + one.substr(0, one.find('/'));
    begin = end + 1;
  }
  return sources;
}

std::string tuning_key(const Question &question, const std::string &token, size_t layers) {
  const polyconv_policy &policy = question.options.policy;
  if (tuning_mode() == TuningMode::Off || layers != 1 || policy.parallel_for != nullptr ||
      policy.determinism == POLYCONV_DETERMINISM_INVARIANT)
    return "";
  const std::string device = device_words(*question.device);
  if (question.tuning_ns == 0 && nothing_is_known(device)) return ""; // as on most machines: planning stays quick
  const polyconv_options &options = question.options.values;
  std::string conditions = "numerics=" + std::to_string(kNumericsClass) + " math=" + math_name(policy.math) +
                           " determinism=" + std::to_string(policy.determinism);
  // A GPU does not care how many processors its host has.
  if (question.device->kind == "cpu") conditions += " threads=" + std::to_string(policy.threads);
  if (options.save != POLYCONV_SAVE_NONE) conditions += " save=" + std::to_string(options.save);
  if (options.dynamic_weights != 0) conditions += " dynamic_weights";
  return tuning_field(token) + "\t" + conditions + "\t" + device;
}

} // namespace polyconv
