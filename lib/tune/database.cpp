// database.cpp - the database in memory, and its files.
// SPDX-License-Identifier: Apache-2.0
#include "tune/database.hpp"

#include "base/status.hpp"
#include "os/log.hpp"
#include "os/os.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

namespace polyconv {
namespace {

struct Files {
  std::vector<std::string> read; // in order, each only where it is there
  std::string written;           // the user's, the last of those; "" where nothing says where it may lie
};

// What ships beside the plug-ins, what the site says, and the user's. POLYCONV_TUNING_DB names others for the last two.
Files find_files() {
  Files files;
  const auto add = [&files](const std::string &folder) {
    files.read.push_back(os::join(os::join(folder, "polyconv"), "tuning.txt"));
    return files.read.back();
  };
  const std::string own = os::own_folder(), list = os::environment("POLYCONV_TUNING_DB");
  if (!own.empty()) add(own);
  if (list.empty()) {
    const std::string site = os::site_folder(), cache = os::cache_folder();
    if (!site.empty()) add(site);
    if (!cache.empty()) files.written = add(cache);
  }
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(os::path_list_separator, begin), list.size());
    const std::string path = list.substr(begin, end - begin);
    if (os::is_absolute(path)) {
      files.read.push_back(files.written = path);
    } else if (!path.empty()) {
      log(POLYCONV_LOG_WARNING, "POLYCONV_TUNING_DB has '%s', expected absolute paths: left out", path.c_str());
    }
    begin = end + 1;
  }
  return files;
}

// Reads a file by `read`, which is given its text and counts lines that it skips; whether it may be written over. A
// missing one is empty.
template <class Read>
bool read_tuning_file(const std::string &path, const Read &read) {
  if (!os::exists(path)) return true;
  std::string text, reason;
  int64_t skipped = 0;
  if (!os::read_file(path, &text, &reason)) {
    log(POLYCONV_LOG_WARNING, "tuning file '%s' could not be read: %s", path.c_str(), reason.c_str());
    return false;
  }
  const TuningText kind = read(std::move(text), &skipped);
  if (kind == TuningText::Newer)
    log(POLYCONV_LOG_WARNING, "tuning file '%s' is of a newer version of polyconv: left alone", path.c_str());
  if (kind == TuningText::Foreign)
    log(POLYCONV_LOG_WARNING, "'%s' is no tuning file of polyconv: left alone", path.c_str());
  if (skipped > 0)
    log(POLYCONV_LOG_WARNING, "tuning file '%s': %lld lines are torn or foreign and were skipped", path.c_str(),
        static_cast<long long>(skipped));
  return kind == TuningText::Read;
}

bool read_tuning_file(const std::string &path, TuningTable *table) {
  return read_tuning_file(
      path, [table](const std::string &text, int64_t *skipped) { return read_tuning_text(text, table, skipped); });
}

// Adds measurements to those of a key, the later of two about the same kernels replacing the earlier.
void add_to(TuningTable *table, const std::string &key, const Measurements &measured) {
  Measurements &known = (*table)[key];
  for (const auto &[kernels, measurement] : measured) known[kernels] = measurement;
}

// The device in a key, which comes last there.
std::string_view device_of(std::string_view key) {
  return key.substr(key.rfind('\t') + 1);
}

// "name; rest" as the words for all devices of that name, and for all with that rest.
std::array<std::string, 2> kinds_of(std::string_view device) {
  constexpr std::string_view kBetween = "; ";
  const size_t at = device.rfind(kBetween);
  if (at == std::string_view::npos) return {};
  return {std::string(device.substr(0, at + kBetween.size())) + "*", "*" + std::string(device.substr(at))};
}

class Database {
 public:
  Known known(const std::string &key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    Known known = {at(key), nullptr};
    if (!knows_kinds_) return known;
    const std::string_view device = device_of(key);
    for (const std::string &kind : kinds_of(device))
      if (known.elsewhere == nullptr) known.elsewhere = at(key.substr(0, key.size() - device.size()) + kind);
    return known;
  }

  bool knows_nothing_of(const std::string &device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    if (devices_.empty()) return true;
    const std::array<std::string, 2> kinds = kinds_of(device);
    return devices_.count(device) + devices_.count(kinds[0]) + devices_.count(kinds[1]) == 0;
  }

