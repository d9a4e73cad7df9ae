// bench_expect.cpp - every rule of an expectation file, each shown to hold and to fail.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "bench_files.hpp"
#include "judge/expect.hpp"
#include "judge/judge.hpp"
#include "measure/baseline.hpp"
#include "text/text.hpp"

using namespace polyconv::bench;

namespace {

const char *const kHeader = "problem,type,math,kernel,baseline,least_ratio,baseline_max_us\n";

std::vector<Expectation> expectations(const std::string &rows) {
  return load_expectations(TemporaryFile(kHeader + rows).path());
}

// A record that holds the bar of kRow.
const char *const kRow = "\"fwd:c8,k8,i9x9,f3x3\",f16,strict,openmp/gemm@*,onednn,1.05,120\n";
Record good_record() {
  Record record;
  record.problem = "fwd:n1,c8,k8,i9x9,f3x3:f16";
  record.type = "f16";
  record.math = record.baseline_math = "strict";
  record.kernel = "openmp/gemm@avx512";
  record.baseline = "onednn";
  record.baseline_kernel = "onednn/conv@any";
  record.median_us = 100;
  record.baseline_us = 110;
  record.ratio = 1.10;
  record.check = "good";
  return record;
}

// The sentences about kRow and a record with one thing changed.
template <class Change>
std::vector<std::string> after(Change change) {
  Record record = good_record();
  change(record);
  return broken_expectations(expectations(kRow), {record});
}

bool says(const std::vector<std::string> &broken, const std::string &words) {
  INFO((broken.empty() ? "(held)" : broken.front()));
  return broken.size() == 1 && broken.front().find(words) != std::string::npos;
}

} // namespace

TEST_CASE("a bar that is held") {
  CHECK(after([](Record &) {}).empty());
  CHECK(after([](Record &r) { r.ratio = 1.05; }).empty());
  CHECK(after([](Record &r) { r.kernel += " + openmp/pool@avx512"; }).empty()); // a plan's further steps
}

TEST_CASE("each way in which a bar is not held") {
  CHECK(says(after([](Record &r) { r.ratio = 1.04; }), "below 1.050"));
  CHECK(says(after([](Record &r) { r.problem = "fwd:n2,c8,k8,i9x9,f3x3:f16"; }), "matches no row"));
  CHECK(says(after([](Record &r) { r.type = "bf16"; }), "matches no row"));
  CHECK(says(after([](Record &r) { r.requested_math = "fast"; }), "matches no row"));
  CHECK(says(after([](Record &r) { r.baseline = "tbb"; }), "matches no row"));
  CHECK(says(after([](Record &r) { r.status = "wrong"; }), "the row is wrong"));
  CHECK(says(after([](Record &r) { r.status = "unsupported"; }), "the row is unsupported"));
  CHECK(says(after([](Record &r) { r.status = "skipped"; }), "the row is skipped"));
  CHECK(
      says(after([](Record &r) { r.kernel = "openmp/direct@avx512"; }), "openmp/direct@avx512 ran, not openmp/gemm@*"));
  CHECK(says(after([](Record &r) { r.baseline_reason = "unavailable: not found"; }), "is missing: unavailable"));
  CHECK(says(after([](Record &r) { r.ratio.reset(); }), "was not measured"));
  CHECK(says(after([](Record &r) { r.baseline_math = "tf32"; }), "math mode tf32, not strict"));
  CHECK(says(after([](Record &r) { r.baseline_us = 121; }), "above its most of 120"));
  CHECK(says(broken_expectations(expectations(kRow), {}), "matches no row"));
}

TEST_CASE("every matching row must hold, and every row of the file is asked") {
  Record slow = good_record();
  slow.ratio = 0.5;
  CHECK(broken_expectations(expectations(kRow), {good_record(), slow}).size() == 1);
  const std::string other = "\"fwd:c8,k8,i5x5,f3x3\",f32,strict,*,onednn,1,\n";
  CHECK(says(broken_expectations(expectations(kRow + other), {good_record()}), "i5x5"));
}

TEST_CASE("a row that was asked for another bar's kernels is not judged by this one") {
  Record gemm = good_record(), direct = good_record();
  gemm.requested = "openmp/gemm@*";
  direct.requested = "openmp/direct@*";
  direct.kernel = "openmp/direct@avx512";
  const std::string other = "\"fwd:c8,k8,i9x9,f3x3\",f16,strict,openmp/direct@*,onednn,1.05,120\n";
  CHECK(broken_expectations(expectations(kRow + other), {gemm, direct}).empty());
  CHECK(says(broken_expectations(expectations(kRow + other), {gemm}), "matches no row"));
  CHECK(broken_expectations(expectations(kRow), {direct}).size() == 1);
}

