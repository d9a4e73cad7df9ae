// terminal.cpp - see terminal.hpp. POSIX.
// SPDX-License-Identifier: Apache-2.0
#include "system/terminal.hpp"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <algorithm>
#include <csignal>
#include <cstdlib>

#include <utility>

namespace polyconv::bench {

namespace {

constexpr size_t kUsualColumns = 80; // of a terminal that does not tell

size_t number_of(const char *text) {
  char *end = nullptr;
  const long value = text ? std::strtol(text, &end, 10) : 0;
  return text && *end == '\0' && value > 0 ? static_cast<size_t>(value) : 0;
}

// SIGINT and SIGTERM, but for those that are ignored.
sigset_t watched_signals(bool *any) {
  sigset_t signals;
  sigemptyset(&signals);
  *any = false;
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction action = {};
    if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, signal);
    *any = true;
  }
  return signals;
}

std::string wrapped_line(const std::string &line, size_t columns) {
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  const std::string further(std::min(indent + 2, columns / 2), ' ');
  std::string text, rest = line;
  while (rest.size() > columns) {
    const size_t begin = rest.find_first_not_of(' ');
    size_t blank = rest.rfind(' ', columns);
    if (blank == std::string::npos || blank <= begin) blank = rest.find(' ', columns);
    if (blank == std::string::npos) break;
    text += rest.substr(0, rest.find_last_not_of(' ', blank) + 1) + "\n";
    const size_t next = rest.find_first_not_of(' ', blank);
    if (next == std::string::npos) return text.substr(0, text.size() - 1);
    rest.replace(0, next, further);
  }
  return text + rest;
}

} // namespace

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

size_t stdout_columns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  if (const size_t asked = number_of(std::getenv("COLUMNS"))) return asked;
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
}

std::string wrapped(const std::string &text, size_t columns) {
  if (columns == 0) return text;
  std::string result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result += wrapped_line(text.substr(begin, end - begin), columns) + (end < text.size() ? "\n" : "");
    begin = end + 1;
  }
  return result;
}

Interruption::Interruption(std::function<void(int)> last_words) : last_words_(std::move(last_words)) {
  bool any = false;
  const sigset_t signals = watched_signals(&any);
  if (!any || pthread_sigmask(SIG_BLOCK, &signals, nullptr) != 0) return;
  watcher_ = std::thread([this] { watch(); });
}

void Interruption::watch() {
  bool any = false;
  const sigset_t signals = watched_signals(&any);
  int signal = 0;
  if (sigwait(&signals, &signal) != 0 || over_) return;
  last_words_(signal);
  _exit(128 + signal); // other threads are in the middle of something: no destructor may run
}

Interruption::~Interruption() {
  if (!watcher_.joinable()) return;
  bool any = false;
  const sigset_t signals = watched_signals(&any);
  over_ = true;
  pthread_kill(watcher_.native_handle(), sigismember(&signals, SIGINT) == 1 ? SIGINT : SIGTERM);
  watcher_.join();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

} // namespace polyconv::bench
