// bench_terminal.cpp - polyconv-bench on a terminal: lines that fit, what goes on, and Ctrl-C.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <functional>
#include <regex>

#include "bench_files.hpp"
#include "bench_process.hpp"

namespace {

// Lines are counted as they are seen.
[[maybe_unused]] const int kWithoutColours = setenv("NO_COLOR", "1", 1);

struct Ended {
  int code; // 128 + signal where a signal ended it
  std::string out, err;
};

// Runs the binary with stdout on a terminal of so many columns (0: a pipe) and stderr on a pipe; `seen` hears all of
// stderr so far and the process whenever there is more.
Ended run_on(unsigned short columns, const std::vector<std::string> &arguments,
             const std::function<void(const std::string &, pid_t)> &seen = {}) {
  const std::string binary = environment("POLYCONV_BENCH");
  REQUIRE(!binary.empty());
  int out[2], err[2];
  if (columns > 0) {
    out[0] = posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(out[0] >= 0);
    REQUIRE(grantpt(out[0]) == 0);
    REQUIRE(unlockpt(out[0]) == 0);
    out[1] = open(ptsname(out[0]), O_RDWR | O_NOCTTY);
    const winsize size = {50, columns, 0, 0};
    REQUIRE(ioctl(out[1], TIOCSWINSZ, &size) == 0);
  } else {
    REQUIRE(pipe(out) == 0);
  }
  REQUIRE(pipe(err) == 0);
  std::vector<char *> words = {const_cast<char *>(binary.c_str())};
  for (const std::string &argument : arguments) words.push_back(const_cast<char *>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGINT, SIG_DFL); // a test run in the background has it ignored
    dup2(out[1], STDOUT_FILENO), dup2(err[1], STDERR_FILENO);
    for (const int end : {out[0], out[1], err[0], err[1]}) close(end);
    execv(words[0], words.data());
    _exit(127);
  }
  close(out[1]), close(err[1]);
  Ended ended{0, "", ""};
  pollfd ends[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    poll(ends, 2, -1);
    for (int i = 0; i < 2; ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char text[4096];
      const ssize_t size = read(ends[i].fd, text, sizeof text); // a terminal's last reader gets an error, not an end
      if (size <= 0) {
        close(ends[i].fd);
        ends[i].fd = -1;
        continue;
      }
      (i == 0 ? ended.out : ended.err).append(text, static_cast<size_t>(size));
      if (i == 1 && seen) seen(ended.err, child);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  ended.out.erase(std::remove(ended.out.begin(), ended.out.end(), '\r'), ended.out.end());
  return ended;
}

size_t longest_line(const std::string &text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

} // namespace

TEST_CASE("lines fit the terminal, COLUMNS goes before it, and into a pipe they are whole") {
  const std::vector<std::vector<std::string>> commands = {
      {"run", kSmall, "fwd:n2,c8,k16,i14x14,f3x3,p1:nhwc:f16:bias+relu", "--backend", "reference,nosuch", "--min-time",
       "0", "--verify", "never"},
      {"run", "--chain", "lenet28", "--batch", "1", "--profile", "--backend", "reference", "--min-time", "0"},
      {"check", kSmall, "--backend", "reference"},
      {"explain", "fwd:n1,c64,k64,i56x56,f3x3,p1"},
      {"info"}};
  for (const auto &command : commands) {
    CAPTURE(command.front());
    const Ended fitted = run_on(80, command);
    INFO(fitted.out);
    CHECK(longest_line(fitted.out) <= 80);
    CHECK(has(fitted.out, "reference"));
    CHECK(longest_line(run_on(0, command).out) > 80);
  }
  setenv("COLUMNS", "60", 1);
  CHECK(longest_line(run_on(80, commands[0]).out) <= 60);
  CHECK(longest_line(run_on(0, commands[0]).out) > 80);
  unsetenv("COLUMNS");
}

TEST_CASE("what has no room is named") {
  const Ended narrow = run_on(60, {"run", kSmall, "--backend", "reference", "--min-time", "0"});
  CHECK(has(narrow.out, "No room in 60 columns for: "));
  CHECK(has(narrow.out, "plan"));
  CHECK_FALSE(has(run_on(0, {"run", kSmall, "--backend", "reference", "--min-time", "0"}).out, "No room"));
}

TEST_CASE("progress is told line by line where it is asked for, and not unasked into a pipe") {
  const std::vector<std::string> run = {"run", kSmall, "--backend", "reference", "--min-time", "0", "--profile"};
  std::vector<std::string> told = run;
  told.insert(told.end(), {"--progress", "always"});
  const std::string err = run_on(0, told).err;
  size_t at = 0;
  for (const char *stage : {"[1/1] "
                            "fwd:",
                            "checking", "planning", "timing", "profiling"}) {
    CAPTURE(stage);
    at = err.find(stage, at);
    CHECK(at != std::string::npos);
  }
  CHECK(run_on(0, run).err.empty());
  const Outcome wrong = bench("run fwd:i8x8 --progress sometimes");
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "'sometimes' is not auto, always or never"));
}

