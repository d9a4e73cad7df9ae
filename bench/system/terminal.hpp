// terminal.hpp - the terminal that somebody sits at: whether there is one, how wide it is, and Ctrl-C. With machine.cpp
// the only place where the bench asks the operating system (terminal_posix.cpp, terminal_windows.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>

namespace polyconv::bench {

bool stderr_is_terminal();

// Columns that a line on stdout may have: those of the terminal, or what COLUMNS says of it; 0, no limit, where stdout
// goes into a file or another program.
size_t stdout_columns();

// Whether colours say something there: a terminal, and nobody has set NO_COLOR (no-color.org) or a terminal without
// any.
bool stdout_takes_colours();
bool stderr_takes_colours();

constexpr size_t kUsualColumns = 80; // of a terminal that does not tell
size_t asked_columns();              // what COLUMNS says, 0 where it says nothing

// The text with every line that is longer than `columns` broken at blanks; what follows is indented by two more than
// the line. Words that are longer themselves stay whole. 0 columns: as it is.
std::string wrapped(const std::string &text, size_t columns);

// While one lives, SIGINT and SIGTERM do not end the process before `last_words(signal)` has run, on a thread of its
// own beside whatever goes on; then it ends with 128 + signal, as shells expect. Made before other threads are, because
// those made later leave the signals to it. A signal that was ignored stays ignored.
class Interruption {
 public:
  explicit Interruption(std::function<void(int signal)> last_words);
  ~Interruption(); // from here on signals do what they did
  Interruption(const Interruption &) = delete;
  Interruption &operator=(const Interruption &) = delete;

 private:
  void watch();

  std::function<void(int)> last_words_;
  std::atomic<bool> over_{false};
  std::thread watcher_; // not there where every signal is ignored
};

} // namespace polyconv::bench
