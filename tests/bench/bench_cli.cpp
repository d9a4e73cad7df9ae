// bench_cli.cpp - the command line of polyconv-bench: wrong usage, help, output formats; info, check and explain.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "bench_process.hpp"
#include "skip.hpp"

TEST_CASE("wrong usage is exit 2 with one sentence, and nothing on stdout") {
  const TemporaryFile no_json("not json\n", ".jsonl");
  const std::vector<std::pair<std::string, const char *>> cases = {
      {"", "expected a command"},
      {"--bogus", "expected a command"},
      {"juggle", "expected a command"},
      {"rnu fwd:i8x8", "did you mean 'run'?"},
      {"run --bakend openmp fwd:i8x8", "run has no option --bakend; did you mean '--backend'?"},
      {"check fwd:i8x8 --detreminism=run", "did you mean '--determinism'?"},
      {"run tiny", "'tiny' is no problem token; expected --suite tiny"},
      {"run lenet28", "expected --chain lenet28"},
      {"run --suite resnet5", "did you mean 'resnet50'?"},
      {"run --chain lenet8", "did you mean 'lenet28'?"},
      {"run --expect cpu-foundatoin", "did you mean 'cpu-foundation'?"},
      {"run fwd:i8x8 --baseline nothing", "'nothing' is none of fma, copy"},
      {"run fwd:i8x8 --baseline refrence", "did you mean 'reference'?"},
      {"run fwd:i8x8 --baseline refrence/convolve", "did you mean 'reference'?"},
      {"run fwd:i8x8 --out s.xml", "'s.xml' ends in .xml; expected .jsonl, .csv, .md or .txt"},
      {"explain fwd:i8x8 --out x.jsonl", "did you mean '.json'?"},
      {"run fwd:i8x8 --dtype nhwc", "'nhwc' is none of f64, f32"},
      {"run fwd:i8x8 --dtype fp16", "did you mean 'f16'?"},
      {"run fwd:i8x8 --layout f16", "'f16' is none of nchw"},
      {"run fwd:i8x8 --math fsat", "did you mean 'fast'?"},
      {"run fwf:i8x8", "did you mean 'fwd'?"},
      {"run fwd:i8x8:nhcw", "did you mean 'nchw'?"},
      {"run fwd:i8x8:rleu", "did you mean 'relu'?"},
      {"run fwd:i8x8:bias+rleu", "did you mean 'relu'?"},
      {"run fwd:i8x8:pad=relfect", "pad=zero"},
      {"run", "no problem"},
      {"run --bogus fwd:i8x8", "--bogus"},
      {"run fwd:i8x8 --bogus", "--bogus"},
      {"run fwd:n1", "input size"},
      {"run fwd:i8x8,f9x9", "kernel_size"},
      {"run fwd:i8x8 -o xml", "xml"},
      {"run fwd:i8x8 --device 'g?'", "g?"},
      {"run fwd:i8x8 --math quick", "quick"},
      {"run fwd:i8x8 --dtype f99", "f99"},
      {"run fwd:i8x8 --layout hwcn", "hwcn"},
      {"run fwd:i8x8 --batch 1:2", "1:2"},
      {"run fwd:i8x8 --batch -1", "-1"},
      {"run fwd:i8x8 --set c", "field=values"},
      {"run fwd:i8x8 --threads 0,2000", "1024"},
      {"run fwd:i8x8 --determinism 4", "determinism"},
      {"run fwd:i8x8 --workspace-limit much", "much"},
      {"run fwd:i8x8 --min-time -1", "--min-time"},
      {"run fwd:i8x8 --cache tepid", "tepid"},
      {"run fwd:i8x8 --verify perhaps", "perhaps"},
      {"run fwd:i8x8 --ladder --backend reference", "--ladder and --kernel or --backend"},
      {"run fwd:i8x8 --ladder --all-configs", "--ladder and --all-configs"},
      {"run fwd:i8x8 --ladder --device abacus", "none for abacus"},
      {"run fwd:i8x8 --graph", "the cpu has no graphs"},
      {"run fwd:i8x8 --profile -o csv", "--profile"},
      {"run --suite nosuch", "there are awkward"},
      {"run --network nosuch", "there are awkward"},
      {"run --network tiny fwd:i8x8", "--network and a PROBLEM do not go together"},
      {"run --network tiny --suite tiny", "--network and --suite"},
      {"run --network tiny --chain x.txt", "x.txt"},
      {"run --network tiny --set c=4", "--network and --set"},
      {"run --network tiny --ladder", "--network and --ladder"},
      {"run --network tiny --kernel reference/* --all-configs", "--network and --all-configs"},
      {"run --network tiny --transfers", "--network and --transfers"},
      {"run --network tiny --end-to-end", "--network and --end-to-end"},
      {"check --network tiny", "--network"},
      {"run --suite no/such.txt", "no/such.txt"},
      {"run --chain no/such.txt", "no/such.txt"},
      {"run --expect no/such.csv", "no/such.csv"},
      {"run fwd:i8x8 --out no/such/folder/x", "no/such/folder/x"},
      {"check", "no problem"},
      {"explain", "no problem"},
      {"compare one", "OLD and NEW"},
      {"compare no/such no/other", "no/such"},
      {"compare " + no_json.path() + " " + no_json.path(), "JSON"},
      {"compare x y --fail-slower much", "much"},
      {"info fwd:i8x8", "fwd:i8x8"}};
  for (const auto &wrong : cases) {
    INFO(wrong.first);
    const Outcome outcome = bench(wrong.first);
    CHECK(outcome.code == 2);
    CHECK(outcome.out.empty());
    CHECK(has(outcome.err, wrong.second));
  }
}

