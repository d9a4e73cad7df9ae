// bench_cli_chain.cpp - chains on the command line, beside a backend that fuses two 1x1 convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "bench_files.hpp"
#include "bench_process.hpp"

namespace {

const char *const kLayers = "fwd:n1,c3,k4,i9x8,f1x1:relu\nfwd:n1,c4,k3,i9x8,f1x1:bias\n";
const char *const kToken = "'fwd:n1,c3,k4,i9x8,f1x1:relu > fwd:n1,c4,k3,i9x8,f1x1:bias'";
const char *const kPair = "fake-fuses-two/pointwise_pair@pixel";

// With the backend that fuses.
Outcome fusing(const std::string &arguments) {
  const std::string folder = environment("POLYCONV_BINARY_DIR") + "/tests/fake_backends/fuses_two";
  return bench(arguments, "POLYCONV_BACKEND_PATH='" + folder + "'");
}

} // namespace

TEST_CASE("a chain fused, as its layers one by one, and beside the best of those") {
  const TemporaryFile chain(kLayers, ".chain");
  const Outcome outcome = fusing("run --chain " + chain.path() +
                                 " --grouping 2,none --baseline unfused --baseline-budget 0.05" + std::string(kQuick));
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const std::vector<Json> rows = lines_of(outcome.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("kernel") == kPair);
  CHECK(rows[0].at("grouping") == "2");
  CHECK(rows[0].at("check") == "good");
  CHECK(rows[1].at("grouping") == "none");
  for (const Json &row : rows) {
    CHECK(row.at("baseline") == "unfused");
    CHECK(has(row.at("baseline_kernel"), " + "));
    CHECK(row.at("ratio").get<double>() > 0);
  }
  const Outcome table = fusing("run --chain " + chain.path() + " --grouping 2,none --min-time 0 --cache warm-only");
  for (const char *words : {"grouping", "none", kPair}) CHECK_MESSAGE(has(table.out, words), std::string(words));
  CHECK_FALSE(has(table.out, "fwd:")); // its name says it
}

TEST_CASE("chains as tokens, several files, and checks of them") {
  const TemporaryFile first(kLayers, ".chain"), second(kLayers, ".chain");
  const Outcome check = fusing("check " + std::string(kToken) + " --kernel " + kPair + " -o jsonl");
  REQUIRE(check.code == 0);
  CHECK(lines_of(check.out).at(0).at("kernel") == kPair);
  CHECK(lines_of(check.out).at(0).at("check") == "good");
  const Outcome several = fusing("run --chain " + first.path() + ',' + second.path() + ",lenet28 --batch 1" + kQuick);
  CHECK(several.code == 0);
  CHECK(lines_of(several.out).size() == 2); // the same layers are one problem
  const Outcome explained = fusing("explain " + std::string(kToken) + " --grouping 2");
  CHECK(explained.code == 0);
  CHECK(has(explained.out, kPair));
  const Outcome json = fusing("explain " + std::string(kToken) + " --tune 0.05 -o json");
  const Json best = Json::parse(json.out).at("candidates").at(0);
  CHECK(best.at("measured") == true);
  CHECK(best.at("chosen") == true);
  CHECK(best.contains("saved_bytes"));
  CHECK(has(fusing("explain " + std::string(kToken)).out, "\ngroupings\n"));
}

TEST_CASE("sweeps over groupings, sizes and channels as tables, and as pictures") {
  const TemporaryFile chain(kLayers, ".chain"), results("", ".jsonl"), picture("", ".svg");
  const Outcome run =
      fusing("run --chain " + chain.path() +
             " --grouping none,2 --set i=5,9,20 --set k=4,8 --min-time 0 --cache warm-only --out " + results.path());
  REQUIRE(run.code == 0);
  CHECK(lines_of(contents(results.path())).size() == 12);
  const Outcome plot = bench("plot " + results.path() + " --x i --by grouping --title 'a<b' --out " + picture.path());
  INFO(plot.err);
  REQUIRE(plot.code == 0);
  const std::string svg = contents(picture.path());
  for (const char *words :
       {"a&lt;b", "median_us over i", ">20</text>", ">none</text>", ">grouping = 2</text>", "</svg>"})
    CHECK_MESSAGE(has(svg, words), std::string(words));
  CHECK(has(bench("plot " + results.path() + " --x config").out, ">pixel</text>"));
  CHECK(has(bench("plot " + results.path() + " --x 1.c --y estimate_us").out, ">8</text>"));
  const Outcome nothing = bench("plot " + results.path() + " --x i --y ratio");
  CHECK(nothing.code == 2);
  CHECK(has(nothing.err, "no good row has both i and a number ratio"));
  CHECK(bench("plot no/such.jsonl --x i").code == 2);
  CHECK(bench("plot " + results.path()).code == 2);
}