TEST_CASE("Ctrl-C keeps the rows that are done, in every format, and ends with 128 and the signal") {
  // The second row would take half an hour: the interruption comes in its middle, however slow the machine.
  const std::string endless = "fwd:n1,c64,k64,i256x256,f63x63,p31";
  for (const int signal : {SIGINT, SIGTERM})
    for (const std::string format : {"table", "jsonl"}) {
      CAPTURE(format);
      bool sent = false;
      const Ended ended = run_on(0,
                                 {"run", kSmall, endless, "--backend", "reference", "--min-time", "0", "--verify",
                                  "never", "--progress", "always", "-o", format},
                                 [&](const std::string &err, pid_t child) {
                                   if (sent || !has(err, "[2/2] planning")) return;
                                   kill(child, signal);
                                   sent = true;
                                 });
      INFO(ended.err);
      CHECK(sent);
      CHECK(ended.code == 128 + signal);
      CHECK(has(ended.out, kSmall));
      CHECK(has(ended.out, "reference/convolve@plain"));
      CHECK(has(ended.err, "interrupted after 1 of 2 rows"));
    }
  bool sent = false;
  const Ended checked = run_on(0, {"check", kSmall, endless, "--backend", "reference", "--progress", "always"},
                               [&](const std::string &err, pid_t child) {
                                 if (sent || !has(err, "[2/2]")) return;
                                 kill(child, SIGINT);
                                 sent = true;
                               });
  CHECK(checked.code == 130);
  CHECK(has(checked.out, kSmall));
}

TEST_CASE("a signal that was ignored stays ignored") {
  signal(SIGTERM, SIG_IGN);
  bool sent = false;
  const Ended ended = run_on(0, {"run", kSmall, "--backend", "reference", "--min-time", "0", "--progress", "always"},
                             [&](const std::string &err, pid_t child) {
                               if (!sent && has(err, "[1/1]")) kill(child, SIGTERM), sent = true;
                             });
  signal(SIGTERM, SIG_DFL);
  CHECK(ended.code == 0);
  CHECK(has(ended.out, "reference/convolve@plain"));
}

TEST_CASE("colours are for terminals, and for nobody who sets NO_COLOR") {
  const TemporaryFile before("", ".jsonl"), after("", ".jsonl");
  REQUIRE(run_on(0, {"run", kSmall, "--backend", "reference", "--min-time", "0", "--out", before.path()}).code == 0);
  std::string row;
  std::getline(std::ifstream(before.path()), row);
  row = std::regex_replace(row, std::regex("(\"[a-z_0-9]*_us\":)([0-9])"),
                           "$019999$2"); // a thousand times slower, at least
  std::ofstream(after.path()) << row << "\n";
  const std::vector<std::string> compare = {"compare", before.path(), after.path()};
  setenv("TERM", "xterm", 1);
  unsetenv("NO_COLOR");
  const Ended coloured = run_on(100, compare);
  CHECK(coloured.code == 5);
  CHECK(has(coloured.out, "\033[1m"));  // titles
  CHECK(has(coloured.out, "\033[31m")); // the row that fails
  CHECK_FALSE(has(run_on(0, compare).out, "\033["));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(has(run_on(100, compare).out, "\033["));
  setenv("NO_COLOR", "", 1); // as if it were not there
  CHECK(has(run_on(100, compare).out, "\033["));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  CHECK_FALSE(has(run_on(100, compare).out, "\033["));
  setenv("TERM", "xterm", 1);
  CHECK(has(run_on(100, {"doctor"}).out, "\033[3"));
  CHECK(has(run_on(100, {"run", kSmall, "--backend", "reference", "--min-time", "0"}).out, "\033[1m"));
  setenv("NO_COLOR", "1", 1);
}

TEST_CASE("every command that may take long says what goes on") {
  const TemporaryFile tokens(std::string(kSmall) + "\n", ".txt");
  CHECK(has(run_on(0, {"import", tokens.path(), tokens.path(), "--progress", "always"}).err, "[2/2] reading "));
  CHECK(has(run_on(0, {"explain", kSmall, "--backend", "reference", "--progress", "always"}).err, "[1/1] "));
  CHECK(has(run_on(0, {"check", kSmall, "--backend", "reference", "--progress", "always"}).err, "[1/1] "));
}
