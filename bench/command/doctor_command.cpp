// doctor_command.cpp - `polyconv-bench doctor`: what is missing, or in the way of figures that can be trusted, each
// with what mends it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>
#include <thread>

#include "command/commands.hpp"
#include "judge/changes.hpp"
#include "result/info.hpp"
#include "system/terminal.hpp"
#include "text/tone.hpp"

namespace polyconv::bench {

namespace {

class Findings {
 public:
  void good(const std::string &what) { text_ += toned("ok", tone(Tone::kGood)) + "    " + what + "\n"; }
  void bad(const std::string &what, const std::string &remedy) {
    text_ += toned("look", tone(Tone::kBad)) + "  " + what + (remedy.empty() ? "" : ": " + remedy) + "\n";
    ++count_;
  }
  const std::string &text() const { return text_; }
  int count() const { return count_; }

 private:
  Tone tone(Tone wanted) const { return coloured_ ? wanted : Tone::kPlain; }

  bool coloured_ = stdout_takes_colours();
  std::string text_;
  int count_ = 0;
};

// The first line of a file of the system's; "" where there is none.
std::string first_line(const char *path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// What installs what a backend lacks, on Debian and its kin.
std::string remedy_for(const std::string &backend) {
  if (backend.rfind("cuda", 0) == 0)
    return "build with the CUDA Toolkit (cmake --workflow --preset cuda) or pip install polyconv-cuda13";
  if (backend == "cudnn") return "apt-get install libcudnn9-dev-cuda-13, then build the preset cuda";
  if (backend == "onednn") return "bench/yardsticks/onednn.sh builds oneDNN 3, then cmake -DPOLYCONV_ONEDNN=ON";
  if (backend == "opencv") return "apt-get install libopencv-dev, then cmake -DPOLYCONV_OPENCV=ON";
  if (backend == "tbb") return "apt-get install libtbb-dev, then build again";
  if (backend == "openmp") return "apt-get install libgomp1";
  return "";
}

void ask_backends(const Info &info, Findings &findings) {
  std::vector<std::string> there;
  for (const BackendInfo &backend : info.backends)
    if (backend.available) there.push_back(backend.name);
  if (there.empty())
    findings.bad("no backend was found in " + info.search_path, "POLYCONV_BACKEND_PATH names their folder");
  else
    findings.good("backends: " + join(there, ", "));
  // Those that one remedy brings stand together.
  std::vector<std::pair<std::string, std::vector<std::string>>> missing;
  for (const BackendInfo &backend : info.backends) {
    if (backend.available) continue;
    const std::string remedy = remedy_for(backend.name);
    auto known = std::find_if(missing.begin(), missing.end(), [&](const auto &m) { return m.first == remedy; });
    if (known == missing.end()) known = missing.insert(known, {remedy, {}});
    known->second.push_back(backend.name);
  }
  for (const auto &[remedy, names] : missing)
    findings.bad("not there: " + join(names, ", ") + " (info says why)", remedy);
  const bool gpu =
      std::any_of(info.devices.begin(), info.devices.end(), [](const DeviceInfo &d) { return d.name != "cpu"; });
  if (gpu)
    findings.good("a GPU answers");
  else
    findings.bad("no GPU answers", "nvidia-smi says whether the driver sees one");
}

void ask_ceilings(const Info &info, Findings &findings) {
  for (const DeviceInfo &device : info.devices) {
    const std::optional<Ceilings> ceilings = known_ceilings(device.name);
    const std::string hint = ceilings_hint(device.name, ceilings);
    if (hint.empty())
      findings.good("ceilings of " + device.name + " are known");
    else
      findings.bad(hint, "");
    if (const std::optional<double> spread = known_spread(device.model))
      findings.good(format("runs of the same code differ by less than %.1f%% on ", 100 * *spread) + device.model);
    else
      findings.bad("how much runs of the same code differ on " + device.model + " is not known",
                   "polyconv-bench compare --noise RUN1 RUN2");
  }
}

// Whether others use the processors, and whether their clock stands still.
void ask_processors(Findings &findings) {
  const unsigned processors = std::max(1U, std::thread::hardware_concurrency());
  const std::string load = first_line("/proc/loadavg");
  if (!load.empty()) {
    const double minute = std::strtod(load.c_str(), nullptr);
    if (minute > 0.5)
      findings.bad(format("%.1f programs ran in the last minute on %u processors", minute, processors),
                   "end them before measuring; ratios in turn bear it, times do not");
    else
      findings.good("the processors are idle");
  }
  const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  if (!governor.empty() && governor != "performance")
    findings.bad("the clock's governor is " + governor, "cpupower frequency-set -g performance");
  const std::string still = first_line("/sys/devices/system/cpu/intel_pstate/no_turbo"),
                    boost = first_line("/sys/devices/system/cpu/cpufreq/boost");
  if (still == "0" || boost == "1")
    findings.bad("turbo is on, so that the clock depends on heat and on the other cores",
                 still == "0" ? "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo"
                              : "echo 0 > /sys/devices/system/cpu/cpufreq/boost");
  else if (still.empty() && boost.empty())
    findings.bad("the system does not tell whether turbo is on", "virtual machines often hide it");
  else
    findings.good("turbo is off");
  const std::string quota = first_line("/sys/fs/cgroup/cpu.max");
  if (!quota.empty() && quota.rfind("max", 0) != 0)
    findings.bad("this container may use the processors for " + quota + " us of a period alone", "");
}

} // namespace

int doctor_command() {
  const Info info = collect_info();
  Findings findings;
  ask_backends(info, findings);
  ask_ceilings(info, findings);
  ask_processors(findings);
  std::cout << wrapped(findings.text(), stdout_columns()) << format("%d to look at\n", findings.count()) << std::flush;
  return kGood;
}

} // namespace polyconv::bench
