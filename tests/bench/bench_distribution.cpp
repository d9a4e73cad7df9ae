// bench_distribution.cpp - bars over the distribution of a suite's ratios: what is read, what is refused, the
// arithmetic, and what is said of each bar.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "bench_files.hpp"
#include "judge/judge.hpp"
#include "numbers/distribution.hpp"
#include "text/text.hpp"

using namespace polyconv::bench;

namespace {

const char *const kBarsHeader =
    "problem,type,math,kernel,baseline,least_ratio,baseline_max_us,every,least_each,below,most_below,least_sum\n";

std::vector<Expectation> distribution_bar(const std::string &cells) {
  return load_expectations(TemporaryFile(kBarsHeader + ("suite:vgg16,f16,strict,*,onednn," + cells + "\n")).path());
}

// A good record of every layer of a bar, at this ratio.
std::vector<Record> records_at(const Expectation &bar, double ratio) {
  std::vector<Record> records;
  for (const Work &work : bar.works) {
    Record record;
    record.problem = work.token;
    record.type = "f16";
    record.math = record.baseline_math = "strict";
    record.kernel = "openmp/gemm@avx512";
    record.baseline = "onednn";
    record.median_us = 100;
    record.baseline_us = 100 * ratio;
    record.ratio = ratio;
    record.threads = 2;
    records.push_back(record);
  }
  return records;
}

bool says(const std::vector<std::string> &broken, const std::string &words) {
  INFO((broken.empty() ? "(held)" : broken.front()));
  return broken.size() == 1 && broken.front().find(words) != std::string::npos;
}

// What is said of the bars themselves, as one text: "held ...", "not held ...", "incomplete ...", a line each.
std::string told(const std::vector<Expectation> &bar, const std::vector<Record> &records) {
  std::string lines;
  for (const Finding &finding : judge_expectations(bar, records))
    lines += (finding.verdict == Verdict::kHeld      ? "held "
              : finding.verdict == Verdict::kNotHeld ? "not held "
                                                     : "incomplete ") +
             finding.sentence + "\n";
  return lines;
}

void tells(const std::string &lines, const std::string &words) {
  INFO(lines);
  CHECK_MESSAGE(lines.find(words) != std::string::npos, words);
}

} // namespace

TEST_CASE("the columns of distributions: each alone is a bar, and older files have none of them") {
  const Expectation all = distribution_bar("1.2,,,0.6,0.85,4%,1.1").front();
  CHECK(all.least_ratio == 1.2);
  CHECK(all.least_each == 0.6);
  CHECK(all.below == 0.85);
  CHECK(all.most_below == 0.04);
  CHECK(all.least_sum == 1.1);
  CHECK(all.works.size() == 9);
  for (const char *cells : {"1.2,,,,,,", ",,,0.6,,,", ",,,,0.85,0%,", ",,,,0.85,100%,", ",,,,,,1.1"}) {
    INFO(cells);
    const Expectation one = distribution_bar(cells).front();
    CHECK(static_cast<int>(one.least_ratio.has_value()) + static_cast<int>(one.least_each.has_value()) +
              static_cast<int>(one.most_below.has_value()) + static_cast<int>(one.least_sum.has_value()) ==
          1);
  }
  const Expectation older =
      load_expectations(
          TemporaryFile(
              "problem,type,math,kernel,baseline,least_ratio,baseline_max_us\nsuite:vgg16,f16,strict,*,onednn,1.05,\n")
              .path())
          .front();
  CHECK_FALSE(older.most_below.has_value());
  CHECK_FALSE(older.least_sum.has_value());
}

TEST_CASE("every n-th layer, from the first on, of those that the glob leaves") {
  const std::vector<Work> all = distribution_bar("1,,1,,,,").front().works;
  const std::vector<Work> some = distribution_bar("1,,4,,,,").front().works;
  REQUIRE(all.size() == 9);
  REQUIRE(some.size() == 3);
  for (size_t i = 0; i < some.size(); ++i) CHECK(some[i].token == all[4 * i].token);
  CHECK(distribution_bar("1,,999999,,,,").front().works.size() == 1);
  CHECK(distribution_bar("1,,4,,,,").front().about == "suite:vgg16 (f16, one in 4)");
  const TemporaryFile file(std::string("problem,type,math,kernel,baseline,least_ratio,baseline_max_us,only,every\n") +
                           "suite:mobilenet_v2,f16,strict,*,onednn,1,,*g*,3\n");
  const std::vector<Expectation> filtered = load_expectations(file.path());
  CHECK(filtered.front().works.size() == 4); // of ten
  for (const Work &work : filtered.front().works) CHECK(work.problems[0].groups > 1);
}

