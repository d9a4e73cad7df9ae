// bench_records.cpp - what becomes of records: the gravest status is the exit code, a summary weighs each layer once,
// numbers that are none are null.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>

#include "api/notes.hpp"
#include "bench_files.hpp"
#include "numbers/statistics.hpp"
#include "print/output.hpp"
#include "result/json.hpp"
#include "result/results.hpp"
#include "text/text.hpp"

using namespace polyconv::bench;

namespace {

Record with_status(const std::string &status) {
  Record record;
  record.problem = "fwd:n1,c1,k1,i8x8,f1x1";
  record.device = "cpu";
  record.status = status;
  return record;
}

int code(const std::vector<std::string> &statuses) {
  std::vector<Record> records;
  records.reserve(statuses.size());
  for (const std::string &status : statuses) records.push_back(with_status(status));
  return exit_code(records);
}

Record timed(const std::string &suite, const std::string &problem, double us) {
  Record record = with_status("good");
  record.suite = suite;
  record.problem = problem;
  record.median_us = us;
  record.gflops = 1e3 / us;
  return record;
}

} // namespace

TEST_CASE("exit codes") {
  CHECK(code({}) == 0);
  CHECK(code({"good", "skipped"}) == 0);
  CHECK(code({"good", "wrong", "unavailable"}) == 1);
  CHECK(code({"device error"}) == 1);
  CHECK(code({"internal"}) == 1);
  CHECK(code({"out of memory", "unsupported"}) == 1);
  CHECK(code({"wrong", "invalid argument"}) == 2);
  CHECK(code({"unavailable", "unsupported"}) == 3);
  CHECK(code({"good", "unsupported"}) == 4);
}

TEST_CASE("a record is read as it was written") {
  Record record = timed("resnet50", "fwd:n1,c1,k1,i8x8,f1x1", 1.0 / 3);
  record.count = 3;
  record.fallback = true;
  record.reason = "a \"reason\" of\ntwo lines";
  record.samples = 9;
  record.baseline = "onednn", record.ratio = 0.1;
  record.layers = {{"first", "fwd:n1,c1,k1,i8x8,f1x1", 2, "threads/dense@avx2", "strict", true}};
  record.profile = {{"step", "threads/dense", 1.5, std::nullopt, 64}};
  const std::string line = json_line(record);
  const std::optional<Record> read = read_record(line);
  REQUIRE(read);
  CHECK(json_line(*read) == line);
  CHECK(read->median_us == record.median_us);
  CHECK(read->fallback);
  CHECK_FALSE(read_record("").has_value());
  CHECK_FALSE(read_record(line.substr(0, line.size() / 2)).has_value());
}

TEST_CASE("the format follows from the option, else from the file") {
  CHECK(output_format("csv", "x.jsonl") == "csv");
  CHECK(output_format("", "x.jsonl") == "jsonl");
  CHECK(output_format("", "x.csv") == "csv");
  CHECK(output_format("", "x.md") == "markdown");
  CHECK(output_format("", "") == "table");
}

TEST_CASE("a number that is none is null, in JSON and in CSV") {
  Record record = with_status("good");
  record.median_us = std::numeric_limits<double>::quiet_NaN();
  record.gflops = std::numeric_limits<double>::infinity();
  const std::string line = json_line(record);
  CHECK(line.find("\"median_us\":null") != std::string::npos);
  CHECK(line.find("\"gflops\":null") != std::string::npos);
  CHECK(line.find("nan") == std::string::npos);
  std::ostringstream out;
  RecordWriter writer("csv", View::kTimes, out);
  writer.add(record);
  writer.add(record);
  writer.finish();
  const std::string csv = out.str();
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 3); // one header
  CHECK(csv.find("nan") == std::string::npos);
}

TEST_CASE("a reason that is no text still makes a line") {
  Record record = with_status("unsupported");
  record.reason = "bytes \xFF\xFE and a \"quote\"";
  CHECK(json_line(record).find("a \\\"quote\\\"") != std::string::npos);
}

TEST_CASE("the summary weighs each distinct layer once, by suite") {
  const std::string text =
      summary({timed("a", "p", 10), timed("a", "p", 10), timed("a", "q", 1000), timed("b", "p", 5), timed("b", "q", 5)},
              View::kTimes);
  CHECK(text.find("100 us") != std::string::npos); // sqrt(10 * 1000), not the cube root with 10 twice
  CHECK(text.find("2/2") != std::string::npos);
  CHECK(text.find("5.00 us") != std::string::npos);
  CHECK(summary({timed("a", "p", 10)}, View::kTimes).empty());
}

TEST_CASE("rows that are not good are counted, not averaged") {
  std::vector<Record> records{timed("a", "p", 10), timed("a", "q", 10), timed("a", "r", 99)};
  records[2].status = "wrong";
  const std::string text = summary(records, View::kTimes);
  CHECK(text.find("2/3") != std::string::npos);
  CHECK(text.find("10.0 us") != std::string::npos);
}

