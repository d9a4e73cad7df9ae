// terminal_posix.cpp - see terminal.hpp.
// SPDX-License-Identifier: Apache-2.0
#if !defined(_WIN32)

#include "system/terminal.hpp"

#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace polyconv::bench {

namespace {

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

} // namespace

bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

size_t stdout_columns() {
  if (isatty(STDOUT_FILENO) != 1) return 0;
  if (const size_t asked = asked_columns()) return asked;
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns;
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

#endif // !_WIN32
