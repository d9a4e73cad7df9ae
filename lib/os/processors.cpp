// processors.cpp - CPU quotas and OMP_NUM_THREADS. On systems without cgroups the files are not there, and nothing
// limits.
// SPDX-License-Identifier: Apache-2.0
#include "os/processors.hpp"

#include "os/os.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

namespace polyconv {
namespace {

constexpr int32_t kMostThreads = 1024;

// Whether a list "cpu,cpuacct" has a word.
bool lists(const std::string &list, const std::string &word) {
  std::istringstream rest(list);
  for (std::string entry; std::getline(rest, entry, ',');)
    if (entry == word) return true;
  return false;
}

// A hierarchy of control groups in which this process has a group that may hold a quota of processor time.
struct Hierarchy {
  bool second_version = false;
  std::string group; // of this process, "/user.slice/x"
};

// From lines "4:cpu,cpuacct:/docker/1f" and "0::/user.slice".
std::vector<Hierarchy> hierarchies_in(const std::string &file) {
  std::vector<Hierarchy> result;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty() || lists(controllers, "cpu"))
      result.push_back({controllers.empty(), line.substr(second + 1)});
  }
  return result;
}

// "\040" and the like in a line of mountinfo.
std::string unescaped(const std::string &text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool octal = text[i] == '\\' && i + 3 < text.size();
    result += octal ? static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8)) : text[i];
    if (octal) i += 3;
  }
  return result;
}

// Where a hierarchy is mounted, and which of its groups is seen there.
struct Mount {
  std::string group, folder; // folder "" where it is not mounted
};

// From lines "30 23 0:26 /group /folder rw shared:9 - cgroup2 name options".
Mount mount_of(const Hierarchy &hierarchy, const std::string &file) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream front(line.substr(0, dash)), back(line.substr(dash + 3));
    std::string number, parent, device, type, name, options;
    Mount mount;
    front >> number >> parent >> device >> mount.group >> mount.folder;
    back >> type >> name >> options;
    if (hierarchy.second_version ? type == "cgroup2" : type == "cgroup" && lists(options, "cpu"))
      return {unescaped(mount.group), unescaped(mount.folder)};
  }
  return {};
}

// The group's folder below the mount's, "" where the mount's own is the group's, or does not show it: inside
// containers.
std::string below(const Mount &mount, const std::string &group) {
  const std::string root = mount.group == "/" ? "" : mount.group;
  const bool inside =
      group.compare(0, root.size(), root) == 0 && (group.size() == root.size() || group[root.size()] == '/');
  const std::string rest = inside ? group.substr(root.size()) : "";
  return rest == "/" || rest.find("/..") != std::string::npos ? "" : rest;
}

std::string first_line(const std::string &file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line;
}

// Processors of one group, infinitely many where its quota is "max" or -1.
double quota_in(const std::string &folder, bool second_version) {
  std::istringstream text(second_version ? first_line(folder + "/cpu.max")
                                         : first_line(folder + "/cpu.cfs_quota_us") + " " +
                                               first_line(folder + "/cpu.cfs_period_us"));
  double quota = 0, period = 0;
  const bool limited = text >> quota >> period && quota > 0 && period > 0;
  return limited ? quota / period : std::numeric_limits<double>::infinity();
}

} // namespace

int32_t first_of_list(const std::string &list) {
  char *end = nullptr;
  const long number = std::strtol(list.c_str(), &end, 10);
  const bool alone = end != list.c_str() && (*end == '\0' || *end == ',' || *end == ' ');
  return alone && number > 0 ? static_cast<int32_t>(std::min<long>(number, kMostThreads)) : 0;
}

int32_t processors_of_quota(const std::string &root) {
  double least = std::numeric_limits<double>::infinity();
  for (const Hierarchy &hierarchy : hierarchies_in(root + "/proc/self/cgroup")) {
    const Mount mount = mount_of(hierarchy, root + "/proc/self/mountinfo");
    if (mount.folder.empty()) continue;
    std::string group = below(mount, hierarchy.group);
    for (;;) {
      std::string folder = root;
      folder.append(mount.folder).append(group);
      least = std::min(least, quota_in(folder, hierarchy.second_version));
      if (group.empty()) break;
      group.resize(group.rfind('/'));
    }
  }
  if (!(least < kMostThreads)) return 0;
  const auto whole = static_cast<int32_t>(least);
  return std::max(whole + (least > whole), 1);
}

int32_t default_threads() {
  static const int32_t limit = [] {
    const int32_t quota = processors_of_quota(""), asked = first_of_list(os::environment("OMP_NUM_THREADS"));
    return std::min(quota > 0 ? quota : kMostThreads, asked > 0 ? asked : kMostThreads);
  }();
  return std::clamp(static_cast<int32_t>(os::processors()), 1, limit);
}

} // namespace polyconv
