// commands.cpp - the commands and their options. Besides cli.cpp the only file that includes the option parser, because
// it is slow to compile.
// SPDX-License-Identifier: Apache-2.0
#include "arguments/commands.hpp"

#include <CLI/CLI.hpp>

#include "arguments/arguments.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

void add_selection(CLI::App &command, Arguments &a) {
  command.add_option("problem", a.problems, "Problem tokens, such as fwd:n1,c64,k64,i56x56,f3x3,p1")
      ->type_name("PROBLEM");
  const auto option = [&](const char *name, std::string &value, const char *type, const char *help) {
    command.add_option(name, value, help)->type_name(type)->group("What and where");
  };
  option("--suite", a.suites, "S[,S]", "Suites by name, or paths of .txt or .csv files");
  option("--chain", a.chain, "FILE[,FILE]", "Chains by name, or files whose lines are the layers of one chain");
  option("--batch", a.batches, "LIST", "Batch sizes instead of the problems' own: 1,2,8:32:8");
  command.add_option("--set", a.sets, "Sweep any numeric field of the token: c=16:64:16, c=k=g=32,64, f=3x3,5x5")
      ->type_name("FIELD=LIST")
      ->group("What and where")
      ->expected(1)
      ->allow_extra_args(false) // what follows is a problem
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  option("--dtype", a.dtypes, "T[,T]", "Types instead of the problems' own: f16, u8-f32-u8");
  option("--layout", a.layouts, "L[,L]", "Layouts instead of the problems' own: nchw, nhwc, nchw-nhwc");
  option("--direction", a.directions, "D[,D]", "Directions instead of the problems' own: fwd, bwd_d, bwd_w");
  option("--device", a.devices, "D[,D]", "Devices: cpu, cuda, cuda:1 (default cpu)");
  option("--backend", a.backends, "X[,Y]", "Backends, one row each; the same as --kernel 'X/*'");
  option("--kernel", a.kernels, "GLOB[,GLOB]",
         "Kernels by full name backend/kernel@config, one row a glob; '!GLOB' forbids");
  option("--math", a.maths, "M[,M]", "Math modes: strict, fp32_emulated, tf32, fast (default strict)");
  option("--threads", a.threads, "LIST", "Threads of a CPU plan; 0 for all (default)");
  option("--determinism", a.determinism, "LEVEL", "none, run (default), invariant, identical, or 0 to 3");
  option("--grouping", a.groupings, "G[,G]",
         "Which layers of a chain are one kernel's: none, 2, 3, 2+2 (default: the best)");
  option("--shared-memory", a.shared_memory, "BYTES", "Shared memory that a block may take: 48K, 100K");
  option("--tune", a.tune, "SECONDS",
         "Let the library time its candidates for so long before it chooses (default 0; of tune 5)");
  option("--workspace-limit", a.workspace_limit, "BYTES", "Only kernels whose workspace fits: 0, 64M, 1G");
}

void add_output(CLI::App &command, Arguments &a, const std::vector<std::string> &formats) {
  command.add_option("-o,--output", a.output, "Output: " + join(formats, ", "))
      ->check(CLI::IsMember(formats))
      ->type_name("FORMAT")
      ->group("Output");
  command.add_option("--out", a.out_file, "Write to this file instead of stdout")->type_name("FILE")->group("Output");
}

void add_progress(CLI::App &command, Arguments &a) {
  command
      .add_option("--progress", a.progress,
                  "What goes on, on stderr: auto (default: where it is a terminal), always, never")
      ->type_name("WHEN")
      ->group("Output");
}

