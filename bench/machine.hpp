// machine.hpp - what the bench asks about the machine that the library does not tell: caches, folders, the
// terminal. Answered from files and the environment; every answer has a default where there are none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace polyconv::bench {

// Remembers argv[0], for systems that do not name the executable elsewhere. Called first by main.
void set_program(const char *argv0);

// The folder of a kind of shared data ("suites", "expect"): ../share/polyconv/<kind> from the executable, the same
// in the build tree and when installed.
std::filesystem::path data_folder(const std::string &kind);

// The folder for what is measured once a machine: $XDG_CACHE_HOME/polyconv, or ~/.cache/polyconv; empty without both.
std::filesystem::path cache_folder();

// Bytes of the largest cache of the first processor; 32 MiB where unknown.
int64_t last_level_cache();

// Whether stderr is a terminal, as far as the system's files tell.
bool stderr_is_terminal();

// Now, as "2024-05-31T12:00:00Z".
std::string utc_now();

} // namespace polyconv::bench
