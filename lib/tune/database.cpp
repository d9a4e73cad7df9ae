// database.cpp - the database in memory, and its files.
// SPDX-License-Identifier: Apache-2.0
#include "tune/database.hpp"

#include "base/status.hpp"
#include "os/log.hpp"
#include "os/os.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
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

// Adds measurements to those of a key, the later of two about the same kernels replacing the earlier.
void add_to(TuningTable *table, const std::string &key, const Measurements &measured) {
  Measurements &known = (*table)[key];
  for (const auto &[kernels, measurement] : measured) known[kernels] = measurement;
}

class Database {
 public:
  std::shared_ptr<const Measurements> known(const std::string &key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    const auto found = table_.find(key);
    return found != table_.end() ? found->second : nullptr;
  }

  bool empty() {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    return table_.empty();
  }

  void add(const std::string &key, const Measurements &measured) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    know(key, measured);
    add_to(&own_, key, measured);
    if (files_.written.empty() || written_in_vain_) return;
    try {
      write();
    } catch (const Failure &failure) {
      written_in_vain_ = true;
      log(POLYCONV_LOG_WARNING, "what is tuned will be forgotten when the process ends: %s", failure.what());
    }
  }

  int64_t merge(const TuningTable &others) {
    const std::lock_guard<std::mutex> lock(mutex_);
    read();
    if (files_.written.empty())
      throw Failure(POLYCONV_IO_ERROR, "no file of the tuning database may be written: set POLYCONV_TUNING_DB");
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
  void read() {
    if (read_) return;
    files_ = find_files();
    TuningTable all;
    for (const std::string &path : files_.read) read_tuning_file(path, &all);
    for (auto &[key, measured] : all)
      table_.emplace_hint(table_.end(), key, std::make_shared<const Measurements>(std::move(measured)));
    read_ = true; // not where memory ran out on the way: the next plan tries again
  }

  // Plans may be reading what was known: it stays as it is, and another takes its place.
  void know(const std::string &key, const Measurements &measured) {
    std::shared_ptr<const Measurements> &known = table_[key];
    auto both = known != nullptr ? std::make_shared<Measurements>(*known) : std::make_shared<Measurements>();
    for (const auto &[kernels, measurement] : measured) (*both)[kernels] = measurement;
    known = std::move(both);
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
    const os::FileLock only_writer(files_.written + ".lock");
    TuningTable merged = read_written();
    for (const auto &[key, measured] : own_) add_to(&merged, key, measured);
    write_text(merged);
  }

  std::mutex mutex_;
  bool read_ = false, written_in_vain_ = false;
  Files files_;
  std::map<std::string, std::shared_ptr<const Measurements>> table_; // of all files, and what this process has measured
  TuningTable own_;                                                  // that alone
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

bool nothing_is_known() {
  return database().empty();
}

std::shared_ptr<const Measurements> known_measurements(const std::string &key) {
  return key.empty() ? nullptr : database().known(key);
}

void remember(const std::string &key, const Measurements &measured) {
  if (!key.empty() && !measured.empty()) database().add(key, measured);
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
