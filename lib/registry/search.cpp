// search.cpp - where backends are looked for. An environment variable may add folders, but only absolute ones and not
// in privileged programs; the current folder is never searched.
// SPDX-License-Identifier: Apache-2.0
#include "os/log.hpp"
#include "os/os.hpp"
#include "registry/loader.hpp"

#include <algorithm>
#include <set>

namespace polyconv {
namespace {

std::vector<std::string> folders_of_environment() {
  std::vector<std::string> folders;
  const std::string list = os::environment("POLYCONV_BACKEND_PATH");
  for (size_t begin = 0; begin < list.size();) { // not by a stream, which would lose folders where memory runs out
    const size_t end = std::min(list.find(os::path_list_separator, begin), list.size());
    const std::string folder = list.substr(begin, end - begin);
    begin = end + 1;
    if (folder.empty()) continue;
    if (os::is_absolute(folder)) {
      folders.push_back(folder);
    } else {
      log(POLYCONV_LOG_WARNING, "POLYCONV_BACKEND_PATH has '%s', expected absolute folders: ignored", folder.c_str());
    }
  }
  return folders;
}

std::vector<std::string> folders() {
  std::vector<std::string> all = folders_of_environment();
  const std::string own = os::own_folder(), beside = own.empty() ? "" : os::join(own, "polyconv");
  if (!beside.empty()) all.push_back(beside);
  if (!os::same_file(beside, POLYCONV_INSTALL_BACKENDS)) all.emplace_back(POLYCONV_INSTALL_BACKENDS);
  return all;
}

bool is_name(const std::string &name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

} // namespace

std::string backend_name_of_file(const std::string &path) {
  const std::string prefix = os::backend_prefix, suffix = os::backend_suffix;
  const std::string file = path.substr(path.find_last_of("/\\") + 1); // npos + 1 is 0
  if (file.size() < prefix.size() + suffix.size() || file.compare(0, prefix.size(), prefix) != 0 ||
      file.compare(file.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return "";
  }
  std::string name = file.substr(prefix.size(), file.size() - prefix.size() - suffix.size());
  if (!is_name(name)) return "";
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::vector<std::string> find_backend_files() {
  std::vector<std::string> files, names;
  std::set<std::string> taken;
  for (const std::string &folder : folders()) {
    const bool readable = os::list_folder(folder, &names);
    log(POLYCONV_LOG_DEBUG, "backends are searched in '%s'%s", folder.c_str(), readable ? "" : ": cannot be read");
    for (const std::string &file : names) {
      const std::string name = backend_name_of_file(file);
      if (name.empty()) continue;
      if (taken.insert(name).second) {
        files.push_back(os::join(folder, file));
      } else {
        log(POLYCONV_LOG_DEBUG, "backend '%s' in '%s' is passed over: found before", name.c_str(), folder.c_str());
      }
    }
  }
  return files;
}

} // namespace polyconv
