// info_command.cpp - `polyconv-bench info`.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "ceilings/device_meter.hpp"
#include "command/commands.hpp"
#include "print/output.hpp"
#include "result/info.hpp"
#include "result/json.hpp"
#include "system/machine.hpp"
#include "system/progress.hpp"
#include "system/terminal.hpp"

namespace polyconv::bench {

namespace {

// The rates of one device; on stderr why there are none.
std::optional<Ceilings> measure(const DeviceInfo &device) {
  if (device.name == "cpu") {
    Ceilings ceilings;
    std::vector<std::string> doubts;
    for (int attempt = 0; attempt < 2; ++attempt) { // something else may have had the machine for a moment
      ceilings = measure_ceilings(device.model, static_cast<int>(device.compute_units));
      doubts = doubts_about(ceilings, kinds_of_cpu());
      if (doubts.empty()) break;
    }
    for (const std::string &doubt : doubts)
      std::cerr << "polyconv-bench: these ceilings are doubtful: " << doubt << "; measure again on an idle machine\n";
    return ceilings;
  }
  try {
    const polyconv_device *handle = nullptr;
    require(polyconv_device_find(device.name.c_str(), &handle));
    return measure_device_ceilings(handle);
  } catch (const Unable &unable) {
    std::cerr << "polyconv-bench: no ceilings of " << device.name << ": " << unable.what() << "\n";
    return std::nullopt;
  }
}

// Devices that are alike are measured once.
void measure_all(Info &info, const std::string &when) {
  if (info.devices.empty()) throw Error(kMissing, "the library lists no device");
  info.ceilings.clear();
  std::set<std::pair<std::string, int64_t>> done;
  Progress progress(info.devices.size(), when);
  for (const DeviceInfo &device : info.devices) {
    if (!done.insert({device.model, device.compute_units}).second) continue;
    progress.next("ceilings of " + device.name);
    const std::optional<Ceilings> measured = measure(device);
    progress.wipe();
    if (!measured) continue;
    info.ceilings.push_back(*measured);
    if (!info.ceilings_file.empty()) save_ceilings(info.ceilings_file, *measured);
  }
  if (info.ceilings_file.empty())
    std::cerr << "polyconv-bench: the ceilings are not kept: neither XDG_CACHE_HOME nor HOME is set\n";
}

} // namespace

int info_command(const Arguments &a) {
  Info info = collect_info();
  if (a.ceilings) measure_all(info, a.progress);
  Output output(a, {".json"});
  output.stream() << (output_format(a.output, a.out_file) == "json"
                          ? info_json(info)
                          : info_text(info, a.out_file.empty() ? stdout_columns() : 0));
  output.finish();
  return kGood;
}

} // namespace polyconv::bench
