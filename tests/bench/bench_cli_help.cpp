// bench_cli_help.cpp - help, completion and the manual page: they tell the same options; and what the doctor says.
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <regex>
#include <set>

#include "bench_process.hpp"

namespace {

std::set<std::string> words_of(const std::string &text) {
  std::istringstream in(text);
  std::set<std::string> words;
  for (std::string line; std::getline(in, line);) words.insert(line);
  return words;
}

std::set<std::string> completed(const std::string &words) {
  return words_of(bench("complete " + words).out);
}

// The long options at the begin of help's lines.
std::set<std::string> options_of(const std::string &help) {
  std::set<std::string> options;
  const std::regex option("\n  (-[a-z],)?(--[a-z-]+)");
  for (std::sregex_iterator found(help.begin(), help.end(), option), end; found != end; ++found)
    options.insert((*found)[2]);
  return options;
}

} // namespace

TEST_CASE("completion and the manual page know every command and option that help tells, and no other") {
  const std::string help = bench("--help").out;
  std::set<std::string> commands = completed("''");
  CHECK(commands.erase("--help") + commands.erase("--version") == 2);
  CHECK(commands.size() >= 14);
  CHECK(help.find("\nExamples:\n") < help.find("\nMeasure:"));
  const std::string manual = bench("man").out;
  for (const std::string &command : commands) {
    CAPTURE(command);
    CHECK(has(help, "\n  " + command + " "));
    CHECK(has(manual, "\n.SH \"" + command + "\"\n"));
    const std::string its_help = bench(command + " --help").out;
    const size_t examples = its_help.find("\nExamples:\n  polyconv-bench " + command);
    CHECK(examples < its_help.find("\nOptions:"));
    const std::set<std::string> told = options_of(its_help);
    std::set<std::string> known = completed(command + " --");
    CHECK(told == known);
    const size_t begin = manual.find("\n.SH \"" + command + "\"\n");
    const std::string section = manual.substr(begin, manual.find("\n.SH ", begin + 1) - begin);
    for (const std::string &option : told) {
      if (option == "--help") continue;
      CAPTURE(option);
      CHECK(has(section, std::regex_replace(option, std::regex("-"), "\\-")));
    }
  }
}

TEST_CASE("completion knows suites, values, lists and the fields and parts of tokens") {
  CHECK(completed("run --suite resn") == std::set<std::string>{"resnet50"});
  CHECK(completed("run --suite seeds,resn") == std::set<std::string>{"seeds,resnet50"});
  CHECK(completed("run --cache=warm") == std::set<std::string>{"--cache=warm", "--cache=warm-only"});
  CHECK(completed("run -o m") == std::set<std::string>{"markdown"});
  CHECK(completed("run --out x").empty()); // a file: the shell's own business
  CHECK(completed("completion b") == std::set<std::string>{"bash"});
  CHECK(completed("run tb") == std::set<std::string>{"tbwd_d:", "tbwd_w:"});
  const std::set<std::string> fields = completed("run fwd:n1,c3,");
  CHECK(fields.count("fwd:n1,c3,k") == 1);
  CHECK(fields.count("fwd:n1,c3,n") == 0); // each field once
  CHECK(fields.count("fwd:n1,c3,c") == 0);
  CHECK(completed("run fwd:n1,i9x9:nh") == std::set<std::string>{"fwd:n1,i9x9:nhwc"});
  CHECK(completed("run fwd:n1,i9x9:nhwc:bf") == std::set<std::string>{"fwd:n1,i9x9:nhwc:bf16"});
}

TEST_CASE("the script for bash completes") {
  if (std::system("bash -c true 2>/dev/null") != 0) return;
  const std::string binary = environment("POLYCONV_BENCH");
  const TemporaryFile script(
      bench("completion bash").out + "COMP_LINE=\"" + binary + " run --su\"; COMP_POINT=${#COMP_LINE}\n" +
          "COMP_WORDS=(x run --su); COMP_CWORD=2; _polyconv_bench 2>/dev/null; echo \"${COMPREPLY[@]}\"\n" +
          "COMP_LINE=\"" + binary + " run fwd:n1,i9:bf\"; COMP_POINT=${#COMP_LINE}\n" +
          "COMP_WORDS=(x run fwd : n1,i9 : bf); COMP_CWORD=6; _polyconv_bench 2>/dev/null; echo \"${COMPREPLY[@]}\"\n",
      ".bash"),
      out("", ".out");
  REQUIRE(std::system(("bash " + script.path() + " >" + out.path()).c_str()) == 0);
  CHECK(contents(out.path()) == "--suite\nbf16\n"); // behind the ':' at which bash divides
  CHECK(has(bench("completion zsh").out, "#compdef polyconv-bench"));
  CHECK(has(bench("completion fish").out, "complete -c polyconv-bench"));
  CHECK(bench("completion tcsh").code == 2);
}

TEST_CASE("help fits the terminal's width") {
  const std::string narrow = bench("run --help", "COLUMNS=80").out, whole = bench("run --help").out;
  CHECK(options_of(narrow) == options_of(whole));
}

TEST_CASE("doctor says what is missing and what mends it") {
  const Outcome doctor = bench("doctor");
  CHECK(doctor.code == 0);
  CHECK(has(doctor.out, "ok    backends: "));
  CHECK(has(doctor.out, "polyconv-bench compare --noise RUN1 RUN2"));
  CHECK(has(doctor.out, " to look at\n"));
  // A driver's program that says what one in its place would.
  const std::string folder = environment("POLYCONV_BINARY_DIR") + "/tests/doctor";
  std::filesystem::create_directories(folder);
  const std::string smi = folder + "/nvidia-smi";
  std::ofstream(smi) << "#!/bin/sh\necho '0, 0x0000000000000001, 0'; echo '1, 0x0000000000000044, 97'\n";
  std::filesystem::permissions(smi, std::filesystem::perms::owner_all);
  const Outcome gpus = bench("doctor", "PATH=\"" + folder + ":$PATH\"");
  CHECK(has(gpus.out, "ok    GPU 0 is idle and nothing holds its clock down"));
  CHECK(has(gpus.out, "look  GPU 1: its clock is held down by the limit of power"));
  CHECK(has(gpus.out, "look  GPU 1: its clock is held down by heat or by the hardware"));
  CHECK(has(gpus.out, "look  GPU 1 is busy 97 % of the time"));
  const Outcome without = bench("doctor", "POLYCONV_BACKEND_PATH=/nowhere POLYCONV_BACKEND_SKIP=onednn");
  CHECK(without.code == 0);
}
