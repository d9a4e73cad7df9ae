// arguments.hpp - the command line as it was typed: words and switches, not yet understood. Filled by cli.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace polyconv::bench {

struct Arguments {
  std::string command; // "run"

  // What and where: run, check, explain, tune.
  std::vector<std::string> problems;
  std::string suites, chain, networks, devices = "cpu", backends, kernels; // networks: run, tune
  std::string dtypes, layouts, directions, batches, maths = "strict", threads, determinism = "run", workspace_limit;
  std::string groupings, shared_memory, tune = "0";
  std::vector<std::string> sets;

  // How: run.
  bool all_configs = false, ladder = false, graph = false, profile = false, transfers = false, end_to_end = false;
  std::string baselines, expect, beside = "0", cache = "warm", min_time = "0.1", verify = "auto", baseline_budget = "4";

  std::string trace; // a file
  bool nvtx = false;

  // How: tune.
  std::string budget = "0", database;
  std::vector<std::string> merges;

  // Output.
  std::string output, out_file, progress = "auto";

  // plot.
  std::vector<std::string> result_files;
  std::string plot_x, plot_y = "median_us", plot_by = "kernel", plot_title;
  bool roofline = false;

  // import, replay.
  std::vector<std::string> sizes;
  bool choose = false;

  std::string shell; // completion

  // report.
  std::string against, pictures, title;

  // info, compare.
  bool ceilings = false, noise = false;
  std::string patience = "10";
  std::string fail_slower = "5%", spread, rows = "20"; // watch too
};

// Reads the command line. Returns an exit code when there is nothing more to do: after --help and --version (text on
// stdout), or after an error (a sentence on stderr); -1 to go on.
int parse_arguments(int argc, char **argv, Arguments &arguments);

} // namespace polyconv::bench
