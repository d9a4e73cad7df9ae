// bench_parts.cpp - the small parts of polyconv-bench: numbers, sweeps, tables, text.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench_files.hpp"
#include "measure/baseline.hpp"
#include "measure/timing.hpp"
#include "numbers/statistics.hpp"
#include "subject/buffers.hpp"
#include "system/terminal.hpp"
#include "text/csv.hpp"
#include "text/grid.hpp"
#include "text/text.hpp"
#include "work/sweep.hpp"

using namespace polyconv::bench;
using Strings = std::vector<std::string>;

TEST_CASE("percentiles lie between neighbours, whatever the order of the samples") {
  CHECK(percentile({4, 1, 3, 2}, 0.5) == doctest::Approx(2.5));
  CHECK(percentile({4, 1, 3, 2}, 0) == 1);
  CHECK(percentile({4, 1, 3, 2}, 1) == 4);
  CHECK(percentile({7}, 0.95) == 7);
  CHECK(percentile({0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100}, 0.95) == doctest::Approx(95));
  CHECK(median({3, 1, 2}) == 2);
  CHECK(geometric_mean({1, 100}) == doctest::Approx(10));
  CHECK_THROWS_AS(percentile({}, 0.5), std::invalid_argument);
  CHECK_THROWS_AS(geometric_mean({}), std::invalid_argument);
}

TEST_CASE("lists and sweeps") {
  CHECK(parse_values("1,2,8:32:8", "x") == Strings{"1", "2", "8", "16", "24", "32"});
  CHECK(parse_values("4:11:4", "x") == Strings{"4", "8"});
  CHECK(parse_values("3x3, 1/2", "x") == Strings{"3x3", "1/2"});
  CHECK(parse_numbers("5:5:1", "x", 0) == std::vector<long long>{5});
  CHECK(parse_values("9223372036854775806:9223372036854775807:1", "x") ==
        Strings{"9223372036854775806", "9223372036854775807"});
  CHECK(parse_values("9223372036854775800:9223372036854775807:5", "x") ==
        Strings{"9223372036854775800", "9223372036854775805"});
  for (const char *bad : {"", ",", "1,,2", "1:2", "1:2:3:4", "2:1:1", "1:9:0", "1:9:-1", "a:9:1", "0:99999999:1",
                          "0:9223372036854775807:1", "-9223372036854775807:9223372036854775807:1"}) {
    INFO(std::string(bad));
    CHECK_THROWS_AS(parse_values(bad, "x"), Error);
  }
  CHECK_THROWS_AS(parse_numbers("3x3", "x", 0), Error);
  CHECK_THROWS_AS(parse_numbers("-1", "x", 0), Error);
  CHECK_THROWS_AS(parse_numbers("99999999999999999999", "x", 0), Error);
}

TEST_CASE("a sweep names one field or several") {
  CHECK(parse_sweep("c=16:48:16").fields == Strings{"c"});
  CHECK(parse_sweep("c=16:48:16").values == Strings{"16", "32", "48"});
  CHECK(parse_sweep("c=k=g=8,9").fields == Strings{"c", "k", "g"});
  for (const char *bad : {"", "c", "c=", "=3", "c==3", "3=c", "c1=3"}) {
    INFO(std::string(bad));
    CHECK_THROWS_AS(parse_sweep(bad), Error);
  }
}

TEST_CASE("fields of a token are replaced or added, and i spreads over the axes") {
  const std::string token = "fwd:n1,c3,k4,i9x9,f3x3:nhwc:relu";
  CHECK(set_field(token, "c", "16") == "fwd:n1,c16,k4,i9x9,f3x3:nhwc:relu");
  CHECK(set_field(token, "s", "2") == "fwd:n1,c3,k4,i9x9,f3x3,s2:nhwc:relu");
  CHECK(set_field(token, "i", "32") == "fwd:n1,c3,k4,i32x32,f3x3:nhwc:relu");
  CHECK(set_field(token, "i", "8x7") == "fwd:n1,c3,k4,i8x7,f3x3:nhwc:relu");
  CHECK(set_field("fwd:i50,f3", "i", "60") == "fwd:i60,f3");
  CHECK_THROWS_AS(set_field("fwd", "c", "1"), Error);
}

