// info_command.cpp - `polyconv-bench info`.
// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "info.hpp"
#include "json.hpp"
#include "machine.hpp"

namespace polyconv::bench {

int info_command(const Arguments &a) {
  Info info = collect_info();
  if (a.ceilings) {
    if (info.devices.empty()) throw Error(kMissing, "the library lists no device");
    const DeviceInfo &cpu = info.devices.front();
    info.ceilings = measure_ceilings(cpu.model, static_cast<int>(cpu.compute_units));
    if (info.ceilings_file.empty())
      std::cerr << "polyconv-bench: the ceilings are not kept: neither XDG_CACHE_HOME nor HOME is set\n";
    else
      save_ceilings(info.ceilings_file, *info.ceilings);
  }
  Output output(a.out_file);
  output.stream() << (a.output == "json" ? info_json(info) : info_text(info));
  output.stream().flush();
  if (!output.stream()) throw Error(kUsage, "the output could not be written");
  return kGood;
}

} // namespace polyconv::bench
