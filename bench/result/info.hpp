// info.hpp - what `polyconv-bench info` tells.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ceilings/ceilings.hpp"

namespace polyconv::bench {

struct DeviceInfo {
  std::string name, model, description;
  int64_t memory_bytes;
  int64_t compute_units, compute_capability;
  double clock_mhz;
};

struct BackendInfo {
  std::string name, version, path, device_kind;
  std::string reason; // why not available, or a note
  bool available;
  int64_t abi_minor;
  std::vector<std::string> kernels;
};

struct Info {
  std::string library_version, bench_version;
  int64_t abi_minor; // that this bench was built with
  std::string search_path;
  std::vector<DeviceInfo> devices;
  std::vector<BackendInfo> backends; // found ones, then the known ones that were not found
  std::string ceilings_file;
  std::vector<Ceilings> ceilings; // of the devices for which they are known
};

// Asks the library; backends that polyconv has but that were not found are listed with the reason.
Info collect_info();

// In lines of up to so many columns, 0 for any number.
std::string info_text(const Info &info, size_t columns = 0);

// The ceilings of a device as they were measured before, if they were.
std::optional<Ceilings> known_ceilings(const std::string &device);

// What is to be said of a device's ceilings: that there are none, and how they are measured, or what is doubtful about
// them; "" where they are as they should be.
std::string ceilings_hint(const std::string &device, const std::optional<Ceilings> &ceilings);

// The backends that were found, and those that polyconv has.
std::vector<std::string> backend_names();

// Why a backend called `name` cannot be used; "" where it can.
std::string why_missing(const std::string &name);

// The version that the backend called `name` states; "" where there is none.
std::string version_of(const std::string &name);

} // namespace polyconv::bench