// How rows are measured and written: run and replay.
void add_how(CLI::App &command, Arguments &a) {
  const auto option = [&](const char *name, std::string &value, const char *type, const char *help) {
    return command.add_option(name, value, help)->type_name(type)->group("How");
  };
  const auto flag = [&](const char *name, bool &value, const char *help) {
    command.add_flag(name, value, help)->group("How");
  };
  option("--baseline", a.baselines, "NAME[,NAME]",
         "Measure against a backend or kernel glob, interleaved; fma and copy are the machine's own rates");
  option("--baseline-budget", a.baseline_budget, "SECONDS",
         "Time for the baselines cudnn, cudnn-any, onednn and unfused to find their best, each row (default 4)");
  option("--cache", a.cache, "STATE",
         "warm (default; the cold ratio stands beside), warm-only (without it: quicker where the last cache is large) "
         "or cold")
      ->check(CLI::IsMember({"warm", "warm-only", "cold"}));
  option("--beside", a.beside, "N",
         "Measure beside so many busy threads, on processors that others want too (default 0)");
  flag("--graph", a.graph, "Time runs replayed from a graph (rows with a baseline on a GPU always are)");
  flag("--profile", a.profile,
       "Where the time goes: each step of the plan or layer of the network, each call, each copy");
  flag("--transfers", a.transfers, "Also time copies between host and device with the run");
  flag("--end-to-end", a.end_to_end, "Also time polyconv_convolve: plan, pack, copies and run");
  option("--trace", a.trace, "FILE",
         "Write a timeline for chrome://tracing or Perfetto: rows, stages, one event a step and a GPU kernel");
  flag("--nvtx", a.nvtx, "Mark rows and stages as ranges of NVTX, for NVIDIA's profilers");
  option("--min-time", a.min_time, "SECONDS", "Time spent in samples a row, at least (default 0.1)");
  option("--verify", a.verify, "WHEN",
         "Check each row against the reference: auto (default: up to 1 GFLOP), always, never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  add_output(command, a, {"table", "markdown", "csv", "jsonl"});
  add_progress(command, a);
}

void add_run(CLI::App &app, Arguments &a) {
  CLI::App *command = app.add_subcommand("run", "Measure time: a row for each problem on each kernel asked for");
  add_selection(*command, a);
  const auto option = [&](const char *name, std::string &value, const char *type, const char *help) {
    return command->add_option(name, value, help)->type_name(type)->group("How");
  };
  const auto flag = [&](const char *name, bool &value, const char *help) {
    command->add_flag(name, value, help)->group("How");
  };
  option("--network", a.networks, "S[,S]",
         "All layers of a suite as one row: one after the other, on a GPU as one graph");
  flag("--all-configs", a.all_configs, "A row for every config of every kernel that --backend or --kernel names");
  flag("--ladder", a.ladder, "A row for every technique, from the simplest on, with the speed-up over the first");
  add_how(*command, a);
  option("--expect", a.expect, "FILE",
         "Hold the bars of a CSV file (or one that ships, by name); exit 5 where one is not held");
}

void add_info(CLI::App &app, Arguments &a) {
  CLI::App *info = app.add_subcommand("info", "Devices, backends, paths, versions, and why one is missing");
  info->add_flag("--ceilings", a.ceilings, "Measure multiply-add and copy rates and keep them for this machine");
  info->add_option("--patience", a.patience, "How long a backend may take to be loaded (default 10)")
      ->type_name("SECONDS");
  add_output(*info, a, {"text", "json"});
  add_progress(*info, a);
}

void add_check(CLI::App &app, Arguments &a) {
  CLI::App *check = app.add_subcommand("check", "Exact and random checks of every kernel against the reference");
  add_selection(*check, a);
  add_output(*check, a, {"table", "markdown", "csv", "jsonl"});
  add_progress(*check, a);
}

void add_explain(CLI::App &app, Arguments &a) {
  CLI::App *explain = app.add_subcommand("explain", "Which kernel is chosen, why, and why not the others");
  add_selection(*explain, a);
  add_output(*explain, a, {"text", "json"});
  add_progress(*explain, a);
}

void add_tune(CLI::App &app, Arguments &a) {
  CLI::App *tune =
      app.add_subcommand("tune", "Time the candidates of problems once and keep the times: later plans choose by them");
  add_selection(*tune, a);
  tune->add_option("--network", a.networks, "Networks by the suite that has their layers: resnet50")
      ->type_name("S[,S]")
      ->group("What and where");
  tune->add_option("--budget", a.budget, "Time for all problems together, shared evenly (default 0: no limit)")
      ->type_name("SECONDS")
      ->group("How");
  tune->add_option("--merge", a.merges, "Add what other tuning files hold; of two lines the later day's stays")
      ->type_name("FILE ...")
      ->group("How");
  tune->add_option("--database", a.database,
                   "The tuning file to fill instead of the user's, as for a site or a release")
      ->type_name("FILE")
      ->group("How");
  add_progress(*tune, a);
}

void add_plot(CLI::App &app, Arguments &a) {
  CLI::App *plot = app.add_subcommand("plot", "Result files of `run -o jsonl` as a picture (SVG)");
  plot->add_option("results", a.result_files, "Result files")->required()->type_name("RESULT");
  CLI::Option *const x =
      plot->add_option("--x", a.plot_x, "A field, config (the tile), or a letter of the token: i, k, 1.c")
          ->type_name("FIELD");
  CLI::Option *const y =
      plot->add_option("--y", a.plot_y, "A field that is a number (default median_us)")->type_name("FIELD");
  plot->add_flag("--roofline", a.roofline, "Each row as a point under what arithmetic and memory allow")
      ->excludes(x)
      ->excludes(y);
  plot->add_option("--by", a.plot_by, "A line for each value of this field (default kernel)")->type_name("FIELD");
  plot->add_option("--title", a.plot_title, "What stands above")->type_name("TEXT");
  plot->add_option("--out", a.out_file, "Write to this file instead of stdout")->type_name("FILE");
}

void add_completion(CLI::App &app, Arguments &a) {
  CLI::App *completion = app.add_subcommand("completion", "A shell's completion of commands, options and tokens");
  completion->add_option("shell", a.shell, "The shell")
      ->required()
      ->type_name("SHELL")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void add_replay(CLI::App &app, Arguments &a) {
  CLI::App *replay =
      app.add_subcommand("replay", "The plans of a log (POLYCONV_LOG=info), each distinct one measured again");
  replay->add_option("log", a.result_files, "The log")->required()->expected(1)->type_name("LOG");
  replay->add_flag("--choose", a.choose, "Let the library choose again, instead of the kernels that the log names");
  add_how(*replay, a);
}

void add_import(CLI::App &app, Arguments &a) {
  CLI::App *import = app.add_subcommand("import", "Convolutions of ONNX models and of other programs' logs as a suite");
  import
      ->add_option("files", a.result_files,
                   "ONNX models, benchdnn's descriptors, calls of MIOpenDriver, logs of cudnn-frontend or polyconv")
      ->required()
      ->type_name("FILE");
  import->add_option("--size", a.sizes, "A size that a model leaves open: batch=1, or input@0=1 of an input's axis")
      ->type_name("NAME=N")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  import->add_option("--out", a.out_file, "Write to this file instead of stdout")->type_name("FILE")->group("Output");
  add_progress(*import, a);
}

void add_watch(CLI::App &app, Arguments &a) {
  CLI::App *watch =
      app.add_subcommand("watch", "A folder of result files as trends: file by file, and rows that got slower");
  watch->add_option("folder", a.result_files, "The folder; its *.jsonl files are taken by their dates")
      ->required()
      ->expected(1)
      ->type_name("FOLDER");
  watch->add_option("--fail-slower", a.fail_slower, "Show rows that are slower than their best by more (default 5%)")
      ->type_name("PERCENT");
  watch
      ->add_option("--spread", a.spread,
                   "What runs of the same code differ by (default: as compare --noise learnt it, or 0)")
      ->type_name("PERCENT");
  watch->add_option("--rows", a.rows, "So many rows at most (default 20)")->type_name("N");
  add_output(*watch, a, {"table", "markdown"});
}

void add_report(CLI::App &app, Arguments &a) {
  CLI::App *report = app.add_subcommand("report", "Result files of `run -o jsonl` as one page to look at and send on");
  report->add_option("results", a.result_files, "Result files")->required()->type_name("RESULT");
  report->add_option("--against", a.against, "Show what changed since these results; several runs joined by commas")
      ->type_name("RESULT[,RESULT]");
  report->add_option("--title", a.title, "What stands above (default: the machine)")->type_name("TEXT");
  report->add_option("--pictures", a.pictures, "Write each picture into this folder too, as an SVG file")
      ->type_name("FOLDER");
  report->add_option("-o,--out", a.out_file, "Write to this file instead of stdout: .html, or .md for an issue")
      ->type_name("FILE")
      ->group("Output");
  report->add_option("--format", a.output, "html or markdown, whatever the file is called")
      ->check(CLI::IsMember({"html", "markdown"}))
      ->type_name("FORMAT")
      ->group("Output");
}

void add_compare(CLI::App &app, Arguments &a) {
  CLI::App *compare = app.add_subcommand("compare", "Two result files of `run -o jsonl`; exit 5 on a regression");
  compare
      ->add_option("results", a.result_files,
                   "The result file to compare with, and the one that is judged; "
                   "several runs of the same code joined by commas")
      ->required()
      ->type_name("OLD NEW");
  compare->add_flag("--noise", a.noise, "Learn how much runs of the same code differ here, of two or more RESULTs");
  compare
      ->add_option("--spread", a.spread, "What runs of the same code differ by (default: as --noise learnt it, or 0)")
      ->type_name("PERCENT");
  compare->add_option("--fail-slower", a.fail_slower, "A row fails when it is slower by more than this (default 5%)")
      ->type_name("PERCENT");
  add_output(*compare, a, {"table", "markdown"});
}

} // namespace

void add_commands(CLI::App &app, Arguments &a) {
  add_run(app, a);
  add_info(app, a);
  add_check(app, a);
  add_explain(app, a);
  add_tune(app, a);
  add_plot(app, a);
  app.add_subcommand("doctor", "What is missing or in the way on this machine, and what mends it");
  add_completion(app, a);
  app.add_subcommand("man", "The manual page: polyconv-bench man | man -l -");
  add_replay(app, a);
  add_import(app, a);
  add_watch(app, a);
  add_report(app, a);
  add_compare(app, a);
}

} // namespace polyconv::bench