  std::string add(const std::string &key, const Measurements &measured) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    know(key, measured);
    add_to(&own_, key, measured);
    if (!in_vain_.empty()) return in_vain_;
    try {
      write();
    } catch (const Failure &failure) {
      in_vain_ = failure.what();
      log(POLYCONV_LOG_WARNING, "what is tuned will be forgotten when the process ends: %s", failure.what());
    }
    return in_vain_;
  }

  int64_t merge(const TuningTable &others) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    require_file();
    TuningTable newer;
    const os::FileLock only_writer(files_.written + ".lock");
    TuningTable present = read_written();
    int64_t taken = 0;
    for (const auto &[key, measured] : others)
      for (const auto &[kernels, measurement] : measured) {
        Measurement &kept = present[key][kernels];
        if (!kept.date.empty() && kept.date >= measurement.date) continue;
        kept = measurement;
        newer[key][kernels] = measurement;
        ++taken;
      }
    if (taken > 0) write_text(present);
    for (const auto &[key, measured] : newer) know(key, measured);
    return taken;
  }

 private:
  // What is known of the very words of a key: of the files' lines those that nobody has asked for are read now.
  std::shared_ptr<const Measurements> at(const std::string &key) {
    const auto found = table_.find(key);
    if (found != table_.end()) return found->second;
    const auto lines = lines_.find(key);
    if (lines == lines_.end()) return nullptr;
    int64_t skipped = 0;
    const auto measured = std::make_shared<Measurements>();
    read_tuning_lines(lines->second, measured.get(), &skipped);
    if (skipped > 0)
      log(POLYCONV_LOG_WARNING, "tuning: %lld lines about %s have numbers that mean nothing and were skipped",
          static_cast<long long>(skipped), key.substr(0, key.find('\t')).c_str());
    return table_[key] = measured;
  }

  void require_file() const {
    if (files_.written.empty())
      throw Failure(POLYCONV_IO_ERROR,
                    "no file of the tuning database may be written: POLYCONV_TUNING_DB names no "
                    "absolute path, or the process has no cache folder or more rights than its user");
  }

  void read() {
    if (read_) return;
    files_ = find_files();
    lines_.clear();
    texts_.clear();
    for (const std::string &path : files_.read)
      read_tuning_file(path, [this, &path](std::string text, int64_t *skipped) {
        texts_.push_back(std::make_unique<const std::string>(std::move(text)));
        TuningLines lines;
        const TuningText kind = find_tuning_lines(*texts_.back(), &lines, skipped);
        if (kind != TuningText::Read) return kind;
        for (const auto &[key, blocks] : lines) {
          know_device(device_of(key));
          std::vector<std::string_view> &all = lines_[key];
          all.insert(all.end(), blocks.begin(), blocks.end());
        }
        if (!lines.empty())
          log(POLYCONV_LOG_INFO, "tuning file '%s' knows %zu problems under their conditions", path.c_str(),
              lines.size());
        return kind;
      });
    read_ = true; // not where memory ran out on the way: the next plan tries again
  }

  void know_device(std::string_view device) {
    if (devices_.find(device) != devices_.end()) return;
    devices_.emplace(device);
    const std::array<std::string, 2> kinds = kinds_of(device);
    knows_kinds_ = knows_kinds_ || device == kinds[0] || device == kinds[1];
  }

  // Plans may be reading what was known: it stays as it is, and another takes its place.
  void know(const std::string &key, const Measurements &measured) {
    know_device(device_of(key));
    const std::shared_ptr<const Measurements> known = at(key);
    auto both = known != nullptr ? std::make_shared<Measurements>(*known) : std::make_shared<Measurements>();
    for (const auto &[kernels, measurement] : measured) (*both)[kernels] = measurement;
    table_[key] = std::move(both);
  }

  // The user's file of this moment. Throws Failure where it may not be written over, which has been told in the log.
  TuningTable read_written() const {
    TuningTable table;
    if (!read_tuning_file(files_.written, &table))
      throw failure(POLYCONV_IO_ERROR, "'%s' is no tuning file that this version may write", files_.written.c_str());
    return table;
  }

  void write_text(const TuningTable &table) const {
    os::remove_left_over(files_.written);
    const std::string text = tuning_text(table);
    os::write_file_atomically(files_.written, {{text.data(), text.size()}});
  }

  // The user's file and what this process has measured, whose lines win.
  void write() const {
    require_file();
    const os::FileLock only_writer(files_.written + ".lock");
    TuningTable merged = read_written();
    for (const auto &[key, measured] : own_) add_to(&merged, key, measured);
    write_text(merged);
  }

  std::mutex mutex_;
  bool read_ = false;
  std::string in_vain_; // why the file could not be written; then nobody tries again
  Files files_;
  std::set<std::string, std::less<>> devices_; // of all lines, those of whole kinds too
  bool knows_kinds_ = false;
  std::vector<std::unique_ptr<const std::string>> texts_;            // of the files
  TuningLines lines_;                                                // in them
  std::map<std::string, std::shared_ptr<const Measurements>> table_; // what was asked for or measured
  TuningTable own_;                                                  // what this process has measured
};

Database &database() {
  static Database &made = *new Database; // never destroyed: plans may be made while the process ends
  return made;
}

} // namespace

TuningMode tuning_mode() {
  static const TuningMode read = [] {
    const std::string wanted = os::environment("POLYCONV_TUNING");
    if (wanted == "off") return TuningMode::Off;
    if (wanted == "freeze") return TuningMode::Freeze;
    if (!wanted.empty() && wanted != "on")
      log(POLYCONV_LOG_WARNING, "POLYCONV_TUNING is '%s', expected on, freeze or off: taken as on", wanted.c_str());
    return TuningMode::On;
  }();
  return read;
}

std::string today() {
  return date_text(os::wall_clock_s());
}

bool nothing_is_known(const std::string &device) {
  return database().knows_nothing_of(device);
}

Known known_measurements(const std::string &key) {
  return key.empty() ? Known() : database().known(key);
}

std::string remember(const std::string &key, const Measurements &measured) {
  return key.empty() || measured.empty() ? "" : database().add(key, measured);
}

int64_t merge_tuning_file(const std::string &path) {
  if (tuning_mode() != TuningMode::On)
    throw Failure(POLYCONV_UNSUPPORTED,
                  "POLYCONV_TUNING is off or freeze, under which nothing is written; expected on");
  if (!os::exists(path)) throw failure(POLYCONV_IO_ERROR, "'%s' is not there, expected a tuning file", path.c_str());
  TuningTable others;
  if (!read_tuning_file(path, &others))
    throw failure(POLYCONV_IO_ERROR, "'%s' is no tuning file that this version can read", path.c_str());
  return database().merge(others);
}

} // namespace polyconv
