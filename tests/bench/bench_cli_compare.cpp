// bench_cli_compare.cpp - `polyconv-bench compare`: what is a regression, and that it reads what run writes.
// SPDX-License-Identifier: Apache-2.0
#include "bench_process.hpp"

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
  REQUIRE(bench("run " + std::string(kSmall) + " --min-time 0 --cache warm-only --out " + file.path()).code == 0);
  CHECK(bench("compare " + file.path() + " " + file.path()).code == 0);
}

namespace {

Json timed(const char *problem, double us, double low, double high, const char *device = "x") {
  return {{"problem", problem}, {"device", "cpu"},      {"status", "good"},       {"median_us", us},
          {"kernel", "a/b@c"},  {"median_low_us", low}, {"median_high_us", high}, {"device_name", device}};
}

Outcome compared_files(const std::string &before, const std::string &after, const std::string &options = "") {
  const TemporaryFile old_file(before, ".jsonl"), new_file(after, ".jsonl");
  return bench("compare " + old_file.path() + " " + new_file.path() + " " + options);
}

} // namespace

TEST_CASE("compare: a row is slower only beyond its interval, and what is slower stands first") {
  const auto line = [](const Json &row) { return row.dump() + "\n"; };
  const Outcome sure = compared_files(line(timed("p", 100, 99, 101)), line(timed("p", 110, 109, 111)));
  CHECK(sure.code == 5);
  CHECK(has(sure.out, "+8.5% to +11.5%")); // 1.1 * exp(-+hypot(ln(110/109), ln(101/100)))
  const Outcome unsure = compared_files(line(timed("p", 100, 80, 125)), line(timed("p", 110, 109, 111)));
  CHECK(unsure.code == 0);
  CHECK(has(unsure.out, "within the noise"));
  CHECK(compared_files(line(timed("p", 100, 99, 101)), line(timed("p", 110, 109, 111)), "--spread 15%").code == 0);
  CHECK(compared_files(line(timed("p", 100, 99, 101)), line(timed("p", 110, 109, 111)), "--spread 2%").code == 5);

  const Outcome sorted = compared_files(
      line(timed("first", 100, 99, 101)) + line(timed("second", 100, 99, 101)) + line(timed("third", 100, 99, 101)),
      line(timed("first", 100, 99, 101)) + line(timed("second", 120, 119, 121)) + line(timed("third", 150, 149, 151)));
  CHECK(sorted.out.find("third") < sorted.out.find("second"));
  CHECK(sorted.out.find("second") < sorted.out.find("first"));
  CHECK(has(sorted.out, "geometric mean of new/old over 3 rows: 1.216 (0.967 to 1.531 with 95 %)"));
}

TEST_CASE("compare: several runs of each code count together") {
  const TemporaryFile old_file(timed("p", 100, 100, 100).dump() + "\n", ".jsonl"),
      slow(timed("p", 130, 130, 130).dump() + "\n", ".jsonl"), same(timed("p", 100, 100, 100).dump() + "\n", ".jsonl");
  CHECK(bench("compare " + old_file.path() + " " + slow.path()).code == 5);
  // The new code took 100 and 130: their median is 115, and the interval reaches down to 100.
  const Outcome both = bench("compare " + old_file.path() + " " + slow.path() + "," + same.path());
  CHECK(both.code == 0);
  CHECK(has(both.out, "115 us"));
  CHECK(has(both.out, "+0.0% to +30.0%"));
  CHECK(bench("compare " + old_file.path()).code == 2);
  CHECK(has(bench("compare " + old_file.path()).err, "compare wants two results, OLD and NEW"));
}

TEST_CASE("compare of two machines says so, shows all, and calls nothing a regression") {
  const TemporaryFile here(timed("p", 1, 1, 1, "x").dump() + "\n", ".jsonl");
  const TemporaryFile there(timed("p", 9, 9, 9, "y").dump() + "\n", ".jsonl");
  const Outcome two = bench("compare " + here.path() + " " + there.path());
  CHECK(two.code == 2);
  CHECK(has(two.err, "measured on different devices, so that no change is a regression: x and y"));
  CHECK(has(two.out, "+800.0%"));
}

TEST_CASE("compare --noise learns what runs of the same code differ by, and later comparisons know it") {
  const char *const machine = "a noisy machine"; // a device of its own, since the tests share a cache
  const auto run = [&](double us) { return timed("p", us, us, us, machine).dump() + "\n"; };
  const TemporaryFile a(run(100), ".jsonl"), b(run(108), ".jsonl"), c(run(104), ".jsonl"), d(run(112), ".jsonl");
  const Outcome learnt = bench("compare --noise " + a.path() + " " + b.path() + " " + c.path());
  CHECK(learnt.code == 0);
  CHECK(has(learnt.out, "two of these 3 runs differ by less than 7.6%"));
  const Outcome later = bench("compare " + c.path() + " " + d.path()); // 7.7 % more
  CHECK(later.code == 5);
  CHECK(has(later.out, "+0.1% to +15.9%"));
  CHECK(bench("compare " + b.path() + " " + d.path() + " --fail-slower 1%").code == 0); // 3.7 % are noise here
  CHECK(bench("compare " + b.path() + " " + d.path() + " --fail-slower 1% --spread 0").code == 5);
  CHECK(has(bench("compare --noise " + a.path()).err, "--noise wants two or more result files"));
  const TemporaryFile other(timed("p", 1, 1, 1, "y").dump() + "\n", ".jsonl");
  const Outcome foreign = bench("compare --noise " + a.path() + " " + other.path());
  CHECK(foreign.code == 2);
  CHECK(has(foreign.err, "the files are of different devices: a noisy machine and y"));
}

TEST_CASE("watch: a folder of results by their dates, and the rows that are slower than their best") {
  const TemporaryFile place("", ".folder");
  std::filesystem::remove(place.path());
  std::filesystem::create_directory(place.path());
  const auto put = [&](const char *name, const char *date, double p, double q) {
    std::ofstream file(place.path() + "/" + name);
    for (const auto &[problem, us] : {std::pair<const char *, double>{"p", p}, {"q", q}}) {
      Json row = timed(problem, us, us, us);
      row["date"] = date;
      file << row.dump() << "\n";
    }
  };
  put("b.jsonl", "2026-11-01T00:00:00Z", 100, 100); // older than a
  put("a.jsonl", "2026-11-02T00:00:00Z", 50, 100);
  put("c.jsonl", "2026-11-03T00:00:00Z", 100, 90);
  const Outcome trends = bench("watch " + place.path());
  CHECK(trends.code == 0);
  CHECK(trends.out.find("\nb ") < trends.out.find("\na "));
  CHECK(has(trends.out, "1 of 2 rows are slower than their best"));
  CHECK(has(trends.out, "+100.0%"));
  CHECK(has(trends.out, "█▁█"));
  CHECK(has(trends.out, "0.949")); // sqrt(1 * 0.9) of the first
  CHECK(has(bench("watch " + place.path() + " --spread 110%").out, "None of the 2 rows"));

  std::ofstream(place.path() + "/d.jsonl") << "no result\n";
  const Outcome foreign = bench("watch " + place.path() + " -o markdown");
  CHECK(foreign.code == 0);
  CHECK(has(foreign.err, "left out: " + place.path() + "/d.jsonl:1: not a line of JSON"));
  CHECK(has(foreign.out, "### x"));
  CHECK(bench("watch " + place.path() + " --rows -1").code == 2);
  std::filesystem::remove_all(place.path());
  CHECK(bench("watch " + place.path()).code == 2);
  CHECK(has(bench("watch " + place.path()).err, "is no folder"));
}