TEST_CASE("help and version are good") {
  CHECK(bench("--help").code == 0);
  CHECK(has(bench("run --help").out, "--baseline"));
  CHECK(has(bench("--version").out, "polyconv-bench "));
}

TEST_CASE("info lists what is there and says why the rest is not") {
  const Outcome text = bench("info");
  CHECK(text.code == 0);
  CHECK(has(text.out, "reference"));
  const Json info = Json::parse(bench("info -o json").out);
  std::set<std::string> available, missing;
  for (const Json &backend : info.at("backends")) {
    (backend.at("available") ? available : missing).insert(backend.at("name"));
    if (!backend.at("available")) CHECK_FALSE(backend.at("reason").get<std::string>().empty());
    if (backend.at("path") == "") CHECK(has(backend.at("reason"), ".so in the search folders"));
  }
  CHECK(available.count("reference") == 1);
  CHECK(available.count("no-such") + missing.count("no-such") == 0);
  CHECK(info.at("devices").at(0).at("name") == "cpu");
}

TEST_CASE("a setting in the environment that means nothing is told on stderr, once, and changes nothing") {
  const std::string run = "run " + std::string(kSmall) + " --backend openmp,tbb --verify never" + kQuick;
  const Outcome isa = bench(run, "POLYCONV_MAX_ISA=avx1024");
  if (isa.code != 0) return polyconv_test::skip("one of the CPU backends is not here");
  const std::string complaint = "POLYCONV_MAX_ISA is 'avx1024'; expected baseline, avx2, avx512, avx512_bf16 or amx";
  const size_t at = isa.err.find(complaint);
  CHECK(at != std::string::npos);
  CHECK(isa.err.find(complaint, at + 1) == std::string::npos);
  CHECK(has(bench("info", "POLYCONV_MAX_ISA=avx1024").out, "ignored: POLYCONV_MAX_ISA is 'avx1024'"));
  CHECK_FALSE(has(bench("info", "POLYCONV_MAX_ISA=avx2").err, "POLYCONV_MAX_ISA"));
}

TEST_CASE("a folder of backends that is not searched is told, and marked in info") {
  const Outcome info = bench("info", "POLYCONV_BACKEND_PATH=plugins:/no/such");
  CHECK(info.code == 0);
  CHECK(has(info.err, "POLYCONV_BACKEND_PATH has 'plugins', expected absolute folders"));
  CHECK(has(info.out, "(plugins is ignored: not absolute, /no/such is no folder that can be read)"));
  CHECK_FALSE(has(bench("info").out, "ignored"));
}

TEST_CASE("a backend that nobody has is told with the one that was meant") {
  const Outcome outcome = bench("run " + std::string(kSmall) + " --backend refrence" + kQuick);
  CHECK(outcome.code == 3);
  CHECK(has(lines_of(outcome.out).at(0).at("reason"), "did you mean 'reference'?"));
}

TEST_CASE("options may stand anywhere") {
  const std::string token = kSmall;
  CHECK(bench("run " + token + " --device cpu --min-time 0 -o jsonl").code == 0);
  CHECK(bench("run --device cpu " + token + " -o jsonl --min-time 0 --cache warm-only").code == 0);
  CHECK(bench("--min-time 0 -o jsonl run " + token).code == 0);
}