TEST_CASE("a ceiling is a baseline without a math mode or a best time") {
  const std::vector<Expectation> bar = expectations("\"fwd:c8,k8,i9x9,f3x3:f16\",f16,strict,*,fma,0.4,\n");
  CHECK_FALSE(bar.front().baseline_max_us.has_value());
  Record record = good_record();
  record.baseline = record.baseline_kernel = "fma";
  record.baseline_math.clear();
  record.ratio = 0.41;
  CHECK(broken_expectations(bar, {record}).empty());
  record.ratio = 0.39;
  CHECK(says(broken_expectations(bar, {record}), "below 0.400"));
}

TEST_CASE("a most time of the kernel itself, beside a ratio or instead of one") {
  const auto bars = [](const std::string &row) {
    const std::string header = "problem,type,math,kernel,baseline,least_ratio,baseline_max_us,max_us\n";
    return load_expectations(TemporaryFile(header + "\"fwd:c8,k8,i9x9,f3x3:f16\",f16,strict,*," + row).path());
  };
  Record record = good_record(); // takes 100 us
  CHECK(broken_expectations(bars("onednn,1.05,,100\n"), {record}).empty());
  CHECK(says(broken_expectations(bars("onednn,1.05,,99\n"), {record}), "more than 99"));
  CHECK(says(broken_expectations(bars("onednn,1.2,,100\n"), {record}), "below 1.200"));
  record.baseline.clear();
  record.ratio.reset();
  CHECK(broken_expectations(bars(",,,100\n"), {record}).empty());
  CHECK(says(broken_expectations(bars(",,,99\n"), {record}), "more than 99"));
  CHECK_THROWS_WITH_AS(bars("onednn,,,99\n"), doctest::Contains("goes with a least_ratio"), Error);
  CHECK_THROWS_WITH_AS(bars("onednn,,,\n"), doctest::Contains("'least_ratio' is empty"), Error);
}

namespace {

const char *const kSuiteHeader =
    "problem,type,math,kernel,baseline,least_ratio,baseline_max_us,layout,only,least_each\n";

std::vector<Expectation> suite_bar(const std::string &row) {
  return load_expectations(TemporaryFile(kSuiteHeader + row).path());
}

// A good record of every layer of a bar, at this ratio.
std::vector<Record> records_at(const Expectation &bar, double ratio) {
  std::vector<Record> records;
  for (const Work &work : bar.works) {
    records.push_back(good_record());
    records.back().problem = work.token;
    records.back().ratio = ratio;
    records.back().threads = 2;
  }
  return records;
}

} // namespace

TEST_CASE("a bar of suites: their layers at a batch, in a layout, filtered by a glob") {
  const std::vector<Expectation> all = suite_bar("suite:resnet50@128+vgg16,f16,strict,*,onednn,1,,nhwc,,\n");
  REQUIRE(all.size() == 1);
  CHECK(all[0].of_suites);
  CHECK(all[0].works.size() == 23 + 9);
  CHECK(all[0].works.front().token == "fwd:n128,c3,k64,i224x224,f7x7,s2,p3/2:nhwc:f16");
  CHECK(all[0].works.back().token.rfind("fwd:n1,", 0) == 0);
  const TemporaryFile back(
      "problem,type,math,kernel,baseline,least_ratio,baseline_max_us,direction\n"
      "suite:vgg16@8,f32,strict,*,onednn,1,,bwd_w\n");
  const std::vector<Expectation> weights = load_expectations(back.path());
  for (const Work &work : weights[0].works) CHECK(work.token.rfind("bwd_w:n8,", 0) == 0);
  const std::vector<Expectation> some = suite_bar("suite:mobilenet_v2,f16,strict,*,onednn,1,,,*g*,\n");
  for (const Work &work : some[0].works) CHECK(work.problems[0].groups > 1);
  CHECK(some[0].works.size() == 10);
}

TEST_CASE("a bar of suites holds the mean of all layers, and each to the least") {
  const std::vector<Expectation> bar = suite_bar("suite:vgg16,f16,strict,openmp/gemm@*,onednn,1.05,,,,0.8\n");
  std::vector<Record> records = records_at(bar[0], 1.05);
  CHECK(broken_expectations(bar, records).empty());
  records[0].ratio = 0.9, records[1].ratio = 1.3; // the mean of the two is above 1.05
  CHECK(broken_expectations(bar, records).empty());
  records[0].ratio = 0.79, records[1].ratio = 1.6;
  CHECK(says(broken_expectations(bar, records), "0.790, below 0.800"));
  CHECK(says(broken_expectations(bar, records_at(bar[0], 1.04)), "over 9 layers is 1.040, below 1.050"));
  records = records_at(bar[0], 1.05);
  records[3].status = "unsupported";
  CHECK(says(broken_expectations(bar, records), "the row is unsupported"));
  records.erase(records.begin() + 3);
  CHECK(says(broken_expectations(bar, records), "matches no row"));
  CHECK(broken_expectations(bar, {}).size() == 9);
}