TEST_CASE("a bar of a share: as many layers below a ratio as it allows, and one more") {
  const std::vector<Expectation> bar = distribution_bar(",,,,0.85,23%,"); // two of nine are 22.2 %
  std::vector<Record> records = records_at(bar[0], 0.85);                 // not below
  tells(told(bar, records), "held " + bar[0].where + ": suite:vgg16 (f16): the share of ratios to onednn below 0.85 " +
                                "over 9 layers is 0.00% (0), at most 23%");
  records[0].ratio = records[1].ratio = 0.84;
  CHECK(broken_expectations(bar, records).empty());
  records[2].ratio = 0.1;
  CHECK(says(broken_expectations(bar, records), "below 0.85 over 9 layers is 33.33% (3), above 23%"));
}

TEST_CASE("a bar of the summed times weighs layers by their time, where the mean does not") {
  const std::vector<Expectation> bar = distribution_bar("1.3,,,,,,1.1");
  std::vector<Record> records = records_at(bar[0], 2);
  for (Record &record : records) record.median_us = 1, record.baseline_us = 2;
  tells(told(bar, records), "held " + bar[0].where +
                                ": suite:vgg16 (f16): the ratio of the summed times of onednn to " +
                                "ours over 9 layers is 2.000, at least 1.100");
  records[4].median_us = 100, records[4].baseline_us = 50, records[4].ratio = 0.5;
  CHECK(says(broken_expectations(bar, records), "over 9 layers is 0.611, below 1.100")); // 66 over 108
  tells(told(bar, records), "the geometric mean of the ratios to onednn over 9 layers is 1.714, at least 1.300");
}

TEST_CASE("a bar of the least ratio names the least layer first, then the others below it") {
  const std::vector<Expectation> bar = distribution_bar(",,,0.6,,,");
  std::vector<Record> records = records_at(bar[0], 0.6);
  tells(told(bar, records), "the least ratio to onednn over 9 layers is 0.600, at least 0.600");
  records[7].ratio = 0.3, records[2].ratio = 0.5;
  const std::vector<std::string> broken = broken_expectations(bar, records);
  REQUIRE(broken.size() == 2);
  tells(broken[0], "the least ratio to onednn over 9 layers is 0.300, below 0.600: " + records[7].problem);
  tells(broken[1], "a ratio to onednn is 0.500, below 0.600: " + records[2].problem);
}

TEST_CASE("a layer that is lost is named and counted, and the row is not held, whatever the others say") {
  const std::vector<Expectation> bar = distribution_bar("1.05,,,0.5,0.85,4%,1.05");
  const auto without = [&](auto change) {
    std::vector<Record> records = records_at(bar[0], 1.1);
    change(records[3]);
    CHECK(broken_expectations(bar, records).size() == 1);
    tells(broken_expectations(bar, records).front(), bar[0].works[3].token);
    const std::string lines = told(bar, records);
    tells(lines, "incomplete " + bar[0].where + ": suite:vgg16 (f16): the geometric mean of the ratios to onednn " +
                     "over 8 of 9 layers is 1.100, at least 1.050");
    tells(lines, "the share of ratios to onednn below 0.85 over 8 of 9 layers is 0.00% (0)");
    CHECK(lines.find("\nheld") == std::string::npos);
    return broken_expectations(bar, records).front();
  };
  tells(without([](Record &r) { r.status = "unsupported", r.threads.reset(); }), "the row is unsupported");
  tells(without([](Record &r) { r.problem = "fwd:i1x1"; }), "matches no row");
  tells(without([](Record &r) { r.baseline_reason = "unsupported: no"; }), "the baseline onednn is missing");
  tells(without([](Record &r) { r.median_us = 0; }), "are no times; expected finite ones above 0");
  tells(without([](Record &r) { r.baseline_us = std::nan(""); }), "are no times");
  tells(without([](Record &r) { r.ratio = std::nan(""); }), "are no times");
  tells(without([](Record &r) { r.ratio = std::numeric_limits<double>::infinity(); }), "are no times");
  tells(without([](Record &r) { r.median_us.reset(); }), "are no times");
}

TEST_CASE("a bar of which every layer is lost cannot be told") {
  const std::vector<Expectation> bar = distribution_bar("0.0001,,,,0.85,100%,");
  CHECK(broken_expectations(bar, {}).size() == 9);
  tells(told(bar, {}), "incomplete " + bar[0].where + ": suite:vgg16 (f16): none of 9 layers has a ratio to onednn");
}

