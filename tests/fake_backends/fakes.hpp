// fakes.hpp - where tests find the fake backends, and how they watch a fresh process: the library searches once a
// process, so whatever concerns the search happens in a child.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "../platform.hpp"

#if defined(_WIN32)
#include <process.h>
#else
#include <sys/wait.h>
#endif

namespace fakes {

// The tests' folder of the build tree: CTest says it, else this executable lies in it.
inline std::filesystem::path build_tests() {
  const char *binary = std::getenv("POLYCONV_BINARY_DIR");
  return binary != nullptr ? std::filesystem::path(binary) / "tests"
                           : std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

inline std::string folder(const std::string &fake) {
  return (build_tests() / "fake_backends" / fake).string();
}

#if defined(_WIN32)
inline constexpr const char *suffix = ".dll", *list_separator = ";", *root = "C:";
#else
inline constexpr const char *suffix = ".so", *list_separator = ":", *root = "";
#endif

// The shared library of a fake; `backend` is its file's name without libpolyconv_ and suffix where it is not
// fake_<folder>.
inline std::string path(const std::string &fake, const std::string &backend = "") {
  return folder(fake) + "/libpolyconv_" + (backend.empty() ? "fake_" + fake : backend) + suffix;
}

struct Result {
  int exit_code; // -1 when it died of a signal
  std::string out, err;
};

// Runs a command of the system's shell and keeps what it printed.
inline Result run(const std::string &command) {
  const std::filesystem::path err =
      std::filesystem::temp_directory_path() / ("polyconv_err_" + std::to_string(polyconv_test::process_id()));
  Result result{-1, "", ""};
#if defined(_WIN32)
  FILE *pipe =
      _popen(("\"" + command + " 2>\"" + err.string() + "\"\"").c_str(), "r"); // cmd takes the outer quotes off
#else
  FILE *pipe = popen(("( " + command + " ) 2>" + err.string()).c_str(), "r");
#endif
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, size);
#if defined(_WIN32)
  result.exit_code = _pclose(pipe);
#else
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) < 128) result.exit_code = WEXITSTATUS(status);
#endif
  if (FILE *file = std::fopen(err.string().c_str(), "r")) {
    for (size_t size; (size = std::fread(buffer, 1, sizeof buffer, file)) > 0;) result.err.append(buffer, size);
    std::fclose(file);
  }
  std::filesystem::remove(err);
  return result;
}

// One backend as list_backends prints it.
struct Listed {
  std::string name, available, kind, kernels, path, version, reason;
};

inline std::vector<Listed> parse(const std::string &out) {
  std::vector<Listed> all;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.compare(0, 8, "backend\t") != 0) continue;
    std::istringstream fields(line.substr(8));
    Listed one;
    for (std::string *field :
         {&one.name, &one.available, &one.kind, &one.kernels, &one.path, &one.version, &one.reason}) {
      std::getline(fields, *field, '\t');
    }
    all.push_back(one);
  }
  return all;
}

inline const Listed *find(const std::vector<Listed> &all, const std::string &name) {
  for (const Listed &one : all) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

// What starts a program of a build for another processor; "" where it is this one's.
inline const char *emulator() {
  const char *command = std::getenv("POLYCONV_TEST_EMULATOR");
  return command != nullptr ? command : "";
}

// What a fresh process finds, beside what this one has: environment variables, and the folder that it starts in.
struct World {
  std::vector<std::pair<std::string, std::string>> environment;
  std::string folder = "";
};

// Runs a program of this build in such a world; `program` is a path, `arguments` are as the shell takes them.
inline Result start(const World &world, const std::string &program, const std::string &arguments) {
#if defined(_WIN32) // whose shell sets no variables for one command: this process has them meanwhile
  struct Meanwhile {
    std::vector<std::pair<std::string, std::string>> environment;
    std::filesystem::path folder = std::filesystem::current_path();
    ~Meanwhile() {
      for (const auto &[name, value] : environment) _putenv_s(name.c_str(), value.c_str());
      std::filesystem::current_path(folder);
    }
  } before;
  for (const auto &[name, value] : world.environment) {
    const char *old = std::getenv(name.c_str());
    before.environment.emplace_back(name, old != nullptr ? old : "");
    _putenv_s(name.c_str(), value.c_str());
  }
  if (!world.folder.empty()) std::filesystem::current_path(world.folder);
  return run("\"" + std::filesystem::path(program + ".exe").make_preferred().string() + "\" " + arguments);
#else
  std::string command = world.folder.empty() ? "" : "cd '" + world.folder + "' && ";
  for (const auto &[name, value] : world.environment) command += name + "='" + value + "' ";
  return run(command + emulator() + " '" + program + "' " + arguments);
#endif
}

// A fresh process that lists what it finds.
inline Result list(const World &world, const std::string &arguments = "") {
  return start(world, (build_tests() / "list_backends").string(), arguments);
}

#if !defined(_WIN32)
// The same where `before` are assignments or commands, `arguments` those of list_backends.
inline Result list(const std::string &before, const std::string &arguments = "") {
  const std::string program = "'" + (build_tests() / "list_backends").string() + "' ";
  return run(before + " " + emulator() + " " + program + arguments);
}
#endif

} // namespace fakes
