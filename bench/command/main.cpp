// main.cpp - polyconv-bench: one binary that times, checks and explains every kernel of every backend.
// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <iostream>
#include <new>

#include "api/handles.hpp"
#include "api/notes.hpp"
#include "command/commands.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"
#include "trial/load.hpp"

int main(int argc, char **argv) {
  using namespace polyconv::bench;
  try {
    set_program(argv[0]);
    Arguments arguments;
    const int done = parse_arguments(argc, argv, arguments);
    if (done >= 0) return done;
    keep_notes();
    if (arguments.command == "compare") return compare_command(arguments);
    if (arguments.command == "import") return import_command(arguments);
    if (arguments.command == "watch") return watch_command(arguments);
    if (arguments.command == "report") return report_command(arguments);
    if (arguments.command == "plot") return plot_command(arguments);
    if (arguments.command == "info") try_loading(parse_seconds(arguments.patience, "--patience"));
    load_backends();
    if (arguments.command == "run") return run_command(arguments);
    if (arguments.command == "replay") return replay_command(arguments);
    if (arguments.command == "tune") return tune_command(arguments);
    if (arguments.command == "check") return check_command(arguments);
    if (arguments.command == "explain") return explain_command(arguments);
    return info_command(arguments);
  } catch (const Error &error) {
    std::cerr << "polyconv-bench: " << error.what() << "\n";
    return error.exit_code();
  } catch (const Unable &unable) {
    std::cerr << "polyconv-bench: " << unable.status() << ": " << unable.what() << "\n";
    return kWrong;
  } catch (const std::bad_alloc &) {
    std::cerr << "polyconv-bench: out of host memory\n";
    return kWrong;
  } catch (const std::exception &error) {
    std::cerr << "polyconv-bench: " << error.what() << "\n";
    return kWrong;
  }
}
