// bench_cli_run.cpp - the rows of `polyconv-bench run`: fields, sweeps, ladders, profiles, networks, baselines,
// devices.
// SPDX-License-Identifier: Apache-2.0
#include "bench_process.hpp"
#include "skip.hpp"

TEST_CASE("a record has every field, and numbers where there are some") {
  const Outcome outcome = bench("run " + std::string(kSmall) + " --min-time 0 -o jsonl");
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
  for (const char *glob : {"reference/convolve", "'reference/convolve@p*'"}) { // a name alone is about all configs
    const Outcome named = bench("run fwd:c4,k4,i9x9,f3x3 --all-configs --kernel " + std::string(glob) + quick);
    CHECK(lines_of(named.out).at(0).at("requested") == "reference/convolve@plain");
  }
}

TEST_CASE("a ladder has a row for every technique in order, with the speed-up over the first or the reason") {
  const Outcome cpu = bench("run fwd:n1,c4,k4,i9x9,f3x3 --ladder" + std::string(kQuick));
  CHECK(cpu.code == 0); // the reference takes it
  const std::vector<Json> rungs = lines_of(cpu.out);
  REQUIRE(rungs.size() == 8);
  CHECK(rungs[0].at("technique") == "reference");
  CHECK(rungs[0].at("speedup") == 1.0);
  CHECK(rungs[1].at("technique") == "direct");
  CHECK(rungs[7].at("technique") == "register tiles");
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
  const std::string run = "run " + std::string(kSmall) + " --profile --min-time 0 --cache warm-only ";
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

TEST_CASE("a kernel is forbidden by '!' in every row") {
  const std::string run =
      "run " + std::string(kSmall) + " --kernel '*,reference/*,!o*/*,!t*/*' -o jsonl --min-time 0 --cache warm-only";
  const std::vector<Json> rows = lines_of(bench(run).out);
  REQUIRE(rows.size() == 2);
  for (const Json &row : rows) CHECK(row.at("kernel") == "reference/convolve@plain");
}

TEST_CASE("extra times, cold caches and chains") {
  const TemporaryFile chain("fwd:c3,k4,i9x9,f3x3,p1:relu\nfwd:c4,k3,i9x9,f3x3,p1:bias+residual=input\n", ".txt");
  const Outcome outcome =
      bench("run --chain " + chain.path() + " --cache cold --transfers --end-to-end --min-time 0 -o jsonl");
  REQUIRE(outcome.code == 0);
  const Json record = lines_of(outcome.out).at(0);
  CHECK(record.at("cache") == "cold");
  CHECK(record.at("cold_ratio").is_null());
  CHECK(record.at("transfers_us").get<double>() > 0);
  CHECK(record.at("end_to_end_us").get<double>() > 0);
  CHECK(record.at("check") == "good");
}

TEST_CASE("rows are measured beside a busy neighbour, and say so") {
  const std::string run = "run " + std::string(kSmall) + " --backend reference --min-time 0 --cache warm-only ";
  CHECK(lines_of(bench(run + "-o jsonl").out).at(0).at("beside") == 0);
  const Json record = lines_of(bench(run + "--beside 2 -o jsonl").out).at(0);
  CHECK(record.at("beside") == 2);
  CHECK(record.at("median_us").get<double>() > 0);
  CHECK(bench(run + "--beside 1").out.find("busy threads beside: 1") != std::string::npos);
  for (const char *wrong : {"-1", "many", "1,2", "1025"}) {
    const Outcome outcome = bench(run + "--beside " + wrong);
    CHECK(outcome.code == 2);
    CHECK(outcome.err.find("--beside") != std::string::npos);
  }
}

TEST_CASE("a network is one row, with the time of an image") {
  const TemporaryFile suite("fwd:n2,c3,k4,i9x9,f3x3,p1\nfwd:n2,c4,k4,i9x9,f3x3,p1\n", ".txt");
  const std::string run = "run --network " + suite.path() + " --backend reference --min-time 0 --cache warm-only ";
  const Outcome table = bench(run + "--batch 2,3 --dtype f32,f64");
  CHECK(table.code == 0);
  for (const char *words : {"an image", "2 layers", "@2 ", "@3:f64", "2x reference/convolve (fallback)"})
    CHECK_MESSAGE(has(table.out, words), std::string(words));
  const Json row = lines_of(bench(run + "-o jsonl").out).at(0);
  CHECK(row.at("image_us").get<double>() == doctest::Approx(row.at("median_us").get<double>() / 2));
  CHECK(row.at("layers").size() == 2);
  CHECK(row.at("layers").at(1).at("count") == 1);
  CHECK(bench("run --network " + suite.path() + " --backend nosuch --min-time 0 --cache warm-only").code == 3);
}

TEST_CASE("a baseline is measured in the same row, and one that is missing says so") {
  const Json row = lines_of(bench("run " + std::string(kSmall) + kQuick + "--baseline reference").out).at(0);
  CHECK(row.at("baseline_kernel").get<std::string>().rfind("reference/", 0) == 0);
  CHECK(row.at("baseline_math") == "strict");
  CHECK(row.at("ratio").get<double>() > 0);
  CHECK(row.at("baseline_err").get<double>() < 1e-6); // checked as the row itself is
  // A baseline that nobody knows is refused; one that serves no CPU is missing here, installed or not.
  CHECK(bench("run " + std::string(kSmall) + kQuick + "--baseline nosuch").code == 2);
  const Json without = lines_of(bench("run " + std::string(kSmall) + kQuick + "--baseline cudnn").out).at(0);
  CHECK(without.at("status") == "good");
  CHECK(!without.at("baseline_reason").get<std::string>().empty());
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

TEST_CASE("expectations over a suite: every bar is told with what was measured, and one that is not held is 5") {
  const TemporaryFile suite("fwd:c3,k4,i9x9,f3x3\nfwd:c4,k4,i7x7,f3x3\ntfwd:c2,k3,i5,f2,s2\n", ".txt");
  const auto judged = [&](const std::string &cells) {
    const TemporaryFile file(
        "problem,type,math,kernel,baseline,least_ratio,baseline_max_us,every,least_each,below,most_below,least_sum\n"
        "suite:" +
        suite.path() + ",f32,strict,*,reference," + cells + "\n");
    return bench("run --expect " + file.path() + kQuick);
  };
  const Outcome held = judged("0.000001,,,0.000001,0.000001,0%,0.000001"); // however slow the machine
  CHECK(held.code == 0);
  CHECK(has(held.err, "the geometric mean of the ratios to reference over 3 layers is "));
  CHECK(has(held.err, "the share of ratios to reference below 1e-06 over 3 layers is 0.00% (0), at most 0%"));
  CHECK(has(held.err, "the least ratio to reference over 3 layers is "));
  CHECK(has(held.err, "the ratio of the summed times of reference to ours over 3 layers is "));
  CHECK(has(held.err, "1 of 1 expectations held"));
  const Outcome slow = judged("1000000,,2,,1000000,0%,0.000001"); // however fast
  CHECK(slow.code == 5);
  CHECK(has(slow.err, "not held: "));
  CHECK(has(slow.err, "(f32, one in 2): the share of ratios to reference below 1e+06 over 2 layers is 100.00% (2)"));
  CHECK(has(slow.err, "\nheld: "));
  CHECK(has(slow.err, "0 of 1 expectations held"));
  const Outcome wrong = judged(",,,,0.85,4,");
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "most_below: '4' is no share; expected 0% to 100%, such as 4%"));
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

TEST_CASE("--trace writes a timeline: each row, its stages within it, and each step") {
  const TemporaryFile trace("", ".json");
  const Outcome run =
      bench("run " + std::string(kSmall) + " 'fwd:n1,c3,k4,i9x9,f3x3,p1:bias > fwd:n1,c4,k4,i9x9,f3x3,p1'" + kQuick +
            "--backend reference --grouping none --trace " + trace.path());
  CHECK(run.code == 0);
  const Json events = Json::parse(contents(trace.path()));
  std::vector<Json> rows, stages, steps;
  for (const Json &event : events) {
    if (event.at("ph") != "X") continue;
    CHECK(event.at("dur").get<double>() >= 0);
    (event.at("cat") == "row" ? rows : event.at("cat") == "stage" ? stages : steps).push_back(event);
  }
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].at("name") == std::string(kSmall) + " on cpu");
  CHECK(steps.size() == 3 * (1 + 2)); // three runs of one step, and of two
  for (const std::vector<Json> *parts : {&stages, &steps})
    for (const Json &part : *parts) {
      const auto within = [&](const Json &row) {
        const double slack = 1, begin = part.at("ts"), end = begin + part.at("dur").get<double>(), first = row.at("ts");
        return begin >= first - slack && end <= first + row.at("dur").get<double>() + slack;
      };
      CHECK(std::any_of(rows.begin(), rows.end(), within));
    }
  CHECK(has(steps[0].at("name"), "reference/"));
  CHECK(has(bench("run " + std::string(kSmall) + kQuick + "--trace /nowhere/trace.json").err,
            "--trace: cannot write the file /nowhere/trace.json"));
  if (std::filesystem::exists("/dev/full"))
    CHECK(has(bench("run " + std::string(kSmall) + kQuick + "--trace /dev/full").err,
              "--trace: the file /dev/full could not be written to its end"));
  const Outcome ranges = bench("run " + std::string(kSmall) + kQuick + "--nvtx");
  CHECK((ranges.code == 0 || has(ranges.err, "built without nvtx3/nvToolsExt.h")));
}