TEST_CASE("the word that was meant is near, and nothing far is offered") {
  const Strings words = {"run", "check", "--backend", "--baseline", "nhwc", "nchw", "resnet50"};
  CHECK(polyconv::near_word("rnu", words) == "run");
  CHECK(polyconv::near_word("chekc", words) == "check");
  CHECK(polyconv::near_word("--basline", words) == "--baseline");
  CHECK(polyconv::near_word("resnet", words) == "resnet50");
  CHECK(polyconv::near_word("juggle", words).empty());
  CHECK(polyconv::near_word("", words).empty());
  CHECK(polyconv::near_word("x", {"y"}).empty());
  CHECK(polyconv::near_word(std::string(100000, 'a'), words).empty());
  CHECK(polyconv::near_word("abc", {}).empty());
  CHECK(polyconv::edits_between("", "abc") == 3);
  CHECK(polyconv::edits_between("nhcw", "nchw") == 1);
}

TEST_CASE("globs") {
  CHECK(glob_match("openmp/*", "openmp/gemm@avx2"));
  CHECK(glob_match("*@avx?", "openmp/gemm@avx2"));
  CHECK(glob_match("tbb/*,openmp/*", "openmp/gemm@avx2"));
  CHECK(glob_match("*gemm*@*", "openmp/gemm1x1@avx2"));
  CHECK_FALSE(glob_match("openmp", "openmp/gemm@avx2"));
  CHECK_FALSE(glob_match("*@avx?", "openmp/gemm@avx512"));
  CHECK_FALSE(glob_match("", "openmp/gemm@avx2"));
}

TEST_CASE("sizes, percentages and what is shown to people") {
  CHECK(parse_bytes("4096", "x") == 4096);
  CHECK(parse_bytes("64M", "x") == int64_t{64} << 20);
  CHECK(parse_bytes("1.5GiB", "x") == int64_t{3} << 29);
  CHECK(parse_bytes("32K", "x") == 32768);
  for (const char *bad : {"", "M", "-1", "1Q", "1e99", "nan"}) CHECK_THROWS_AS(parse_bytes(bad, "x"), Error);
  CHECK(parse_percent("5%", "x") == doctest::Approx(0.05));
  CHECK(parse_percent("12.5", "x") == doctest::Approx(0.125));
  CHECK_THROWS_AS(parse_percent("-1%", "x"), Error);
  CHECK_THROWS_AS(parse_percent("much", "x"), Error);
  CHECK(show_time(0.5) == "500 ns");
  CHECK(show_time(1234) == "1.23 ms");
  CHECK(show_time(12.34) == "12.3 us");
  CHECK(show_time(2.5e6) == "2.50 s");
  CHECK(show_bytes(0) == "0 B");
  CHECK(show_bytes(64.0 * 1024 * 1024) == "64.0 MiB");
  CHECK(trim("  a b\t\r\n") == "a b");
  CHECK(split("a, b,,c", ',') == Strings{"a", "b", "", "c"});
  CHECK(split("  ", ',').empty());
}

