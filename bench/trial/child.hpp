// child.hpp - child processes that try what this process might not survive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace polyconv::bench {

// What a child said and how it ended.
struct Trial {
  std::string said;
  bool hung = false;
  int status = 0; // as waitpid gives it
};

// Writes the line whole, or as far as there is a reader.
void write_line(int pipe, const std::string &line);

// Does `work` in a child, which writes to the pipe it is given and ends, at the latest when it has said nothing for
// `seconds`. Nothing where the system gives no child.
std::optional<Trial> try_in_child(double seconds, const std::function<void(int pipe)> &work);

// "crashes while it is loaded: signal 11 (Segmentation fault)", of a child that did not come to its end.
std::string fate_of(const Trial &trial, double seconds, const std::string &meanwhile);

} // namespace polyconv::bench
