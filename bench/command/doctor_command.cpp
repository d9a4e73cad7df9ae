// doctor_command.cpp - `polyconv-bench doctor`: what is missing, or in the way of figures that can be trusted, each
// with what mends it.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <sstream>
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

// What a program writes to stdout; "" where it is not there. The shell finds it.
std::string said_by(const std::string &command) {
#if defined(_WIN32)
  std::FILE *pipe = _popen((command + " 2>NUL").c_str(), "r");
  const auto close = _pclose;
#else
  std::FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r");
  const auto close = pclose;
#endif
  if (pipe == nullptr) return "";
  std::string text;
  char buffer[4096];
  for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, size);
  close(pipe);
  return text;
}

// What holds a GPU's clock down, by the bits of NVML (nvmlClocksEventReasons of nvml.h), and what mends it.
struct Brake {
  unsigned long long bits;
  const char *words, *remedy;
};
constexpr Brake kBrakes[] = {
    {0x2 | 0x100, "somebody has set its clock", "nvidia-smi --reset-gpu-clocks, as root"},
    {0x4, "its clock is held down by the limit of power", "nvidia-smi -q -d POWER tells the limit"},
    {0x8 | 0x20 | 0x40, "its clock is held down by heat or by the hardware",
     "let it cool; nvidia-smi -q -d PERFORMANCE"},
    {0x80, "its clock is held down by the power supply", "nvidia-smi -q -d PERFORMANCE"}};

// Whether each GPU runs as fast as it can, and for nobody else.
void ask_gpus(Findings &findings) {
  const std::string said = said_by(
      "nvidia-smi --query-gpu=index,clocks_throttle_reasons.active,utilization.gpu --format=csv,noheader,nounits");
  for (const std::string &line : split_lines(said)) {
    const std::vector<std::string> fields = split(line, ',');
    if (fields.size() != 3) continue;
    const std::string gpu = "GPU " + fields[0];
    const int before = findings.count();
    const unsigned long long reasons = std::strtoull(fields[1].c_str(), nullptr, 16);
    for (const Brake &brake : kBrakes)
      if ((reasons & brake.bits) != 0) findings.bad(gpu + ": " + brake.words, brake.remedy);
    const double busy = std::strtod(fields[2].c_str(), nullptr);
    if (busy > 5) findings.bad(gpu + format(" is busy %.0f %% of the time", busy), "nvidia-smi tells by whom");
    if (findings.count() == before) findings.good(gpu + " is idle and nothing holds its clock down");
  }
}

// The share of the processors' time that the host of a virtual machine gave to others meanwhile; nothing where the
// system does not tell.
std::optional<double> stolen_share() {
  constexpr size_t kSteal = 8; // of "cpu user nice system idle iowait irq softirq steal …"
  const auto now = [] {
    std::istringstream line(first_line("/proc/stat"));
    std::vector<double> ticks;
    std::string word;
    while (line >> word) ticks.push_back(std::strtod(word.c_str(), nullptr));
    return ticks;
  };
  const std::vector<double> before = now();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const std::vector<double> after = now();
  if (before.size() <= kSteal || after.size() != before.size()) return std::nullopt;
  double all = 0;
  for (size_t i = 1; i <= kSteal; ++i) all += after[i] - before[i];
  return all > 0 ? std::optional<double>((after[kSteal] - before[kSteal]) / all) : std::nullopt;
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
  if (const std::optional<double> stolen = stolen_share(); stolen && *stolen > 0.01)
    findings.bad(format("the host gives %.0f %% of the processors' time to other machines", 100 * *stolen),
                 "ratios in turn bear it, times do not");
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
  ask_gpus(findings);
  ask_ceilings(info, findings);
  ask_processors(findings);
  std::cout << wrapped(findings.text(), stdout_columns()) << format("%d to look at\n", findings.count()) << std::flush;
  return kGood;
}

} // namespace polyconv::bench
