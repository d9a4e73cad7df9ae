// replay_command.cpp - `polyconv-bench replay`: the plans of a log of polyconv, each distinct one measured again.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "command/commands.hpp"
#include "command/jobs.hpp"

namespace polyconv::bench {

namespace {

struct Command {
  std::string words; // as the log has them
  int64_t count;     // of the plans that were made so
  std::string where;
};

// The commands behind "run: " of a log's lines, each once, in their order.
std::vector<Command> commands_of(const std::string &path) {
  std::vector<Command> commands;
  int number = 0;
  for (const std::string &line : read_lines(path)) {
    ++number;
    const size_t at = line.find("polyconv-bench run ");
    if (at == std::string::npos) continue;
    const std::string words = line.substr(at);
    const auto known =
        std::find_if(commands.begin(), commands.end(), [&](const Command &c) { return c.words == words; });
    if (known == commands.end())
      commands.push_back({words, 1, format("%s:%d", path.c_str(), number)});
    else
      ++known->count;
  }
  if (commands.empty())
    throw Error(kUsage,
                path +
                    " has no line with a command `polyconv-bench run …`; expected a log of polyconv, written with "
                    "POLYCONV_LOG=info");
  return commands;
}

// The rows of one command, with what the replay itself says of baselines and kernels.
std::vector<Job> jobs_of_command(const Command &command, const Arguments &a, const std::string &suite) {
  const std::vector<std::string> words = shell_words(command.words);
  std::vector<char *> pointers;
  std::vector<std::string> typed = words;
  pointers.reserve(typed.size());
  for (std::string &word : typed) pointers.push_back(word.data());
  Arguments inner;
  const int code = parse_arguments(static_cast<int>(pointers.size()), pointers.data(), inner);
  if (code >= 0) throw Error(code, command.where + ": the command is none of this version: " + command.words);
  inner.baselines = a.baselines;
  if (a.choose) inner.kernels.clear();
  std::vector<Job> jobs = jobs_of(inner, select(inner, true), {}, false);
  for (Job &job : jobs) job.work.count = command.count, job.work.suite = suite;
  return jobs;
}

} // namespace

int replay_command(const Arguments &a) {
  const std::string &path = a.result_files.front();
  const std::string suite = std::filesystem::path(path).stem().string();
  std::vector<Job> jobs;
  for (const Command &command : commands_of(path))
    for (Job &job : jobs_of_command(command, a, suite)) jobs.push_back(std::move(job));
  return measure_jobs(a, jobs, {}, false);
}

} // namespace polyconv::bench
