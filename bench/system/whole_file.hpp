// whole_file.hpp - files that are written whole or not at all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv::bench {

// Writes the text beside `path` and renames it, so that what was there stays where the disk is full, and no reader
// sees half of it. What is no ordinary file (/dev/stdout) is written as it is. Error(kUsage) naming the file and why.
void write_whole(const std::string &path, const std::string &text);

} // namespace polyconv::bench
