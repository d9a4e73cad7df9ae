// machine.hpp - what the bench asks about the machine that the library does not tell: caches and
// folders. Answered from files and the environment; every answer has a default where there are none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace polyconv::bench {

// Remembers argv[0], for systems that do not name the executable elsewhere. Called first by main.
void set_program(const char *argv0);

// The folder of a kind of shared data ("suites", "expect"): ../share/polyconv/<kind> from the executable, the same
// in the build tree and when installed.
std::filesystem::path data_folder(const std::string &kind);

// The names without ending of the files in a folder that end so, sorted; none where there is no such folder.
std::vector<std::string> file_names(const std::filesystem::path &folder, const std::string &ending);

// The folder for what is measured once a machine: $XDG_CACHE_HOME/polyconv, or ~/.cache/polyconv; empty without both.
std::filesystem::path cache_folder();

// Bytes of the largest cache of the first processor; 32 MiB where unknown.
int64_t last_level_cache();

// Sets a variable of this process's environment, where the library reads it.
void set_environment(const char *name, const std::string &value);

// Now, as "2024-05-31T12:00:00Z".
std::string utc_now();

} // namespace polyconv::bench