TEST_CASE("a table is fitted to a width: below, above, wrapped, left out, and nothing lost but what is named") {
  Grid grid({{"problem", false, Fit::kHeading},
             {"kernel", false, Fit::kWrap},
             {"time", true},
             {"rate", true, Fit::kDrop, 1},
             {"cold", true, Fit::kDrop, 2},
             {"why", false, Fit::kBelow}});
  grid.add(
      {"fwd:n1,c64,k64,i56x56,f3x3,p1", "openmp/dense@avx512 + openmp/convert@avx512", "1.23 ms", "12", "1.0x", ""});
  grid.add(
      {"", "reference/convolve@plain", "9 ms", "1", "1.1x", "a reason that takes more than one line of forty columns"});
  CHECK(grid.text() == grid.text(0, nullptr));
  CHECK(grid.text(1000, nullptr) == grid.text());
  for (const size_t columns : {100, 80, 60, 40}) {
    CAPTURE(columns);
    Strings left_out;
    const std::string text = grid.text(columns, &left_out);
    for (const std::string &line : split(text, '\n')) CHECK(line.size() <= columns);
    for (const char *word : {"1.23 ms", "9 ms", "reference/", "convert@avx512", "forty"})
      CHECK(text.find(word) != std::string::npos);
    CHECK((text.find("1.0x") == std::string::npos) == (std::count(left_out.begin(), left_out.end(), "cold") == 1));
    CHECK((text.find("cold") == std::string::npos) == (std::count(left_out.begin(), left_out.end(), "cold") == 1));
  }
  Strings left_out;
  CHECK(grid.text(34, &left_out).find("fwd:n1,c64,k64,i56x56,f3x3,p1\n") != std::string::npos);
  CHECK(left_out == Strings{"rate", "cold"});
  Grid narrow({{"name", false}, {"number", true}});
  narrow.add({"a name that may not be broken", "1"});
  CHECK(narrow.text(10, nullptr) == narrow.text());
}

TEST_CASE("text is broken at blanks to a width, with its indentation") {
  CHECK(wrapped("one two three\n  four five six seven\n", 12) == "one two\n  three\n  four five\n    six\n    seven\n");
  CHECK(wrapped("one two three", 0) == "one two three");
  CHECK(wrapped("libpolyconv_openmp.so is here", 10) == "libpolyconv_openmp.so\n  is here");
  CHECK(wrapped("", 10).empty());
}

TEST_CASE("tables are read with quotes and comments, and refused in words") {
  const TemporaryFile good("# comment\nproblem,ratio\n\"fwd:n1,c2\",0.5\n\n  # another\nx,\"a \"\"b\"\"\"\n");
  const std::vector<CsvRow> rows = read_csv(good.path(), {"problem", "ratio"});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].cells.at("problem") == "fwd:n1,c2");
  CHECK(rows[0].line == 3);
  CHECK(rows[1].cells.at("ratio") == "a \"b\"");
  CHECK_THROWS_WITH_AS(read_csv(good.path(), {"missing"}), doctest::Contains("no column 'missing'"), Error);
  CHECK_THROWS_WITH_AS(read_csv(TemporaryFile("a,b\n1\n").path(), {"a"}), doctest::Contains(":2: 1 cells"), Error);
  CHECK_THROWS_WITH_AS(read_csv(TemporaryFile("a,b\n\"1,2\n").path(), {"a"}), doctest::Contains("quote"), Error);
  CHECK_THROWS_WITH_AS(read_csv(TemporaryFile("# nothing\n").path(), {"a"}), doctest::Contains("no header"), Error);
  CHECK_THROWS_WITH_AS(read_csv("no/such/file.csv", {"a"}), doctest::Contains("cannot read"), Error);
  CHECK(csv_quote("plain") == "plain");
  CHECK(csv_quote("a,\"b\"") == "\"a,\"\"b\"\"\"");
}

TEST_CASE("a grid aligns, leaves empty columns out and counts letters, not bytes") {
  Grid grid({{"name", false}, {"n", true}, {"empty", false}});
  grid.add({"a", "10"});
  grid.add({"\xC3\xA4", "7", ""});
  CHECK(grid.text() == "name   n\na     10\n\xC3\xA4      7\n");
  CHECK(grid.markdown() == "| name | n |\n| --- | ---: |\n| a | 10 |\n| \xC3\xA4 | 7 |\n");
}

