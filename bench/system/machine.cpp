// machine.cpp - what the bench asks about the machine that the library does not tell.
// SPDX-License-Identifier: Apache-2.0
#include "system/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "text/text.hpp"

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#endif

namespace polyconv::bench {

namespace fs = std::filesystem;

namespace {

std::string program;

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

fs::path executable() {
  std::error_code ignored;
#if defined(_WIN32)
  wchar_t path[32768]; // the longest there is
  const DWORD length = GetModuleFileNameW(nullptr, path, 32768);
  if (length > 0 && length < 32768) return std::wstring(path, length);
#endif
  const fs::path self = fs::read_symlink("/proc/self/exe", ignored);
  return self.empty() ? fs::weakly_canonical(program, ignored) : self;
}

} // namespace

void set_program(const char *argv0) {
  program = argv0 ? argv0 : "";
}

fs::path data_folder(const std::string &kind) {
  return executable().parent_path().parent_path() / "share" / "polyconv" / kind;
}

std::vector<std::string> file_names(const fs::path &folder, const std::string &ending) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder, ignored))
    if (entry.path().extension() == ending) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

fs::path cache_folder() {
#if defined(_WIN32)
  if (const std::string local = environment("LOCALAPPDATA"); !local.empty()) return fs::path(local) / "polyconv";
#endif
  const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (!cache.empty()) return fs::path(cache) / "polyconv";
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "polyconv";
}

int64_t last_level_cache() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::string size;
    if (file >> size) largest = std::max(largest, parse_bytes(size, "cache size"));
  }
  return largest > 0 ? largest : int64_t{32} << 20;
}

void set_environment(const char *name, const std::string &value) {
#if defined(_WIN32)
  _putenv_s(name, value.c_str());
#else
  setenv(name, value.c_str(), 1);
#endif
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  char text[32] = "";
  if (const std::tm *utc = std::gmtime(&now)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", utc);
  return text;
}

} // namespace polyconv::bench
