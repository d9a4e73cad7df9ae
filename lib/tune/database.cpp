// database.cpp - the database in memory, its files, and the choice among what it knows.
// SPDX-License-Identifier: Apache-2.0
#include "tune/database.hpp"

#include "base/status.hpp"
#include "os/log.hpp"
#include "os/os.hpp"
#include "registry/device.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>

namespace polyconv {
namespace {

enum class Mode { On, Freeze, Off };

Mode mode() {
  static const Mode read = [] {
    const std::string wanted = os::environment("POLYCONV_TUNING");
    if (wanted == "off") return Mode::Off;
    if (wanted == "freeze") return Mode::Freeze;
    if (!wanted.empty() && wanted != "on")
      log(POLYCONV_LOG_WARNING, "POLYCONV_TUNING is '%s', expected on, freeze or off: taken as on", wanted.c_str());
    return Mode::On;
  }();
  return read;
}

// The files that are read, in order; the last one is written. None where nothing says where the user's may lie.
std::vector<std::string> read_paths() {
  std::string list = os::environment("POLYCONV_TUNING_DB");
  const std::string cache = list.empty() ? os::cache_folder() : "";
  if (!cache.empty()) return {os::join(os::join(cache, "polyconv"), "tuning.txt")};
  std::vector<std::string> paths;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(os::path_list_separator, begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    if (os::is_absolute(path)) {
      paths.push_back(path);
    } else if (!path.empty()) {
      log(POLYCONV_LOG_WARNING, "POLYCONV_TUNING_DB has '%s', expected absolute paths: left out", path.c_str());
    }
    begin = end + 1;
  }
  return paths;
}

// Adds a file to a table; whether it may be written over. A missing one is empty.
bool read_tuning_file(const std::string &path, TuningTable *table) {
  if (!os::exists(path)) return true;
  std::string text, reason;
  int64_t skipped = 0;
  if (!os::read_file(path, &text, &reason)) {
    log(POLYCONV_LOG_WARNING, "tuning file '%s' could not be read: %s", path.c_str(), reason.c_str());
    return false;
  }
  const TuningText kind = read_tuning_text(text, table, &skipped);
  if (kind == TuningText::Newer)
    log(POLYCONV_LOG_WARNING, "tuning file '%s' is of a newer version of polyconv: left alone", path.c_str());
  if (kind == TuningText::Foreign)
    log(POLYCONV_LOG_WARNING, "'%s' is no tuning file of polyconv: left alone", path.c_str());
  if (skipped > 0)
    log(POLYCONV_LOG_WARNING, "tuning file '%s': %lld lines are torn or foreign and were skipped", path.c_str(),
        static_cast<long long>(skipped));
  return kind == TuningText::Read;
}

class Database {
 public:
  Measurements known(const std::string &key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    const auto found = table_.find(key);
    return found != table_.end() ? found->second : Measurements();
  }

  bool empty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    return table_.empty();
  }

  void add(const std::string &key, const Measurements &measured) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    for (const auto &[kernels, measurement] : measured) {
      table_[key][kernels] = measurement;
      own_[key][kernels] = measurement;
    }
    if (!paths_.empty() && !written_in_vain_) write(paths_.back());
  }

 private:
  void read() {
    if (read_) return;
    paths_ = read_paths();
    for (const std::string &path : paths_) read_tuning_file(path, &table_);
    read_ = true; // not where memory ran out on the way: the next plan tries again
  }

  // The user's file of this moment and what this process has measured, whose lines win.
  void write(const std::string &path) {
    try {
      const os::FileLock only_writer(path + ".lock");
      os::remove_left_over(path);
      TuningTable merged;
      if (!read_tuning_file(path, &merged)) {
        written_in_vain_ = true; // it has been told why
        return;
      }
      for (const auto &[key, measured] : own_)
        for (const auto &[kernels, measurement] : measured) merged[key][kernels] = measurement;
      const std::string text = tuning_text(merged);
      os::write_file_atomically(path, {{text.data(), text.size()}});
    } catch (const Failure &failure) {
      written_in_vain_ = true;
      log(POLYCONV_LOG_WARNING, "what is tuned will be forgotten when the process ends: %s", failure.what());
    }
  }

  std::mutex mutex_;
  bool read_ = false, written_in_vain_ = false;
  std::vector<std::string> paths_;
  TuningTable table_, own_; // all layers; what this process has measured
};

Database &database() {
  static Database &made = *new Database; // never destroyed: plans may be made while the process ends
  return made;
}