TEST_CASE("rows as points under their roofline") {
  // Two rows of a machine of 4000 GB/s and 50,000 GFLOP/s (16,000 in the other type): one bound by memory, two not.
  const auto row = [](const char *type, double gflop, double bytes, double us, double roof) {
    return Json{{"problem", "fwd:c<4"}, {"type", type},
                {"kernel", "a/b@c"},    {"status", "good"},
                {"gflop", gflop},       {"bytes", bytes},
                {"median_us", us},      {"roofline_pct", gflop * 1e6 / us / roof * 100}}
               .dump() +
           "\n";
  };
  const std::string good =
      row("f32", 1, 1e9, 500, 4000) + row("f32", 100, 1e9, 4000, 50000) + row("f64", 100, 1e9, 12500, 16000);
  const TemporaryFile results(good + row("f16", 0, 1e9, 500, 4000), ".jsonl"), picture("", ".svg"),
      roofless("{\"problem\":\"p\",\"status\":\"good\",\"median_us\":1,\"gflop\":1,\"bytes\":1}\n", ".jsonl");
  const Outcome plot = bench("plot " + results.path() + " --roofline --by type --title roof --out " + picture.path());
  INFO(plot.err);
  REQUIRE(plot.code == 0);
  const std::string svg = contents(picture.path());
  for (const char *words : {"GFLOP/s over operations a byte", ">f32, 2 rows</text>", ">f64, 1 row</text>",
                            "fwd:c&lt;4 f32, a/b: 500 us, 50 % of the roof", "4000 us, 50 % of the roof"})
    CHECK_MESSAGE(has(svg, words), std::string(words));
  CHECK(!has(svg, "f16")); // no work, no point
  const Outcome none = bench("plot " + roofless.path() + " --roofline");
  CHECK(none.code == 2);
  CHECK(has(none.err, "no good row has a roof"));
  CHECK(has(bench("plot " + results.path()).err, "plot wants --x FIELD, or --roofline"));
  CHECK(bench("plot " + results.path() + " --roofline --x i").code == 2);
}

TEST_CASE("what does not go with a chain is said") {
  const auto refused = [](const std::string &options, int code, const std::string &words) {
    const Outcome outcome = fusing("run " + std::string(kToken) + " " + options + " --min-time 0 --cache warm-only");
    INFO(options << ": " << outcome.out << outcome.err);
    CHECK(outcome.code == code);
    CHECK(has(outcome.out + outcome.err, words));
  };
  refused("--grouping 3+1", 2, "options.grouping is '3+1', 4 layers in all, expected 2");
  refused("--grouping two", 2, "options.grouping is 'two'");
  refused("--grouping 2 --kernel 'reference/*'", 4, "layers 0 to 1 as one: reference/convolve");
  refused("--shared-memory much", 2, "--shared-memory");
  refused("--tune -1", 2, "--tune");
  refused("--chain nosuch", 2, "there are image-f32");
}

TEST_CASE("bars about chains") {
  const std::string header = "problem,type,math,kernel,baseline,least_ratio,baseline_max_us\n";
  const TemporaryFile bars(header + "\"fwd:n1,c3,k4,i9x8,f1x1:relu > fwd:n1,c4,k3,i9x8,f1x1:bias\",f32,strict," +
                           kPair + ",unfused,0.000001,\n");
  const Outcome held = fusing("run --expect " + bars.path() + " --min-time 0 --cache warm-only --baseline-budget 0.05");
  INFO(held.out << held.err);
  CHECK(held.code == 0);
  CHECK(has(held.err, "1 of 1 expectations held"));
  const TemporaryFile named(header + "chain:lenet28@1,f32,strict,openmp/*,unfused,1000000,\n");
  const Outcome broken =
      fusing("run --expect " + named.path() + " --min-time 0 --cache warm-only --baseline-budget 0.05");
  CHECK(broken.code == 5);
  CHECK(has(broken.err, "below 1000000"));
}
