// rows.cpp - see rows.hpp. A row's number goes one way through a pair of sockets, a line with its fate the other; the
// process ends when nobody is left to ask.
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

constexpr const char *kDone = "done";

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

std::string fate_in_child(size_t row, double seconds, const std::function<void(size_t)> &attempt) {
  const std::optional<Trial> trial = try_in_child(seconds, [&](int pipe) {
    try {
      attempt(row);
    } catch (const std::exception &) {
      // The row hears it too, and says it.
    }
    write_line(pipe, kDone);
  });
  const bool back = !trial || trial->said.find(kDone) != std::string::npos;
  return back ? "" : fate_of(*trial, seconds, "it is tried");
}

} // namespace

RowTrials::RowTrials(double seconds, const std::function<void(size_t)> &attempt) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return;
  process_ = fork();
  if (process_ == 0) {
    close(ends[0]);
    for (size_t row; get(ends[1], &row, sizeof row);) {
      const std::string line = fate_in_child(row, seconds, attempt) + "\n";
      if (!put(ends[1], line.data(), line.size())) break;
    }
    _exit(0);
  }
  close(ends[1]);
  socket_ = ends[0];
}

RowTrials::~RowTrials() {
  if (socket_ >= 0) close(socket_);
  while (process_ > 0 && waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string RowTrials::fate_of(size_t row) {
  std::string line;
  if (process_ <= 0 || !put(socket_, &row, sizeof row)) return line;
  for (char c; get(socket_, &c, 1) && c != '\n';) line += c;
  return line;
}

} // namespace polyconv::bench

#else

namespace polyconv::bench {

RowTrials::RowTrials(double, const std::function<void(size_t)> &) {}
RowTrials::~RowTrials() = default;
std::string RowTrials::fate_of(size_t) {
  return "";
}

} // namespace polyconv::bench

#endif