// The build id of the file that a kernel's code lies in, or the backend's own version where the platform has none.
std::string version_of(const KernelEntry &entry) {
  static std::mutex mutex;
  static auto &known = *new std::map<const Backend *, std::string>; // backends stay, and so does this
  const std::lock_guard<std::mutex> lock(mutex);
  std::string &version = known[entry.backend];
  if (version.empty()) {
    const std::string id = os::build_id(reinterpret_cast<const void *>(entry.kernel->supports));
    version = tuning_field(id.empty() ? entry.backend->version : id.substr(0, 12));
  }
  return version;
}

// Of every plug-in that takes part, the convolving kernel's first.
std::string version_of(const Candidate &candidate) {
  std::vector<const KernelEntry *> entries = {candidate.entry};
  const auto add = [&entries](const Helper &helper) {
    const auto same = [&](const KernelEntry *entry) { return entry->backend == helper.entry->backend; };
    if (helper.entry != nullptr && std::none_of(entries.begin(), entries.end(), same)) entries.push_back(helper.entry);
  };
  add(candidate.gradient);
  add(candidate.pool);
  for (const Helper &helper : candidate.moves) add(helper);
  std::string text;
  for (const KernelEntry *entry : entries) text += (text.empty() ? "" : "+") + version_of(*entry);
  return text;
}

// Asked once a device: a system or driver takes longer to answer than a plan to be made.
std::string device_words(const polyconv_device &device) {
  static std::mutex mutex;
  static auto &known = *new std::map<const polyconv_device *, std::string>; // handles are valid for ever
  const std::lock_guard<std::mutex> lock(mutex);
  std::string &words = known[&device];
  if (!words.empty()) return words;
  polyconv_device_properties properties = {};
  properties.struct_size = sizeof properties;
  if (polyconv_device_get_properties(&device, &properties) != POLYCONV_SUCCESS) return device.kind;
  return words = tuning_field(std::string(properties.name) + "; " + properties.description);
}

// Microseconds without the digits that no clock tells.
double to_nanoseconds(double us) {
  return std::round(us * 1e3) / 1e3;
}

bool cannot_be_told_apart(const Candidate &a, const Candidate &b) {
  return std::abs(a.estimate_us - b.estimate_us) <= std::max(a.spread_us, b.spread_us);
}

// Whether `names` are those of a candidate with this kernel and config, and perhaps steps beside it.
bool begins_with_kernel(const std::string &names, const std::string &kernel) {
  return names.compare(0, kernel.size(), kernel) == 0 &&
         (names.size() == kernel.size() || names.compare(kernel.size(), 3, " + ") == 0);
}

// Whether options.kernel leaves a kernel with this config.
bool admits(const Question &question, const KernelEntry &entry, int32_t config) {
  if (entry.backend->on_request && !question.filter.names(entry.backend->name)) return false;
  const std::vector<int32_t> configs = question.filter.configs(entry);
  return std::any_of(configs.begin(), configs.end(), [&](int32_t one) { return one < 0 || one == config; });
}

// Whether the estimates' favourite is among what was timed, with any config.
bool has_timed(const Measurements &known, const Candidate &favourite) {
  if (known.empty()) return false;
  const std::string kernel = favourite.entry->full_name + "@", version = version_of(*favourite.entry);
  return std::any_of(known.begin(), known.end(), [&](const auto &entry) {
    return entry.first.compare(0, kernel.size(), kernel) == 0 &&
           entry.second.version.compare(0, version.size(), version) == 0;
  });
}

// The kernel and config that an entry begins with, asked again under the question; not accepted where it is not here,
// or would run otherwise than when it was timed.
Candidate ask_known(const Question &question, const Group &group, const std::string &names,
                    const Measurement &measured) {
  const size_t at = names.find('@');
  for (const KernelEntry &entry : *question.kernels) {
    if (names.compare(0, at, entry.full_name) != 0) continue;
    for (int32_t config = 0; config < entry.kernel->config_count; ++config) {
      if (!begins_with_kernel(names, kernel_name(entry, config)) || !admits(question, entry, config)) continue;
      Candidate candidate = ask_kernel(question, group, entry, config);
      if (!candidate.accepted() || names_of(candidate) != names || !is_about(measured, candidate)) return {};
      take_measurement(measured, &candidate);
      return candidate;
    }
  }
  return {};
}

} // namespace