TEST_CASE("a table says once what is the same everywhere, and why a row is not good") {
  std::vector<Record> records{timed("", "p", 10), timed("", "q", 20)};
  records[1].status = "unsupported";
  records[1].reason = "no kernel on cpu takes q: openmp/gemm: takes f32";
  records[1].median_us.reset();
  std::ostringstream out;
  RecordWriter writer("table", View::kTimes, out);
  for (const Record &record : records) writer.add(record);
  writer.finish();
  CHECK(out.str().find("math strict") != std::string::npos);
  CHECK(out.str().find("unsupported  openmp/gemm: takes f32") != std::string::npos);
}

TEST_CASE("a backend's note on a plan goes to the kernel that it names") {
  take_note("vendor/conv@auto: Vendor 3.2, blocked; 12 us");
  take_note("vendor/fft: Vendor 3.2, tiles");
  take_note("backend 'vendor' is available: /usr/lib/vendor/x.so");
  CHECK(note_of("vendor/conv@auto + openmp/pool@plain") == "Vendor 3.2, blocked; 12 us");
  CHECK(note_of("vendor/fft@64") == "Vendor 3.2, tiles");
  CHECK(note_of("vendor/conv@plain").empty());
  Record record;
  record.baseline_note = "Vendor 3.2, blocked; 12 us";
  CHECK(json_line(record).find("\"baseline_note\":\"Vendor 3.2, blocked; 12 us\"") != std::string::npos);
}

TEST_CASE("the median of what samples are drawn from lies between two of them") {
  const auto sorted_to = [](int n) {
    std::vector<double> samples;
    for (int i = n; i >= 1; --i) samples.push_back(i);
    return samples;
  };
  const auto is = [&](int n, double low, double high) {
    const Interval interval = median_interval(sorted_to(n));
    return interval.low == low && interval.high == high;
  };
  // Tables of the sign test: the k for which P(X <= k) stays below 2.5 % with X of n tosses, and one inwards.
  CHECK(is(1, 1, 1));
  CHECK(is(5, 1, 5)); // not that sure, and all there is
  CHECK(is(6, 1, 6));
  CHECK(is(9, 2, 8));
  CHECK(is(15, 4, 12));
  CHECK(is(25, 8, 18));
  CHECK(is(100, 40, 61));
  const Interval many = median_interval(sorted_to(3000)); // 2^-3000 is no double
  CHECK(many.low > 1440);
  CHECK(many.high < 1560);
}

TEST_CASE("a result file whose last line is cut off keeps its rows; one of a later format is refused") {
  Record record = timed("seeds", "fwd:n1,c1,k1,i8x8,f1x1", 10);
  record.layers = {{"conv1", "fwd:n1,c1,k1,i8x8,f1x1", 3, "a/b@c", "strict", true}};
  record.profile = {{"step", "a/b", 1.5, std::nullopt, std::nullopt}};
  const std::string line = json_line(record);
  {
    const TemporaryFile whole(line + "\n" + line + "\n", ".jsonl");
    const ResultFile read = read_results(whole.path());
    CHECK(read.rows.size() == 2);
    CHECK(read.warning.empty());
    CHECK(read.rows[0].number("median_us") == 10);
    REQUIRE(read.rows[0].layers.size() == 1);
    CHECK(read.rows[0].layers[0].count == 3);
    CHECK(read.rows[0].layers[0].fallback);
    REQUIRE(read.rows[0].profile.size() == 1);
    CHECK(read.rows[0].profile[0].host_us == 1.5);
    CHECK(!read.rows[0].profile[0].device_us);
    CHECK(last_of_each(read.rows).size() == 1);
  }
  {
    const TemporaryFile cut(line + "\n" + line.substr(0, line.size() / 2), ".jsonl");
    const ResultFile read = read_results(cut.path());
    CHECK(read.rows.size() == 1);
    CHECK(read.warning.find(":2: the last line is cut off; the 1 rows before it are used") != std::string::npos);
  }
  const auto refusal = [](const std::string &text) {
    const TemporaryFile file(text, ".jsonl");
    try {
      read_results(file.path());
    } catch (const Error &error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(refusal(line.substr(0, 20) + "\n" + line + "\n").find(":1: not a line of JSON") != std::string::npos);
  CHECK(refusal(line.substr(0, 20)).find(":1: not a line of JSON") != std::string::npos); // nothing is left
  CHECK(refusal("[1]\n").find("expected a JSON object") != std::string::npos);
  CHECK(refusal("").find("no results") != std::string::npos);
  std::string later = line;
  later.replace(later.find("\"format\":1"), 10, "\"format\":2");
  CHECK(refusal(later).find("written by a later polyconv-bench: its records have format 2") != std::string::npos);
}
