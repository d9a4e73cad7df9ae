// main.cpp - polyconv-bench: one binary that times, checks and explains every kernel of every backend.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <iostream>
#include <new>

#include "api/handles.hpp"
#include "api/notes.hpp"
#include "arguments/table.hpp"
#include "command/commands.hpp"
#include "system/machine.hpp"
#include "system/terminal.hpp"
#include "text/text.hpp"
#include "text/tone.hpp"
#include "trial/load.hpp"

namespace {

using namespace polyconv::bench;

int run_program(int argc, char **argv) {
  set_program(argv[0]);
  if (argc > 1 && std::string(argv[1]) == "complete") { // what a shell asks, with words that are no options of ours
    for (const std::string &word : completions({argv + 2, argv + argc})) std::cout << word << "\n";
    return kGood;
  }
  Arguments arguments;
  const int done = parse_arguments(argc, argv, arguments);
  if (done >= 0) return done;
  if (arguments.command == "completion") return std::cout << completion_script(arguments.shell), kGood;
  if (arguments.command == "man") return std::cout << manual_page(), kGood;
  keep_notes();
  if (arguments.command == "compare") return compare_command(arguments);
  if (arguments.command == "import") return import_command(arguments);
  if (arguments.command == "watch") return watch_command(arguments);
  if (arguments.command == "report") return report_command(arguments);
  if (arguments.command == "plot") return plot_command(arguments);
  if (arguments.command == "info" || arguments.command == "doctor")
    try_loading(parse_seconds(arguments.patience, "--patience"));
  load_backends();
  if (arguments.command == "run") return run_command(arguments);
  if (arguments.command == "replay") return replay_command(arguments);
  if (arguments.command == "tune") return tune_command(arguments);
  if (arguments.command == "check") return check_command(arguments);
  if (arguments.command == "explain") return explain_command(arguments);
  if (arguments.command == "doctor") return doctor_command();
  return info_command(arguments);
}

int fail(int code, const std::string &sentence) {
  std::cerr << toned("polyconv-bench:", stderr_takes_colours() ? Tone::kBad : Tone::kPlain) << " " << sentence << "\n";
  return code;
}

} // namespace

int main(int argc, char **argv) {
  try {
    const int code = run_program(argc, argv);
    std::cout.flush();
    if (code == kGood && !std::cout) throw Error(kUsage, "the output could not be written");
    return code;
  } catch (const Error &error) {
    return fail(error.exit_code(), error.what());
  } catch (const Unable &unable) {
    return fail(kWrong, unable.status() + ": " + unable.what());
  } catch (const std::bad_alloc &) {
    return fail(kWrong, "out of host memory");
  } catch (const std::exception &error) {
    return fail(kWrong, error.what());
  }
}
