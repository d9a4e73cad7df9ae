// rows.cpp - see rows.hpp. A row's number goes one way through a pair of sockets, two lines the other, what the row's
// process said and its fate; the process ends when nobody is left to ask.
// SPDX-License-Identifier: Apache-2.0
#include "trial/rows.hpp"

#if !defined(_WIN32)

#include <cerrno>
#include <exception>
#include <optional>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trial/child.hpp"

namespace polyconv::bench {

namespace {

bool get(int socket, void *to, size_t size) {
  for (;;) {
    const ssize_t got = recv(socket, to, size, MSG_WAITALL);
    if (got >= 0 || errno != EINTR) return got == static_cast<ssize_t>(size);
  }
}

// No signal where the other side is gone.
bool put(int socket, const void *from, size_t size) {
  return send(socket, from, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}

std::string line_from(int socket) {
  std::string line;
  for (char c; get(socket, &c, 1) && c != '\n';) line += c;
  return line;
}

// Whole lines alone count: one that is cut off is a crash's.
RowOutcome outcome_in_child(size_t row, double seconds, const std::function<std::string(size_t)> &measure) {
  const std::optional<Trial> trial = try_in_child(seconds, [&](int pipe) {
    try {
      write_line(pipe, measure(row));
    } catch (const std::exception &) {
      // Such a row is measured once more, where the exception is told.
      write_line(pipe, "");
    }
  });
  if (!trial) return {};
  const size_t end = trial->said.find('\n');
  if (end == std::string::npos) return {"", fate_of(*trial, seconds, "it is measured")};
  return {trial->said.substr(0, end), ""};
}

} // namespace

RowProcesses::RowProcesses(double seconds, const std::function<std::string(size_t)> &measure) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  process_ = fork();
  if (process_ == 0) {
    close(ends[0]);
    for (size_t row; get(ends[1], &row, sizeof row);) {
      const RowOutcome outcome = outcome_in_child(row, seconds, measure);
      const std::string lines = outcome.line + "\n" + outcome.fate + "\n";
      if (!put(ends[1], lines.data(), lines.size())) break;
    }
    _exit(0);
  }
  close(ends[1]);
  socket_ = ends[0];
}

RowProcesses::~RowProcesses() {
  if (socket_ >= 0) close(socket_);
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

RowOutcome RowProcesses::outcome_of(size_t row) {
  if (process_ <= 0 || !put(socket_, &row, sizeof row)) return {};
  const std::string line = line_from(socket_);
  return {line, line_from(socket_)};
}

} // namespace polyconv::bench

#else

namespace polyconv::bench {

RowProcesses::RowProcesses(double, const std::function<std::string(size_t)> &) {}
RowProcesses::~RowProcesses() = default;
RowOutcome RowProcesses::outcome_of(size_t) {
  return {};
}

} // namespace polyconv::bench

#endif
