// info.cpp - what the library found on this machine, and what it did not.
// SPDX-License-Identifier: Apache-2.0
#include "result/info.hpp"

#include <polyconv/backend.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "api/handles.hpp"
#include "result/json.hpp"
#include "system/machine.hpp"
#include "system/terminal.hpp"
#include "text/grid.hpp"
#include "text/text.hpp"
#include "trial/load.hpp"

namespace polyconv::bench {

namespace {

// The backends that polyconv has, and what each needs where it is built.
struct Known {
  const char *name;
  const char *needs;
};
constexpr Known kKnown[] = {{"reference", "always built"},
                            {"threads", "always built"},
                            {"openmp", "built where the compiler has OpenMP"},
                            {"tbb", "built where oneTBB is installed"},
                            {"cuda-direct", "built with the CUDA Toolkit"},
                            {"cuda-shared", "built with the CUDA Toolkit"},
                            {"cuda-constant", "built with the CUDA Toolkit"},
                            {"cuda-shuffle", "built with the CUDA Toolkit"},
                            {"cuda-texture", "built with the CUDA Toolkit"},
                            {"cuda-gemm", "built with the CUDA Toolkit"},
                            {"cuda-tensor", "built with the CUDA Toolkit"},
                            {"cuda-chain", "built with the CUDA Toolkit"},
                            {"cudnn", "built with cuDNN 9"},
                            {"onednn", "built with oneDNN 3"},
                            {"opencv", "built with POLYCONV_OPENCV and OpenCV 4"}};

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

std::string not_found(const std::string &name) {
  std::string file = name;
  std::replace(file.begin(), file.end(), '-', '_');
#if defined(_WIN32)
  const char *suffix = ".dll";
#else
  const char *suffix = ".so";
#endif
  std::string sentence = "not found: no libpolyconv_" + file + suffix + " in the search folders";
  for (const Known &known : kKnown)
    if (name == known.name) sentence += " (" + std::string(known.needs) + ")";
  return sentence;
}

std::vector<BackendInfo> found_backends() {
  std::vector<BackendInfo> backends;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    auto found = sized<polyconv_backend_info>();
    if (polyconv_backend_get(i, &found) != POLYCONV_SUCCESS) continue;
    BackendInfo backend{found.name,   found.version,        found.path,      found.device_kind,
                        found.reason, found.available != 0, found.abi_minor, {}};
    const std::string fate = fate_of(backend.name);
    if (!fate.empty()) backend.reason = fate;
    for (int32_t k = 0; backend.available; ++k) {
      const char *kernel = polyconv_backend_kernel(i, k);
      if (!kernel) break;
      for (int32_t c = 0; const char *config = polyconv_backend_config(i, k, c); ++c)
        backend.kernels.push_back(std::string(kernel) + "@" + config);
    }
    backends.push_back(backend);
  }
  return backends;
}

// Each folder, and which of them the library does not search.
std::string path_text(const std::string &path) {
  std::vector<std::string> folders = split(path, ':');
  folders.erase(std::remove(folders.begin(), folders.end(), ""), folders.end());
  for (std::string &folder : folders) {
    std::error_code ignored;
    if (folder[0] != '/')
      folder += " is ignored: not absolute";
    else if (!std::filesystem::is_directory(folder, ignored))
      folder += " is no folder that can be read";
  }
  return folders.empty() ? "not set" : join(folders, ", ");
}

std::string devices_text(const Info &info) {
  std::string text = "Devices\n";
  for (const DeviceInfo &device : info.devices) {
    text += "  " + device.name + "  " + device.model + ", " + std::to_string(device.compute_units) +
            (device.name == "cpu" ? " processors" : " compute units");
    if (device.memory_bytes > 0) text += ", " + show_bytes(static_cast<double>(device.memory_bytes));
    if (device.clock_mhz > 0) text += format(", %.0f MHz", device.clock_mhz);
    if (!device.description.empty()) text += ", " + device.description;
    text += "\n";
  }
  return text;
}

std::string backends_text(const Info &info, size_t columns) {
  Grid grid({{"  name", false},
             {"state", false},
             {"version", false},
             {"ABI", false, Fit::kDrop, 1},
             {"device", false},
             {"note", false, Fit::kWrap},
             {"file", false, Fit::kDrop}});
  for (const BackendInfo &b : info.backends) {
    const std::string abi = b.version.empty() ? "" : format("1.%d", static_cast<int>(b.abi_minor));
    grid.add({"  " + b.name, b.available ? "available" : "missing", b.version, abi, b.device_kind, b.reason, b.path});
  }
  return "Backends\n" + grid.text(columns, nullptr);
}

// One line a kernel: its name and its configs.
std::string kernels_text(const Info &info, size_t columns) {
  Grid grid({{"  kernel", false}, {"configs", false, Fit::kWrap}});
  for (const BackendInfo &b : info.backends) {
    std::string kernel, configs;
    for (const std::string &name : b.kernels) {
      const size_t at = name.find('@');
      if (name.substr(0, at) != kernel && !kernel.empty()) grid.add({"  " + kernel, configs}), configs.clear();
      kernel = name.substr(0, at);
      configs += (configs.empty() ? "" : " ") + name.substr(at + 1);
    }
    if (!kernel.empty()) grid.add({"  " + kernel, configs});
  }
  return "Kernels\n" + grid.text(columns, nullptr);
}

std::string ceilings_text(const Info &info, size_t columns) {
  if (info.ceilings.empty()) return "Ceilings\n  not measured yet: polyconv-bench info --ceilings\n";
  Grid grid({{"  device", false, Fit::kWrap},
             {"rate", false},
             {"variant", false},
             {"units", true},
             {"at best", true},
             {"measured", false, Fit::kDrop, 2}});
  for (const Ceilings &ceilings : info.ceilings)
    for (const Rate &rate : ceilings.rates) {
      const bool copy = rate.kind == "copy";
      const std::string what = kind_name(rate.kind);
      grid.add({"  " + ceilings.processor, what, rate.variant, std::to_string(rate.threads),
                show_number(rate.per_second * 1e-9) + (copy ? " GB/s" : " GFLOP/s"), ceilings.date});
    }
  std::string doubts;
  for (const DeviceInfo &device : info.devices)
    for (const Ceilings &ceilings : info.ceilings)
      if (device.name == "cpu" && ceilings.processor == device.model && ceilings.processors == device.compute_units)
        if (const std::string hint = ceilings_hint(device.name, ceilings); !hint.empty())
          doubts += wrapped("  " + hint, columns) + "\n";
  return "Ceilings" + (info.ceilings_file.empty() ? "" : ", kept in " + info.ceilings_file) + "\n" +
         grid.text(columns, nullptr) + doubts;
}

} // namespace

