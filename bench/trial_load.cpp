// trial_load.cpp - see trial_load.hpp. The child passes on the library's log; the last file that it names as being
// opened is the one that ended it.
// SPDX-License-Identifier: Apache-2.0
#include "trial_load.hpp"

#include <map>

#if !defined(_WIN32)

#include <polyconv/polyconv.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "text.hpp"

#endif

namespace polyconv::bench {

namespace {

std::map<std::string, std::string> fates; // by backend

#if !defined(_WIN32)

constexpr const char *kDone = "every backend has come back";

void write_line(int pipe, const std::string &line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(pipe, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

[[noreturn]] void search_and_exit(int pipe) {
  polyconv_set_log([](void *context, int32_t, const char *line) { write_line(*static_cast<int *>(context), line); },
                   &pipe, POLYCONV_LOG_DEBUG);
  polyconv_backend_count();
  write_line(pipe, kDone);
  _exit(0);
}

// What a child said and how it ended.
struct Trial {
  std::string said;
  bool hung = false;
  int status = 0;
};

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

// The backend that was opened last: "backend 'NAME' is being opened (...)".
std::string last_opened(const std::string &said) {
  constexpr const char *kBefore = "backend '", *kAfter = "' is being opened";
  const size_t after = said.rfind(kAfter);
  const size_t before = after == std::string::npos ? after : said.rfind(kBefore, after);
  if (before == std::string::npos) return "";
  const size_t name = before + std::strlen(kBefore);
  return said.substr(name, after - name);
}

std::string fate_of(const Trial &trial, double seconds) {
  if (trial.hung) return format("hangs while it is loaded: no answer in %.3g s", seconds);
  if (WIFSIGNALED(trial.status))
    return format("crashes while it is loaded: signal %d (%s)", WTERMSIG(trial.status),
                  strsignal(WTERMSIG(trial.status)));
  return format("ends the process while it is loaded: exit code %d", WEXITSTATUS(trial.status));
}

void leave_out(const std::string &backend) {
  const char *before = std::getenv("POLYCONV_BACKEND_SKIP");
  const std::string list = (before != nullptr && *before != '\0' ? std::string(before) + "," : "") + backend;
  setenv("POLYCONV_BACKEND_SKIP", list.c_str(), 1);
}

#endif

} // namespace

#if defined(_WIN32)
void try_loading(double) {}
#else
void try_loading(double seconds) {
  for (;;) {
    int ends[2];
    if (pipe(ends) != 0) return;
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      search_and_exit(ends[1]);
    }
    close(ends[1]);
    const Trial trial = child > 0 ? watch(child, ends[0], seconds) : Trial{kDone};
    close(ends[0]);
    if (trial.said.find(kDone) != std::string::npos) return;
    const std::string backend = last_opened(trial.said);
    if (backend.empty() || fates.count(backend) != 0) return; // it is something else: let it show
    fates[backend] = fate_of(trial, seconds);
    leave_out(backend);
  }
}
#endif

std::string fate_of(const std::string &backend) {
  const auto found = fates.find(backend);
  return found != fates.end() ? found->second : "";
}

} // namespace polyconv::bench