TEST_CASE("a bar of suites holds for each number of threads") {
  const std::vector<Expectation> bar = suite_bar("suite:vgg16,f16,strict,*,onednn,1.05,,,,\n");
  std::vector<Record> records = records_at(bar[0], 1.5);
  for (Record record : records_at(bar[0], 1.0)) {
    record.threads = 1;
    records.push_back(record);
  }
  CHECK(says(broken_expectations(bar, records), "with 1 threads is 1.000"));
}

TEST_CASE("a vendor's library as a baseline: which kernel, in which mode, with time to find its best") {
  PlanRequest row;
  row.kernel = "cuda-gemm/*";
  const PlanRequest direct = baseline_request("cudnn", row, 250), any = baseline_request("cudnn-any", row, 250);
  CHECK(direct.kernel == "cudnn/direct");
  CHECK(direct.math == POLYCONV_MATH_STRICT);
  CHECK(direct.tuning_ms == 250);
  CHECK(any.kernel == "cudnn/any");
  CHECK(any.math == POLYCONV_MATH_FAST);
  CHECK(baseline_request("onednn", row, 250).kernel == "onednn/conv@auto");
  row.math = POLYCONV_MATH_FP32_EMULATED;
  CHECK(baseline_request("onednn", row, 250).math == POLYCONV_MATH_STRICT);
  CHECK(baseline_mode("onednn", "fp32_emulated", "f32") == "strict");
  CHECK(baseline_mode("cudnn-any", "fp32_emulated", "f32") == "fast");
  CHECK(baseline_request("cudnn-any", row, 250).kernel == "cudnn/any"); // f32 on the tensor cores beside f32
  for (const int32_t math : {POLYCONV_MATH_TF32, POLYCONV_MATH_FAST}) { // which cudnn/any never enters
    row.math = math;
    CHECK(baseline_request("cudnn", row, 250).math == math);
    CHECK(baseline_request("cudnn-any", row, 250).kernel == "cudnn/fast");
    CHECK(baseline_request("cudnn-any", row, 250).math == POLYCONV_MATH_FAST);
  }
  CHECK(baseline_mode("cudnn-any", "tf32", "f32") == "tf32");
  CHECK(baseline_mode("cudnn-any", "tf32", "f16") == "fast");
  CHECK(baseline_request("onednn/conv@plain", row, 250).tuning_ms == 250);
  CHECK(baseline_request("openmp", row, 250).kernel == "openmp/*");
  CHECK(baseline_request("openmp", row, 250).tuning_ms == 0);
  CHECK(baseline_request("tbb/gemm", row, 250).kernel == "tbb/gemm");
  const std::vector<Expectation> bar = expectations("\"fwd:c8,k8,i9x9,f3x3:f16\",f16,strict,*,cudnn-any,1,\n");
  Record record = good_record();
  record.baseline = "cudnn-any";
  CHECK(says(broken_expectations(bar, {record}), "math mode strict, not fast"));
  record.baseline_math = "fast";
  CHECK(broken_expectations(bar, {record}).empty());
}

TEST_CASE("a wrong file is refused with its line") {
  const auto refused = [](const std::string &text, const char *words) {
    const TemporaryFile file(text);
    CHECK_THROWS_WITH_AS(load_expectations(file.path()), doctest::Contains(words), Error);
  };
  refused(kHeader, "no expectation");
  refused("problem,type\n", "no column 'math'");
  refused(kHeader + std::string("\"fwd:c8\",f32,strict,*,fma,0.4,\n"), ":2: ");
  refused(kHeader + std::string("\"fwd:i8x8\",f33,strict,*,fma,0.4,\n"), "f33");
  refused(kHeader + std::string("\"fwd:i8x8\",f32,quick,*,fma,0.4,\n"), "quick");
  refused(kHeader + std::string("\"fwd:i8x8\",f32,strict,*,fma,half,\n"), "least_ratio");
  refused(kHeader + std::string("\"fwd:i8x8\",f32,strict,*,fma,0.4,soon\n"), "baseline_max_us");
  refused(kHeader + std::string("\"fwd:i8x8\",f32,strict,,fma,0.4,\n"), "'kernel' is empty");
  const auto bad_bar = [&](const std::string &row, const char *words) { refused(kSuiteHeader + row, words); };
  bad_bar("suite:nosuch,f32,strict,*,fma,1,,,,\n", "no suite is called 'nosuch'");
  bad_bar("suite:vgg16@many,f32,strict,*,fma,1,,,,\n", "the batch: 'many'");
  bad_bar("suite:vgg16,f32,strict,*,fma,1,,,*f9x9*,\n", "no layer of vgg16 matches *f9x9*");
  bad_bar("suite:vgg16,f32,strict,*,fma,1,500,,,\n", "'baseline_max_us' is for one problem");
  bad_bar("fwd:i8x8,f32,strict,*,fma,1,,,,0.8\n", "'least_each' is for suites");
  bad_bar("suite:vgg16,f32,strict,*,fma,1,,sideways,,\n", "sideways");
  CHECK_THROWS_WITH_AS(load_expectations("nosuch"), doctest::Contains("no file of expectations is called 'nosuch'"),
                       Error);
}