TEST_CASE("the arithmetic of a distribution: several layers, one, and none") {
  const auto layer = [](double own, double baseline) { return LayerTimes{"t", "k", own, baseline, baseline / own}; };
  Distribution some;
  CHECK_THROWS_AS(some.geometric_mean(), std::invalid_argument);
  CHECK_THROWS_AS(some.share_below(1), std::invalid_argument);
  CHECK_THROWS_AS(some.sum_ratio(), std::invalid_argument);
  CHECK_THROWS_AS(some.by_ratio(), std::invalid_argument);
  some.add(layer(4, 2));
  CHECK(some.geometric_mean() == doctest::Approx(0.5));
  CHECK(some.share_below(0.5) == 0);
  CHECK(some.share_below(0.51) == 1);
  CHECK(some.sum_ratio() == doctest::Approx(0.5));
  CHECK(some.by_ratio().front().ratio == doctest::Approx(0.5));
  some.add(layer(1, 8));
  some.add(layer(5, 10));
  some.add(layer(10, 5));
  CHECK(some.geometric_mean() == doctest::Approx(std::sqrt(2.0))); // of 1/2, 8, 2, 1/2
  CHECK(some.count_below(2) == 2);
  CHECK(some.share_below(2) == doctest::Approx(0.5));
  CHECK(some.sum_ratio() == doctest::Approx(25.0 / 20.0));
  CHECK(some.by_ratio().front().own_us == 4); // of two alike the one that came first
  CHECK(some.by_ratio().back().ratio == doctest::Approx(8));
  CHECK(some.size() == 4);
  const double nan = std::nan(""), infinite = std::numeric_limits<double>::infinity();
  for (const LayerTimes &none : {layer(0, 1), layer(1, 0), layer(-1, 1), LayerTimes{"t", "k", 1, 1, nan},
                                 LayerTimes{"t", "k", nan, 1, 1}, LayerTimes{"t", "k", 1, infinite, 1}}) {
    CHECK_FALSE(are_times(none));
    CHECK_THROWS_AS(some.add(none), std::invalid_argument);
  }
  CHECK(some.size() == 4);
}

TEST_CASE("a wrong bar of a distribution is refused with its line, column and value, and what was expected") {
  const auto refused = [](const std::string &cells, const char *words) {
    INFO(cells);
    CHECK_THROWS_WITH_AS(distribution_bar(cells), doctest::Contains(words), Error);
    CHECK_THROWS_WITH_AS(distribution_bar(cells), doctest::Contains(".csv:2: "), Error);
  };
  refused(",,,,,,", "'suite:vgg16' has no bar; expected one in least_ratio, least_each, most_below, least_sum");
  refused(",,,,0.85,,", "'most_below' is empty; expected a share such as 4%");
  refused(",,,,,4%,", "'below' is empty; expected a share such as 4% in 'most_below' and the ratio");
  for (const char *share : {"4", "0.04", "-1%", "101%", "%", "4%%", "nan%", "some"})
    refused(std::string(",,,,0.85,") + share + ",",
            (std::string("most_below: '") + share + "' is no share; expected 0% to 100%, such as 4%").c_str());
  refused(",,,,0,4%,", "below: '0' is no ratio above 0; expected one such as 0.85");
  refused(",,,,-0.85,4%,", "below: '-0.85' is no ratio above 0");
  refused(",,,,some,4%,", "below: 'some' is not a number");
  refused(",,,,,,0", "least_sum: '0' is no ratio above 0");
  refused(",,,,,,nan", "least_sum: 'nan' is not a number");
  refused(",,,half,,,", "least_each: 'half' is not a number");
  for (const char *every : {"0", "-2", "1.5", "two", "1000000", "99999999999999999999"})
    refused(
        "1,," + std::string(every) + ",,,,",
        ("every: '" + std::string(every) + "' is no whole number from 1 to 999999; expected one such as 5").c_str());
  const auto bad_row = [](const std::string &text, const char *words) {
    CHECK_THROWS_WITH_AS(load_expectations(TemporaryFile(text).path()), doctest::Contains(words), Error);
  };
  bad_row(kBarsHeader + std::string("suite:vgg16,f16,strict,*,,1,,,,,,\n"), ":2: the cell 'baseline' is empty");
  const std::string one = "fwd:i8x8,f32,strict,*,fma,1,,";
  bad_row(kBarsHeader + one + "2,,,,\n", ":2: 'every' is for suites, and 'fwd:i8x8' is a problem");
  bad_row(kBarsHeader + one + ",,0.85,,\n", "'below' is for suites");
  bad_row(kBarsHeader + one + ",,,4%,\n", "'most_below' is for suites");
  bad_row(kBarsHeader + one + ",,,,1\n", "'least_sum' is for suites");
}

TEST_CASE("a misspelt column is refused, and one that nobody could have meant is the file's own") {
  const auto with = [](const std::string &column) {
    const std::string header = "problem,type,math,kernel,baseline,least_ratio,baseline_max_us," + column + "\n";
    return load_expectations(TemporaryFile(header + "fwd:i8x8,f32,strict,*,fma,1,,\n").path());
  };
  CHECK_THROWS_WITH_AS(with("most_belwo"), doctest::Contains("is called 'most_belwo'; did you mean 'most_below'?"),
                       Error);
  CHECK_THROWS_WITH_AS(with("leastsum"), doctest::Contains("did you mean 'least_sum'?"), Error);
  CHECK(with("remark").size() == 1);
  CHECK(with("").size() == 1);
}
