// child.cpp - see child.hpp.
// SPDX-License-Identifier: Apache-2.0
#if !defined(_WIN32)

#include "trial/child.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

// Reads what `child` writes to `pipe` until it ends, and ends it where it says nothing for `seconds`.
Trial watch(pid_t child, int pipe, double seconds) {
  Trial trial;
  pollfd readable = {pipe, POLLIN, 0};
  for (char buffer[4096];;) {
    const int ready = poll(&readable, 1, static_cast<int>(seconds * 1000));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) {
      trial.hung = true;
      kill(child, SIGKILL);
      break;
    }
    const ssize_t size = read(pipe, buffer, sizeof buffer);
    if (size <= 0) break;
    trial.said.append(buffer, static_cast<size_t>(size));
  }
  while (waitpid(child, &trial.status, 0) < 0 && errno == EINTR) {
  }
  return trial;
}

} // namespace

void write_line(int pipe, const std::string &line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(pipe, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

std::optional<Trial> try_in_child(double seconds, const std::function<void(int pipe)> &work) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    work(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  std::optional<Trial> trial;
  if (child > 0) trial = watch(child, ends[0], seconds);
  close(ends[0]);
  return trial;
}

std::string fate_of(const Trial &trial, double seconds, const std::string &meanwhile) {
  if (trial.hung) return format("hangs while %s: no answer in %.3g s", meanwhile.c_str(), seconds);
  if (WIFSIGNALED(trial.status))
    return format("crashes while %s: signal %d (%s)", meanwhile.c_str(), WTERMSIG(trial.status),
                  strsignal(WTERMSIG(trial.status)));
  return format("ends the process while %s: exit code %d", meanwhile.c_str(), WEXITSTATUS(trial.status));
}

} // namespace polyconv::bench

#endif