TEST_CASE("random floats have magnitude in [0.5, 1) and both signs") {
  const std::vector<unsigned char> bytes = random_bytes(POLYCONV_F32, 4000, 7);
  int negative = 0;
  for (size_t i = 0; i < bytes.size(); i += 4) {
    float value;
    std::memcpy(&value, bytes.data() + i, 4);
    REQUIRE(std::fabs(value) >= 0.5f);
    REQUIRE(std::fabs(value) < 1.0f);
    negative += value < 0 ? 1 : 0;
  }
  CHECK(negative > 300);
  CHECK(negative < 700);
  const std::vector<unsigned char> half = random_bytes(POLYCONV_F16, 200, 7),
                                   brain = random_bytes(POLYCONV_BF16, 200, 7);
  for (size_t i = 1; i < half.size(); i += 2) {
    CHECK((half[i] & 0x7C) == 0x38);  // exponent of [0.5, 1)
    CHECK((brain[i] & 0x7F) == 0x3F); // the upper bits of it
  }
}

TEST_CASE("cuDNN's baselines run the sums and the pooling alone, and say what they leave out") {
  const Work chain =
      parse_work("fwd:c6,k6,i28x28,f5x5,p2:bias+relu > fwd:c6,k6,i28x28,f3x3,p1:residual=input+maxpool2", "");
  std::string left_out;
  CHECK(baseline_work("cudnn-any", chain, &left_out).token ==
        "fwd:n1,c6,k6,i28x28,f5x5,p2 > fwd:n1,c6,k6,i28x28,f3x3,p1:maxpool2");
  CHECK(left_out == "without bias, activation, residual");
  CHECK(baseline_work("unfused", chain, &left_out).token == chain.token);
  CHECK(left_out.empty());
  const Work sums = parse_work("fwd:c1,k6,i28x28,f5x5", "");
  CHECK(baseline_work("cudnn", sums, &left_out).token == sums.token);
  CHECK(left_out.empty());
}

TEST_CASE("the note of cuDNN's baselines says where they may round f32 to TF32: where the row may") {
  const Work f32 = parse_work("fwd:c8,k8,i9x9,f3x3", ""), f16 = parse_work("fwd:c8,k8,i9x9,f3x3:f16", "");
  Work network;
  network.layers = {f16, f32};
  for (const char *baseline : {"cudnn", "cudnn-any"}) {
    CHECK(baseline_rounding(baseline, POLYCONV_MATH_TF32, f32) == "may round to TF32");
    CHECK(baseline_rounding(baseline, POLYCONV_MATH_FAST, network) == "may round to TF32");
    CHECK(baseline_rounding(baseline, POLYCONV_MATH_FAST, f16).empty());
    CHECK(baseline_rounding(baseline, POLYCONV_MATH_FP32_EMULATED, f32).empty());
  }
  CHECK(baseline_rounding("onednn", POLYCONV_MATH_TF32, f32).empty());
}

TEST_CASE("product and baseline are sampled in turn, at least nine times") {
  std::string order;
  const Sampler a = [&](int64_t repeats) { return order += 'a', 0.010 * static_cast<double>(repeats); };
  const Sampler b = [&](int64_t repeats) { return order += 'b', 0.020 * static_cast<double>(repeats); };
  TimingRequest request;
  request.min_seconds = 0;
  const Timing timing = time_interleaved(a, b, request);
  CHECK(timing.product_us.size() == 9);
  CHECK(timing.baseline_us.size() == 9);
  CHECK(median(timing.ratios) == doctest::Approx(2));
  CHECK(median(timing.product_us) == doctest::Approx(10000));
  CHECK(order.substr(order.size() - 18) == "ababababababababab");
}

TEST_CASE("short runs are timed many at a time; cold ones one by one, after a flush") {
  std::vector<int64_t> repeats;
  const Sampler quick = [&](int64_t count) { return repeats.push_back(count), 1e-6 * static_cast<double>(count); };
  TimingRequest request;
  request.min_seconds = 0;
  CHECK(median(time_interleaved(quick, nullptr, request).product_us) == doctest::Approx(1));
  CHECK(repeats.back() >= 50);
  int flushes = 0;
  request.cold = true;
  request.flush = [&] { ++flushes; };
  time_interleaved(quick, nullptr, request);
  CHECK(repeats.back() == 1);
  CHECK(flushes == 9);
}
