// device.cpp - finds devices by name and keeps their handles. A kind of device is looked up when somebody first asks
// for it, so that a CPU-only program never wakes a GPU's driver.
// SPDX-License-Identifier: Apache-2.0
#include "registry/device.hpp"

#include "base/status.hpp"
#include "registry/host.hpp"
#include "registry/registry.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

namespace polyconv {
namespace {

constexpr const char *kCpu = "cpu";

const polyconv_device &cpu() {
  static const polyconv_device &made = *new polyconv_device{kCpu, kCpu, 0, &cpu_device_table};
  return made;
}

// The devices of one kind, all served by one backend's table.
struct Kind {
  std::string name;
  polyconv_device_table table; // a copy in this version's size: what the backend's does not cover is NULL
  std::vector<std::unique_ptr<polyconv_device>> devices;
};

struct Devices {
  std::mutex mutex;
  std::vector<std::unique_ptr<Kind>> kinds; // only grows
};

Devices &all() {
  static Devices &made = *new Devices; // never destroyed, as the handles are valid for ever
  return made;
}

bool offers_devices(const Backend &backend) {
  return backend.available && backend.device_kind != kCpu && backend.table->device != nullptr;
}

// Asks the backend for its devices. Returns NULL with the reason where it has none.
std::unique_ptr<Kind> open_kind(const Backend &backend, std::string *reason) {
  const polyconv_device_table &offered = *backend.table->device;
  auto kind = std::make_unique<Kind>();
  kind->name = backend.device_kind;
  kind->table = {};
  std::memcpy(&kind->table, &offered, std::min(offered.struct_size, sizeof kind->table));
  const std::string who = "backend '" + backend.name + "'";
  if (kind->table.count == nullptr) {
    *reason = who + " has a device table without count";
    return nullptr;
  }
  const KeepLastError keep;
  set_last_error("");
  int32_t count = 0;
  const polyconv_status status = ask_backend(who.c_str(), "count", [&] {
    count = kind->table.count();
    return POLYCONV_SUCCESS;
  });
  constexpr int32_t kMostDevices = 1024; // more is a damaged answer, of which no list is made
  if (status == POLYCONV_SUCCESS && count > kMostDevices) {
    *reason = who + " counts " + std::to_string(count) + " devices of kind '" + kind->name + "', expected at most " +
              std::to_string(kMostDevices);
    return nullptr;
  }
  if (status != POLYCONV_SUCCESS || count < 1) {
    const std::string said = last_error();
    *reason = !said.empty() ? said : who + " finds no device of kind '" + kind->name + "'";
    return nullptr;
  }
  for (int32_t i = 0; i < count; ++i) {
    const std::string name = kind->name + ":" + std::to_string(i);
    kind->devices.push_back(std::make_unique<polyconv_device>(polyconv_device{name, kind->name, i, &kind->table}));
  }
  return kind;
}

// The opened kind, or NULL with the reason. The first available backend of the kind that has a table gives it; one that
// has been opened stays. The caller holds the mutex.
const Kind *find_kind(const std::string &name, const std::vector<const Backend *> &found, std::string *reason) {
  for (const auto &kind : all().kinds) {
    if (kind->name == name) return kind.get();
  }
  for (const Backend *backend : found) {
    if (!offers_devices(*backend) || backend->device_kind != name) continue;
    std::unique_ptr<Kind> kind = open_kind(*backend, reason);
    if (!kind) continue;
    all().kinds.push_back(std::move(kind));
    return all().kinds.back().get();
  }
  return nullptr;
}

// Why there is no device of a kind, when no backend could even be asked: what the backends of that kind said.
std::string reason_of_missing_kind(const std::string &kind, const std::vector<const Backend *> &found) {
  for (const Backend *backend : found) {
    const bool of_kind = backend->device_kind == kind ||
                         // One that did not load has told no kind: its name may ("cuda-direct").
                         (backend->device_kind.empty() && backend->name.compare(0, kind.size(), kind) == 0);
    if (of_kind && !backend->available) return "backend '" + backend->name + "' is not available: " + backend->reason;
    if (of_kind) return "backend '" + backend->name + "' brings no device of kind '" + kind + "'";
  }
  return "no backend for devices of kind '" + kind + "' was found";
}

struct Name {
  std::string kind;
  int32_t index;
};

Name parse(const std::string &text) {
  const size_t colon = text.find(':');
  const Name name{text.substr(0, colon), 0};
  const auto is_kind = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string digits = colon == std::string::npos ? "0" : text.substr(colon + 1);
  if (name.kind.empty() || !std::all_of(name.kind.begin(), name.kind.end(), is_kind) || digits.empty() ||
      digits.size() > 9 || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    throw failure(POLYCONV_INVALID_ARGUMENT,
                  "name is '%s', expected a kind of device, or a kind and a number: \"cpu\", \"cuda:1\"", text.c_str());
  }
  return {name.kind, static_cast<int32_t>(std::stol(digits))};
}

[[noreturn]] void missing(const std::string &name, const std::string &reason) {
  throw failure(POLYCONV_UNAVAILABLE, "device '%s' is not available: %s", name.c_str(), reason.c_str());
}

} // namespace

const polyconv_device &find_device(const char *name) {
  if (name == nullptr) return cpu();
  const Name wanted = parse(name);
  if (wanted.kind == kCpu) {
    if (wanted.index != 0) missing(name, "there is one of kind 'cpu'");
    return cpu();
  }
  const std::vector<const Backend *> found = backends();
  const std::lock_guard<std::mutex> lock(all().mutex);
  std::string reason;
  const Kind *kind = find_kind(wanted.kind, found, &reason);
  if (kind == nullptr) missing(name, !reason.empty() ? reason : reason_of_missing_kind(wanted.kind, found));
  if (static_cast<size_t>(wanted.index) >= kind->devices.size()) {
    missing(name, "there are " + std::to_string(kind->devices.size()) + " of kind '" + wanted.kind + "'");
  }
  return *kind->devices[static_cast<size_t>(wanted.index)];
}

const polyconv_device &device_or_cpu(const polyconv_device *device) {
  return device != nullptr ? *device : cpu();
}

std::vector<const polyconv_device *> devices() {
  const std::vector<const Backend *> found = backends();
  const std::lock_guard<std::mutex> lock(all().mutex);
  for (const Backend *backend : found) {
    std::string unused;
    if (offers_devices(*backend)) find_kind(backend->device_kind, found, &unused);
  }
  std::vector<const polyconv_device *> list{&cpu()};
  for (const auto &kind : all().kinds) {
    for (const auto &device : kind->devices) list.push_back(device.get());
  }
  return list;
}

} // namespace polyconv