std::optional<Ceilings> known_ceilings(const std::string &device) {
  const polyconv_device *handle = nullptr;
  auto properties = sized<polyconv_device_properties>();
  if (cache_folder().empty() || polyconv_device_find(device.c_str(), &handle) != POLYCONV_SUCCESS ||
      polyconv_device_get_properties(handle, &properties) != POLYCONV_SUCCESS)
    return std::nullopt;
  return load_ceilings(cache_folder() / "ceilings.json", properties.name, properties.compute_units);
}

std::string ceilings_hint(const std::string &device, const std::optional<Ceilings> &ceilings) {
  const std::string how = "measure them on an idle machine, in seconds: polyconv-bench info --ceilings";
  if (!ceilings) return "No ceilings of " + device + " are known, so there is no roof: " + how;
  if (device != "cpu") return "";
  const std::vector<std::string> doubts = doubts_about(*ceilings, kinds_of_cpu());
  return doubts.empty() ? "" : "The ceilings of " + device + " are doubtful (" + join(doubts, "; ") + "): " + how;
}

std::string why_missing(const std::string &name) {
  if (name.empty() || name.find_first_of("*?,") != std::string::npos) return "";
  for (const BackendInfo &backend : found_backends())
    if (backend.name == name)
      return backend.available ? "" : "the backend " + name + " is not available: " + backend.reason;
  const std::vector<std::string> known = backend_names();
  const bool unknown = std::find(known.begin(), known.end(), name) == known.end();
  return "the backend " + name + " is " + not_found(name) + (unknown ? did_you_mean(name, known) : "");
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const BackendInfo &backend : found_backends()) names.push_back(backend.name);
  for (const Known &known : kKnown)
    if (std::find(names.begin(), names.end(), known.name) == names.end()) names.emplace_back(known.name);
  return names;
}

std::string version_of(const std::string &name) {
  auto info = sized<polyconv_backend_info>();
  for (int32_t i = 0; polyconv_backend_get(i, &info) == POLYCONV_SUCCESS; ++i)
    if (name == info.name) return info.version;
  return "";
}

Info collect_info() {
  Info info;
  info.library_version = polyconv_version();
  info.bench_version = format("%d.%d.%d", POLYCONV_VERSION_MAJOR, POLYCONV_VERSION_MINOR, POLYCONV_VERSION_PATCH);
  info.abi_minor = POLYCONV_BACKEND_ABI_MINOR;
  info.search_path = environment("POLYCONV_BACKEND_PATH");
  for (int32_t i = 0; i < polyconv_device_count(); ++i) {
    const char *name = polyconv_device_name(i);
    const polyconv_device *device = nullptr;
    auto p = sized<polyconv_device_properties>();
    if (!name || polyconv_device_find(name, &device) != POLYCONV_SUCCESS ||
        polyconv_device_get_properties(device, &p) != POLYCONV_SUCCESS)
      continue;
    info.devices.push_back(
        {name, p.name, p.description, p.memory_bytes, p.compute_units, p.compute_capability, p.clock_mhz});
  }
  info.backends = found_backends();
  for (const Known &known : kKnown) {
    const bool found = std::any_of(info.backends.begin(), info.backends.end(),
                                   [&](const BackendInfo &backend) { return backend.name == known.name; });
    if (!found) info.backends.push_back({known.name, "", "", "", not_found(known.name), false, 0, {}});
  }
  if (!cache_folder().empty()) info.ceilings_file = (cache_folder() / "ceilings.json").string();
  std::set<std::pair<std::string, int64_t>> known; // devices that are alike share theirs
  for (const DeviceInfo &device : info.devices)
    if (known.insert({device.model, device.compute_units}).second)
      if (const auto ceilings = known_ceilings(device.name)) info.ceilings.push_back(*ceilings);
  return info;
}

std::string info_text(const Info &info, size_t columns) {
  std::string text = "polyconv " + info.library_version + ", plug-in ABI 1." + std::to_string(info.abi_minor);
  if (info.bench_version != info.library_version) text += " (this bench was built for " + info.bench_version + ")";
  text += "\nSearch folders: POLYCONV_BACKEND_PATH (" + path_text(info.search_path) +
          "), polyconv/ beside the library, the install folder\n\n";
  return wrapped(text + devices_text(info) + "\n", columns) + backends_text(info, columns) + "\n" +
         kernels_text(info, columns) + "\n" + ceilings_text(info, columns);
}

} // namespace polyconv::bench