TEST_CASE("every output format") {
  const std::string run = "run " + std::string(kSmall) + " --backend reference --min-time 0 --cache warm-only ";
  CHECK(has(bench(run + "-o table").out, "reference/convolve@"));
  CHECK(has(bench(run + "-o markdown").out, "| --- |"));
  const std::string csv = bench(run + "-o csv").out;
  CHECK(csv.rfind("problem,", 0) == 0);
  const TemporaryFile file("", ".jsonl");
  const Outcome written = bench(run + "--out " + file.path());
  CHECK(written.code == 0);
  CHECK(written.out.empty());
  CHECK(lines_of(contents(file.path())).size() == 1);
}

TEST_CASE("check is good on right kernels, and says 4 and 3 for those that are not there") {
  const Outcome good = bench("check " + std::string(kSmall) + " -o jsonl");
  CHECK(good.code == 0);
  CHECK(lines_of(good.out).size() >= 1);
  for (const Json &row : lines_of(good.out)) CHECK(row.at("check") == "good");
  for (const char *kernel : {"reference/pool@plain", "reference/pool"}) { // a name alone is about all configs
    const Outcome refused = bench("check " + std::string(kSmall) + " --kernel " + kernel + " -o jsonl");
    CHECK(refused.code == 4);
    CHECK(lines_of(refused.out).at(0).at("requested") == "reference/pool@plain");
    CHECK_FALSE(lines_of(refused.out).at(0).at("reason").get<std::string>().empty());
  }
  CHECK(bench("check " + std::string(kSmall) + " --backend nosuch").code == 3);
  CHECK(bench("check " + std::string(kSmall) + " --device nosuch").code == 3);
}

TEST_CASE("a kernel that is wrong is exit 1, from check and from run, and is not timed") {
  const std::string folder = environment("POLYCONV_BINARY_DIR") + "/tests/fake_backends/faulty";
  if (!std::filesystem::exists(folder + "/libpolyconv_fake_faulty.so"))
    return polyconv_test::skip("the faulty fake backend is not built");
  const std::string setting = "POLYCONV_BACKEND_PATH='" + folder + "'";
  const std::string which = "fwd:n2,c8,k5,i9x11,f3x3,p1:bias --kernel fake-faulty/dropped_last_tap@only";
  const Outcome checked = bench("check " + which + " -o jsonl", setting);
  CHECK(checked.code == 1);
  CHECK(lines_of(checked.out).at(0).at("status") == "wrong");
  const Outcome ran = bench("run " + which + kQuick, setting);
  CHECK(ran.code == 1);
  CHECK(lines_of(ran.out).at(0).at("status") == "wrong");
  CHECK(lines_of(ran.out).at(0).at("median_us").is_null());
}

TEST_CASE("who asks about one direction does not hear that kernels of others compute others") {
  for (const char *token :
       {"fwd:n1,c64,k64,i14x14,f3x3,p1", "bwd_d:n1,c64,k64,i14x14,f3x3,p1", "bwd_w:n1,c64,k64,i14x14,f3x3,p1"}) {
    const std::string text = bench("explain " + std::string(token)).out;
    INFO(text);
    const size_t rejected = text.find("\nrejected\n");
    REQUIRE(rejected != std::string::npos);
    for (const char *sentence : {"no gradients", "not gradients", "gradient alone", "gradient of weights alone",
                                 "weight gradients", "only pools", "only goes back", "only copies"})
      CHECK(text.find(sentence, rejected) == std::string::npos);
    CHECK(text.find("for other directions, or for other steps of a plan", rejected) != std::string::npos);
    CHECK(has(bench("explain -o json " + std::string(token)).out, "only pools")); // data has every answer
  }
  CHECK(has(bench("explain fwd:i8x8 --kernel reference/pool").out, "only pools")); // somebody asked for it
}

TEST_CASE("explain answers in words or as JSON") {
  CHECK(has(bench("explain " + std::string(kSmall)).out, "reference/"));
  const Json answer = Json::parse(bench("explain -o json " + std::string(kSmall)).out);
  CHECK(answer.at("problem") == kSmall);
  size_t chosen = 0;
  for (const Json &candidate : answer.at("candidates")) chosen += candidate.at("chosen") ? 1 : 0;
  CHECK(chosen == 1);
  CHECK(bench("explain " + std::string(kSmall) + " --kernel reference/pool").code == 4);
  CHECK(bench("explain " + std::string(kSmall) + " --backend nosuch").code == 3);
}