std::string tuning_key(const Question &question, const std::string &token, size_t layers) {
  const polyconv_policy &policy = question.options.policy;
  if (mode() == Mode::Off || layers != 1 || policy.parallel_for != nullptr ||
      policy.determinism == POLYCONV_DETERMINISM_INVARIANT)
    return "";
  if (question.tuning_ns == 0 && database().empty()) return ""; // as on most machines, and then planning stays quick
  const polyconv_options &options = question.options.values;
  std::string conditions = std::string("math=") + math_name(policy.math) +
                           " determinism=" + std::to_string(policy.determinism) +
                           " threads=" + std::to_string(policy.threads);
  if (options.save != POLYCONV_SAVE_NONE) conditions += " save=" + std::to_string(options.save);
  if (options.dynamic_weights != 0) conditions += " dynamic_weights";
  return tuning_field(token) + "\t" + conditions + "\t" + device_words(*question.device);
}

std::string today() {
  return date_text(os::wall_clock_s());
}

bool tuning_allowed() {
  return mode() != Mode::Freeze;
}

Measurements known_measurements(const std::string &key) {
  return key.empty() ? Measurements() : database().known(key);
}

bool is_about(const Measurement &measured, const Candidate &candidate) {
  return measured.workspace_bytes == candidate.workspace_bytes && measured.version == version_of(candidate);
}

void take_measurement(const Measurement &measured, Candidate *candidate) {
  candidate->measured = true;
  candidate->estimate_us = measured.us;
  candidate->spread_us = measured.spread_us;
  candidate->measured_on = measured.date;
}

void remember(const std::string &key, const std::vector<Candidate> &measured) {
  if (key.empty() || measured.empty()) return;
  Measurements entries;
  for (const Candidate &candidate : measured)
    entries[names_of(candidate)] = {version_of(candidate), std::max(to_nanoseconds(candidate.estimate_us), 1e-3),
                                    to_nanoseconds(candidate.spread_us), candidate.workspace_bytes,
                                    candidate.measured_on};
  database().add(key, entries);
}

void settle_noise(std::vector<Candidate> *measured) {
  if (measured->empty()) return;
  const Candidate &first = measured->front();
  const auto end = std::find_if(measured->begin(), measured->end(), [&first](const Candidate &candidate) {
    return candidate.fallback_rank() != first.fallback_rank() || !cannot_be_told_apart(first, candidate);
  });
  const auto taken = std::min_element(measured->begin(), end, [](const Candidate &a, const Candidate &b) {
    if (a.workspace_bytes != b.workspace_bytes) return a.workspace_bytes < b.workspace_bytes;
    if (a.entry != b.entry) return std::less<>()(a.entry, b.entry); // both are in one list
    return a.offer.config < b.offer.config;
  });
  std::rotate(measured->begin(), taken, taken + 1);
}

void put_known_first(const Question &question, const Group &group, std::vector<Candidate> *candidates) {
  const Measurements known = known_measurements(question.tuning_key);
  if (!has_timed(known, candidates->front())) return;
  std::vector<const Measurements::value_type *> fastest;
  for (const auto &entry : known) fastest.push_back(&entry);
  std::stable_sort(fastest.begin(), fastest.end(), [](auto *a, auto *b) { return a->second.us < b->second.us; });
  std::vector<Candidate> measured; // as many as matter: up to the first that is no fallback and clearly slower
  for (const auto *entry : fastest) {
    Candidate candidate = ask_known(question, group, entry->first, entry->second);
    if (!candidate.accepted()) continue;
    const bool settled = std::any_of(measured.begin(), measured.end(), [&](const Candidate &faster) {
      return faster.fallback_rank() == 0 && !cannot_be_told_apart(faster, candidate);
    });
    if (settled) break;
    measured.push_back(std::move(candidate));
  }
  std::stable_sort(measured.begin(), measured.end(), goes_before);
  settle_noise(&measured);
  if (measured.empty() || measured.front().fallback_rank() > candidates->front().fallback_rank()) return;
  candidates->insert(candidates->begin(), std::make_move_iterator(measured.begin()),
                     std::make_move_iterator(measured.end()));
}

void mark_known(const Question &question, std::vector<Candidate> *candidates) {
  const Measurements known = known_measurements(question.tuning_key);
  if (known.empty()) return;
  for (Candidate &candidate : *candidates) {
    if (!candidate.accepted() || candidate.measured) continue;
    const auto found = known.find(names_of(candidate));
    if (found != known.end() && is_about(found->second, candidate)) take_measurement(found->second, &candidate);
  }
  std::stable_sort(candidates->begin(), candidates->end(), [](const Candidate &a, const Candidate &b) {
    return a.accepted() != b.accepted() ? a.accepted() : a.accepted() && goes_before(a, b);
  });
}

} // namespace polyconv
