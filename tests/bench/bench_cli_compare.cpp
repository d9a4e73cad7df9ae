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
