// database.hpp - the tuning database: what kernels took for a problem on this machine, kept from one process to the
// next. Plans made with a tuning budget and polyconv_tune write it, every plan reads it; no run does. POLYCONV_TUNING
// and POLYCONV_TUNING_DB say whether and where (docs/tuning.md).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tune/text.hpp"

#include <memory>
#include <string>

namespace polyconv {

enum class TuningMode { On, Freeze, Off };

// POLYCONV_TUNING, read once a process.
TuningMode tuning_mode();

// "2026-11-28", UTC.
std::string today();

// What is known of a key (key.hpp), NULL where nothing is: of the very device, and of devices of its kind, which a line
// says by a "*" in the place of the name or of the rest: "NVIDIA H200; *". It stays as it is, whatever is added later,
// so that a plan reads it without a lock or a copy.
struct Known {
  std::shared_ptr<const Measurements> here, elsewhere;
};
Known known_measurements(const std::string &key);

// Whether there is no line about a device or its kind, as on most machines. It is given as in a key. The first call of
// the process reads the files.
bool nothing_is_known(const std::string &device);

// Adds measurements under a key: in this process at once, and in the user's file, whole or not at all, together with
// what other processes have written there meanwhile. Gives why the file could not be written, which one warning says
// too; "" where it could.
std::string remember(const std::string &key, const Measurements &measured);

// Adds the lines of another database file to the user's; of two about the same kernels the one of the later day stays,
// of the same day the user's. Gives the number of lines that were taken. Throws Failure: IO_ERROR where a file cannot
// be read or written, or is none; UNSUPPORTED under POLYCONV_TUNING=off and freeze.
int64_t merge_tuning_file(const std::string &path);

} // namespace polyconv
