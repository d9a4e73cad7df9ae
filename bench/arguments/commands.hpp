// commands.hpp - what every command takes, for the option parser.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace CLI {
class App;
}

namespace polyconv::bench {

struct Arguments;

// Adds all commands, in the order of --help; what is typed goes to `arguments`.
void add_commands(CLI::App &app, Arguments &arguments);

} // namespace polyconv::bench
