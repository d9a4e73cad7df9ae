// terminal_windows.cpp - see terminal.hpp.
// SPDX-License-Identifier: Apache-2.0
#if defined(_WIN32)

#include "system/terminal.hpp"

#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>

#include <csignal>
#include <utility>

namespace polyconv::bench {

namespace {

bool is_console(DWORD stream) {
  DWORD mode = 0;
  return GetConsoleMode(GetStdHandle(stream), &mode) != 0;
}

// The one that lives, for a handler that the system calls on a thread of its own.
std::atomic<const std::function<void(int)> *> last_words_now{nullptr};

BOOL WINAPI interrupted(DWORD event) {
  const std::function<void(int)> *last_words = last_words_now.exchange(nullptr);
  if (last_words == nullptr) return FALSE; // as without us: the process ends
  const int signal = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
  (*last_words)(signal);
  TerminateProcess(GetCurrentProcess(), 128 + static_cast<UINT>(signal)); // no destructor may run
  return TRUE;
}

} // namespace

bool stderr_is_terminal() {
  return is_console(STD_ERROR_HANDLE);
}

size_t stdout_columns() {
  if (!is_console(STD_OUTPUT_HANDLE)) return 0;
  if (const size_t asked = asked_columns()) return asked;
  CONSOLE_SCREEN_BUFFER_INFO screen;
  return GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &screen) != 0 && screen.dwSize.X > 0
             ? static_cast<size_t>(screen.dwSize.X)
             : kUsualColumns;
}

Interruption::Interruption(std::function<void(int)> last_words) : last_words_(std::move(last_words)) {
  last_words_now = &last_words_;
  SetConsoleCtrlHandler(interrupted, TRUE);
}

Interruption::~Interruption() {
  SetConsoleCtrlHandler(interrupted, FALSE);
  last_words_now = nullptr;
}

} // namespace polyconv::bench

#endif // _WIN32
