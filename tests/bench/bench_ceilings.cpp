// bench_ceilings.cpp - rooflines: each type and mode is held to the units that may compute it, and rates that cannot be
// are told. On rates written here; the loops themselves run once each.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "ceilings/rates.hpp"
#include "measure/baseline.hpp"
#include "print/output.hpp"
#include "result/info.hpp"
#include "subject/tensors.hpp"
#include "work/work.hpp"

using namespace polyconv::bench;

namespace {

// Two processors, with a unit for bf16 that is 20 times as fast as f32's and one for s8.
Ceilings machine() {
  Ceilings ceilings{"a processor", 2, "2026-01-01T00:00:00Z", {}};
  for (const int threads : {1, 2})
    for (const auto &[kind, rate] :
         {std::pair("fma_f64", 50e9), std::pair("fma_f32", 100e9), std::pair("fma_bf16", 2000e9),
          std::pair("fma_s8", 4000e9), std::pair("copy", 10e9)})
      ceilings.rates.push_back({kind, "some", threads, threads * rate});
  return ceilings;
}

Work work_of(const std::string &token) {
  return parse_work(token, "");
}

// At what rate of operations the roof of a problem stands, on two threads.
double roof(const std::string &token, int32_t math) {
  const Work work = work_of(token);
  return flops_of(work) / seconds_at(machine(), 2, work, math).value();
}

Record row(double roofline) {
  Record record;
  record.problem = "p" + std::to_string(roofline);
  record.status = "good";
  record.median_us = 1;
  record.gflops = 1;
  record.roofline_pct = roofline;
  return record;
}

} // namespace

TEST_CASE("types and modes are held to the fastest unit that may compute them") {
  const std::string layer = "fwd:n64,c512,k512,i28x28,f3x3,p1:"; // far from the memory's roof
  CHECK(roof(layer + "f64", POLYCONV_MATH_STRICT) == doctest::Approx(100e9));
  CHECK(roof(layer + "f32", POLYCONV_MATH_STRICT) == doctest::Approx(200e9));
  CHECK(roof(layer + "f16", POLYCONV_MATH_STRICT) == doctest::Approx(200e9)); // no unit of its own here
  CHECK(roof(layer + "bf16", POLYCONV_MATH_STRICT) == doctest::Approx(4000e9));
  CHECK(roof(layer + "s8", POLYCONV_MATH_STRICT) == doctest::Approx(8000e9));
  CHECK(roof(layer + "f32", POLYCONV_MATH_FP32_EMULATED) == doctest::Approx(4000e9 / 3));
  CHECK(roof(layer + "f32", POLYCONV_MATH_FAST) == doctest::Approx(4000e9));
  const Work image = work_of("fwd:i4096x4096,f1x1");
  CHECK(seconds_at(machine(), 2, image, POLYCONV_MATH_STRICT).value() ==
        doctest::Approx(compulsory_bytes(image) / 20e9)); // memory's roof
  Ceilings without = machine();
  without.rates.erase(std::remove_if(without.rates.begin(), without.rates.end(),
                                     [](const Rate &rate) { return rate.kind == "fma_s8"; }),
                      without.rates.end());
  CHECK_FALSE(seconds_at(without, 2, work_of(layer + "s8"), POLYCONV_MATH_STRICT).has_value());
}

TEST_CASE("a network's roof is that of its layers, each with its own type") {
  Work network;
  network.layers = {work_of("fwd:n64,c64,k64,i28x28,f3x3,p1:bf16"), work_of("fwd:n64,c64,k64,i28x28,f3x3,p1")};
  network.layers[0].count = 3;
  const auto seconds = [&](const Work &work) { return seconds_at(machine(), 2, work, POLYCONV_MATH_STRICT).value(); };
  CHECK(seconds(network) == doctest::Approx(3 * seconds(network.layers[0]) + seconds(network.layers[1])));
}

TEST_CASE("rates that cannot be are told, and two threads have at least the ceiling of one") {
  const std::vector<std::string> kinds = {"copy", "fma_f32", "fma_f64", "fma_bf16", "fma_s8"};
  CHECK(doubts_about(machine(), kinds).empty());
  Ceilings busy = machine();
  for (Rate &rate : busy.rates)
    if (rate.kind == "copy" && rate.threads == 2) rate.per_second = 4e9;
  REQUIRE(doubts_about(busy, kinds).size() == 1);
  CHECK(doubts_about(busy, kinds)[0] == "copy: 2 threads reach 4.00 G/s, one alone 10.0 G/s");
  CHECK(busy.best("copy", 2).value() == 10e9);
  CHECK(busy.best("copy", 1).value() == 10e9);
  Ceilings slow = machine();
  for (Rate &rate : slow.rates)
    if (rate.kind == "fma_bf16") rate.per_second = 1e9;
  REQUIRE(doubts_about(slow, kinds).size() == 1);
  CHECK(doubts_about(slow, kinds)[0] == "multiply-add bf16 reaches 1.00 G/s, multiply-add f32 200 G/s");
  Ceilings old = machine(); // of a bench that knew only f32 and f64
  old.rates.resize(2);
  const std::vector<std::string> doubts = doubts_about(old, kinds);
  CHECK(std::count(doubts.begin(), doubts.end(), "multiply-add s8 is not measured") == 1);
}

TEST_CASE("without ceilings a run says how they are measured; rows above their roof are counted apart") {
  CHECK(ceilings_hint("cpu", std::nullopt).find("polyconv-bench info --ceilings") != std::string::npos);
  CHECK(ceilings_hint("cuda:0", machine()).empty());
  const std::string hint = "a hint";
  const std::string text = summary({row(50), row(1572), row(50.5)}, View::kTimes, 0, {hint});
  INFO(text);
  CHECK(text.find("1 of the rows are above their roof, and not in its mean") != std::string::npos);
  CHECK(text.find("50%") != std::string::npos);
  CHECK(text.find(hint) != std::string::npos);
  Record refused;
  refused.status = "unsupported";
  CHECK(summary({refused}, View::kTimes, 0, {hint}).empty()); // nothing was timed
}

TEST_CASE("every loop of this machine counts operations, and a meter refuses what it has no unit for") {
  std::vector<std::string> kinds;
  for (const FmaLoop &loop : fma_loops()) {
    CAPTURE(loop.variant);
    kinds.emplace_back(loop.kind);
    CHECK(loop.run(10) > 0);
    CHECK(loop.run(20) == 2 * loop.run(10));
  }
  for (const char *kind : {"fma_f32", "fma_f64"}) CHECK(std::count(kinds.begin(), kinds.end(), kind) >= 1);
  CpuMeter meter(1);
  CHECK(meter.has("fma_f32"));
  CHECK(meter.fma("fma_f32", 1e-4) > 0);
  CHECK_FALSE(meter.has("fma_abacus"));
  CHECK_THROWS_AS(meter.fma("fma_abacus", 1e-4), Unable);
}
