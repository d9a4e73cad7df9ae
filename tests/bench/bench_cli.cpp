// bench_cli.cpp - polyconv-bench as a person uses it: exit codes, output, and what it says when it is used wrongly.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "bench_files.hpp"
#include "skip.hpp"

using Json = nlohmann::json;

namespace {

struct Outcome {
  int code;
  std::string out, err;
};

std::string contents(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

// Runs the binary with its own cache folder; `setting` is put before it, as VARIABLE=value.
Outcome bench(const std::string &arguments, const std::string &setting = "") {
  const std::string binary = environment("POLYCONV_BENCH");
  REQUIRE_MESSAGE(!binary.empty(), "POLYCONV_BENCH must hold the path of polyconv-bench");
  const TemporaryFile out("", ".out"), err("", ".err");
  const std::string cache = environment("POLYCONV_BINARY_DIR") + "/tests/bench_cache";
  const std::string command = setting + " XDG_CACHE_HOME='" + cache + "' '" + binary + "' " + arguments + " >'" +
                              out.path() + "' 2>'" + err.path() + "'";
  const int status = std::system(command.c_str());
  return {status > 255 ? status / 256 : status, contents(out.path()), contents(err.path())};
}

std::vector<Json> lines_of(const std::string &text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
  return lines;
}

bool has(const std::string &text, const std::string &words) {
  return text.find(words) != std::string::npos;
}

const char *const kQuick = " --min-time 0 -o jsonl ";
const char *const kSmall = "fwd:n1,c3,k4,i9x9,f3x3,p1";

} // namespace

TEST_CASE("wrong usage is exit 2 with one sentence, and nothing on stdout") {
  const TemporaryFile no_json("not json\n", ".jsonl");
  const std::vector<std::pair<std::string, const char *>> cases = {
      {"", "expected a command"},
      {"--bogus", "expected a command"},
      {"juggle", "expected a command"},
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
      {"compare one", "new"},
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

TEST_CASE("options may stand anywhere") {
  const std::string token = kSmall;
  CHECK(bench("run " + token + " --device cpu --min-time 0 -o jsonl").code == 0);
  CHECK(bench("run --device cpu " + token + " -o jsonl --min-time 0").code == 0);
  CHECK(bench("--min-time 0 -o jsonl run " + token).code == 0);
}

TEST_CASE("a record has every field, and numbers where there are some") {
  const Outcome outcome = bench("run " + std::string(kSmall) + kQuick);
  REQUIRE(outcome.code == 0);
  const std::vector<Json> lines = lines_of(outcome.out);
  REQUIRE(lines.size() == 1);
  const Json &record = lines[0];
  for (const char *field :
       {"problem",         "device",          "backend",     "kernel",     "status",  "reason",  "median_us",
        "p95_us",          "min_us",          "first_us",    "plan_us",    "pack_us", "gflops",  "gbps",
        "roofline_pct",    "workspace_bytes", "max_abs_err", "rel_l2_err", "check",   "threads", "math",
        "library_version", "backend_version", "device_name", "driver",     "date"})
    CHECK_MESSAGE(record.contains(field), std::string(field));
  for (const char *field : {"median_us", "p95_us", "min_us", "first_us", "plan_us", "gflops", "gbps", "cold_us"}) {
    INFO(std::string(field));
    REQUIRE(record.at(field).is_number());
    CHECK(record.at(field).get<double>() > 0);
  }
  CHECK(record.at("min_us") <= record.at("median_us"));
  CHECK(record.at("median_us") <= record.at("p95_us"));
  CHECK(record.at("samples") >= 9);
  CHECK(record.at("problem") == "fwd:n1,c3,k4,i9x9,f3x3,p1");
  CHECK(record.at("status") == "good");
  CHECK(record.at("check") == "good");
  CHECK(record.at("gflop").get<double>() == doctest::Approx(2e-9 * 81 * 4 * 3 * 9));
  CHECK(record.at("bytes").get<double>() == doctest::Approx(4.0 * (3 * 81 + 4 * 81 + 4 * 3 * 9)));
}

TEST_CASE("no row is ever missing: what cannot run says why") {
  const Outcome missing = bench("run " + std::string(kSmall) + kQuick + "--backend reference,nosuch");
  CHECK(missing.code == 3);
  const std::vector<Json> rows = lines_of(missing.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("status") == "good");
  CHECK(rows[1].at("status") == "unavailable");
  CHECK(has(rows[1].at("reason"), "no libpolyconv_nosuch.so"));
  CHECK(rows[1].at("median_us").is_null());

  const Outcome unsupported = bench("run " + std::string(kSmall) + kQuick + "--kernel reference/pool");
  CHECK(unsupported.code == 4);
  CHECK(lines_of(unsupported.out).at(0).at("status") == "unsupported");

  const Outcome device = bench("run " + std::string(kSmall) + kQuick + "--device nosuch,cpu");
  CHECK(device.code == 3);
  CHECK(lines_of(device.out).at(0).at("status") == "unavailable");
  CHECK(lines_of(device.out).at(1).at("status") == "good");

  const Outcome large = bench("run fwd:n100000,i8192x8192,f3x3" + std::string(kQuick));
  CHECK(large.code == 0);
  CHECK(lines_of(large.out).at(0).at("status") == "skipped");
  CHECK(has(lines_of(large.out).at(0).at("reason"), "TiB"));

  const Outcome invalid = bench("run fwd:c4,k4,g2,i9x9 --set c=4,5" + std::string(kQuick));
  CHECK(invalid.code == 2);
  CHECK(lines_of(invalid.out).size() == 2);
  CHECK(lines_of(invalid.out).at(1).at("status") == "invalid argument");
}

TEST_CASE("sweeps make a row each, and so do backends, threads and configs") {
  const std::string quick = kQuick;
  CHECK(lines_of(bench("run fwd:c4,k4,i9x9,f3x3 --set c=4:8:2 --batch 1,2 --verify never" + quick).out).size() == 6);
  CHECK(lines_of(bench("run --set c=4:8:2 fwd:c4,k4,i9x9,f3x3 --set k=4,8" + quick).out).size() == 6);
  CHECK(lines_of(bench("run fwd:c4,k4,i9x9,f3x3 --threads 1,2 --math strict,fast" + quick).out).size() == 4);
  const Outcome configs = bench("run fwd:c4,k4,i9x9,f3x3 --kernel 'reference/*' --all-configs" + quick);
  CHECK(configs.code == 0); // somebody took it
  const std::vector<Json> rows = lines_of(configs.out);
  CHECK(rows.size() >= 2);
  size_t good = 0;
  for (const Json &row : rows) good += row.at("status") == "good" ? 1 : 0;
  CHECK(good == 1);
}

TEST_CASE("a ladder has a row for every technique in order, with the speed-up over the first or the reason") {
  const Outcome cpu = bench("run fwd:n1,c4,k4,i9x9,f3x3 --ladder" + std::string(kQuick));
  CHECK(cpu.code == 0); // the reference takes it
  const std::vector<Json> rungs = lines_of(cpu.out);
  REQUIRE(rungs.size() == 5);
  CHECK(rungs[0].at("technique") == "reference");
  CHECK(rungs[0].at("speedup") == 1.0);
  CHECK(rungs[1].at("technique") == "direct");
  CHECK(rungs[4].at("technique") == "GEMM");
  for (const Json &rung : rungs) {
    CHECK(rung.at("speedup").is_number() == (rung.at("status") == "good"));
    CHECK(rung.at("reason").get<std::string>().empty() == (rung.at("status") == "good"));
  }
  const Outcome cuda = bench("run fwd:n1,c4,k4,i9x9,f3x3 --ladder --device cuda" + std::string(kQuick));
  const std::vector<Json> techniques = lines_of(cuda.out);
  REQUIRE(techniques.size() == 8); // with a GPU or without
  CHECK(techniques[0].at("technique") == "direct");
  CHECK(techniques[6].at("technique") == "implicit GEMM");
  for (const Json &row : techniques) CHECK(row.at("reason").get<std::string>().empty() == (row.at("status") == "good"));
}

TEST_CASE("a profile stands below the table, and in each line of JSON") {
  const std::string run = "run " + std::string(kSmall) + " --profile --min-time 0 ";
  const Outcome table = bench(run);
  CHECK(table.code == 0);
  CHECK(has(table.out, "polyconv_plan_create"));
  CHECK(has(table.out, "step"));
  CHECK(has(bench(run + "-o markdown").out, "| call | polyconv_run |"));
  const Json record = lines_of(bench(run + "-o jsonl").out).at(0);
  REQUIRE(record.at("profile").size() >= 3);
  CHECK(record.at("profile").at(0).at("name") == "polyconv_plan_create");
  CHECK(record.at("profile").at(0).at("host_us").get<double>() > 0);
  CHECK_FALSE(lines_of(bench("run " + std::string(kSmall) + kQuick).out).at(0).contains("profile"));
}

TEST_CASE("every output format") {
  const std::string run = "run " + std::string(kSmall) + " --backend reference --min-time 0 ";
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

TEST_CASE("extra times, cold caches and chains") {
  const TemporaryFile chain("fwd:c3,k4,i9x9,f3x3,p1:relu\nfwd:c4,k3,i9x9,f3x3,p1:bias+residual=input\n", ".txt");
  const Outcome outcome =
      bench("run --chain " + chain.path() + " --cache cold --transfers --end-to-end" + std::string(kQuick));
  REQUIRE(outcome.code == 0);
  const Json record = lines_of(outcome.out).at(0);
  CHECK(record.at("cache") == "cold");
  CHECK(record.at("cold_ratio").is_null());
  CHECK(record.at("transfers_us").get<double>() > 0);
  CHECK(record.at("end_to_end_us").get<double>() > 0);
  CHECK(record.at("check") == "good");
}

TEST_CASE("a baseline is measured in the same row, and one that is missing says so") {
  const Json row = lines_of(bench("run " + std::string(kSmall) + kQuick + "--baseline reference").out).at(0);
  CHECK(row.at("baseline_kernel").get<std::string>().rfind("reference/", 0) == 0);
  CHECK(row.at("baseline_math") == "strict");
  CHECK(row.at("ratio").get<double>() > 0);
  const Json without = lines_of(bench("run " + std::string(kSmall) + kQuick + "--baseline nosuch").out).at(0);
  CHECK(without.at("status") == "good");
  CHECK(has(without.at("baseline_reason"), "no libpolyconv_nosuch.so"));
  CHECK(without.at("ratio").is_null());
}

TEST_CASE("expectations: held is 0, each broken one is 5 and named") {
  const std::string header = "problem,type,math,kernel,baseline,least_ratio,baseline_max_us\n";
  const auto judged = [&](const std::string &row, const std::string &arguments = "") {
    const TemporaryFile file(header + row);
    return bench("run --expect " + file.path() + " " + arguments + kQuick);
  };
  const Outcome held = judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,reference,0.0001,\n");
  CHECK(held.code == 0);
  CHECK(has(held.err, "1 of 1 expectations held"));
  CHECK(judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,fma,0.0000001,\n").code == 0);
  const Outcome copy = judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,copy,1000000,\n");
  CHECK(copy.code == 5);
  CHECK(has(copy.err, "below 1000000"));
  const Outcome other =
      judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,nobody/*,reference,0.0001,\n", "fwd:c3,k4,i9x9,f3x3");
  CHECK(other.code == 5);
  CHECK(has(other.err, "ran, not nobody/*"));
  const Outcome missing = judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,nosuch,0.0001,\n");
  CHECK(missing.code == 5);
  CHECK(has(missing.err, "baseline nosuch is missing"));
  const Outcome slow = judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,reference,0.0001,0.000001\n");
  CHECK(slow.code == 5);
  CHECK(has(slow.err, "not at its best"));
  const Outcome nothing = judged("\"fwd:c3,k4,i9x9,f3x3\",f32,strict,*,reference,0.0001,\n", "fwd:i8x8");
  CHECK(nothing.code == 5);
  CHECK(has(nothing.err, "matches no row"));
}

TEST_CASE("check is good on right kernels, and says 4 and 3 for those that are not there") {
  const Outcome good = bench("check " + std::string(kSmall) + " -o jsonl");
  CHECK(good.code == 0);
  CHECK(lines_of(good.out).size() >= 1);
  for (const Json &row : lines_of(good.out)) CHECK(row.at("check") == "good");
  const Outcome refused = bench("check " + std::string(kSmall) + " --kernel reference/pool@plain -o jsonl");
  CHECK(refused.code == 4);
  CHECK_FALSE(lines_of(refused.out).at(0).at("reason").get<std::string>().empty());
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

TEST_CASE("a device with its own memory is timed by its events, and its copies count") {
  const std::string folder = environment("POLYCONV_BINARY_DIR") + "/tests/fake_backends/device";
  if (!std::filesystem::exists(folder + "/libpolyconv_fake_device.so"))
    return polyconv_test::skip("the fake device is not built");
  const Outcome outcome =
      bench("run fwd:n1,c3,k4,i9x9,f3x3 --device fake --all-configs --transfers --end-to-end" + std::string(kQuick),
            "POLYCONV_BACKEND_PATH='" + folder + "'");
  CHECK(outcome.code == 0);
  const std::vector<Json> rows = lines_of(outcome.out);
  CHECK(rows.size() == 4); // raw weights, packed weights, packed on the host, bound
  for (const Json &row : rows) {
    CHECK(row.at("status") == "good");
    CHECK(row.at("clock") == "events");
    CHECK(row.at("wall_us").get<double>() > 0);
    CHECK(row.at("transfers_us").get<double>() > 0);
    CHECK(row.at("end_to_end_us").get<double>() > 0);
  }
}

TEST_CASE("devices stand in one table, the later ones with their speed-up over the first") {
  const std::string folder = environment("POLYCONV_BINARY_DIR") + "/tests/fake_backends/device";
  if (!std::filesystem::exists(folder + "/libpolyconv_fake_device.so"))
    return polyconv_test::skip("the fake device is not built");
  const Outcome outcome = bench("run fwd:n1,c3,k4,i9x9,f3x3 --device cpu,fake --transfers" + std::string(kQuick),
                                "POLYCONV_BACKEND_PATH='" + folder + "'");
  CHECK(outcome.code == 0);
  const std::vector<Json> rows = lines_of(outcome.out);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("clock") == "wall");
  CHECK(rows[1].at("clock") == "events");
  for (const char *speedup : {"speedup", "transfers_speedup"}) {
    CHECK(rows[0].at(speedup) == 1.0);
    CHECK(rows[1].at(speedup).get<double>() > 0);
  }
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

TEST_CASE("compare: equal is 0; slower, missing and no longer good are 5") {
  const auto row = [](const char *problem, double us, const char *status = "good") {
    return Json({{"problem", problem},
                 {"device", "cpu"},
                 {"status", status},
                 {"reason", "because"},
                 {"median_us", us},
                 {"kernel", "a/b@c"},
                 {"device_name", "x"}})
               .dump() +
           "\n";
  };
  const auto compared = [&](const std::string &before, const std::string &after, const std::string &options = "") {
    const TemporaryFile old_file(before, ".jsonl"), new_file(after, ".jsonl");
    return bench("compare " + old_file.path() + " " + new_file.path() + " " + options);
  };
  CHECK(compared(row("p", 100), row("p", 100)).code == 0);
  CHECK(compared(row("p", 100), row("p", 104)).code == 0);
  CHECK(compared(row("p", 100), row("p", 106)).code == 5);
  CHECK(compared(row("p", 100), row("p", 106), "--fail-slower 10%").code == 0);
  CHECK(compared(row("p", 100), row("q", 100)).code == 5);
  CHECK(compared(row("p", 100), row("p", 100, "wrong")).code == 5);
  CHECK(compared(row("p", 100, "unsupported"), row("q", 100)).code == 0);  // was not there before either
  CHECK(compared(row("p", 100), row("p", 106) + row("p", 100)).code == 0); // the last one counts
  CHECK(has(compared(row("p", 100), row("p", 50)).out, "faster"));
  Json captured = Json::parse(row("p", 100));
  captured["clock"] = "graph";
  CHECK(has(compared(row("p", 100), captured.dump() + "\n").err, "1 rows were timed by another clock"));
  CHECK(has(compared(row("p", 100), row("p", 200)).out, "+100.0%"));
}

TEST_CASE("what run writes, compare reads") {
  const TemporaryFile file("", ".jsonl");
  REQUIRE(bench("run " + std::string(kSmall) + " --min-time 0 --out " + file.path()).code == 0);
  CHECK(bench("compare " + file.path() + " " + file.path()).code == 0);
}
