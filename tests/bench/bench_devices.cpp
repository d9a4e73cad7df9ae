// bench_devices.cpp - what the bench does with devices that have memory of their own, on the fake one: ceilings,
// clocks, profiles; and how it orders a sweep over configs.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "ceilings/device_meter.hpp"
#include "command/ladder.hpp"
#include "fake_backends/fakes.hpp"
#include "measure/bench_row.hpp"
#include "print/config_table.hpp"
#include "skip.hpp"
#include "text/text.hpp"

using namespace polyconv::bench;

namespace {

// The first fake device; NULL, and the test is skipped, where the fake is not built.
const polyconv_device *fake_device() {
  const std::string path = fakes::path("device");
  const polyconv_device *device = nullptr;
  if (!std::filesystem::exists(path)) return polyconv_test::skip("the fake device is not built"), nullptr;
  polyconv_backend_load(path.c_str()); // refused the second time, which is as good
  REQUIRE(polyconv_device_find("fake", &device) == POLYCONV_SUCCESS);
  return device;
}

Job job_on_fake(const std::string &kernel, const std::string &baseline = "") {
  Job job;
  job.work = parse_work("fwd:n1,c3,k4,i9x9,f3x3", "test");
  job.device = "fake";
  job.request.kernel = kernel;
  job.math = "strict";
  job.baseline = baseline;
  return job;
}

RunSettings quick() {
  RunSettings settings;
  settings.min_seconds = 0;
  return settings;
}

Record config(const std::string &requested, double us) {
  Record record;
  record.problem = "p";
  record.requested = requested;
  if (us > 0) record.median_us = us, record.kernel = requested;
  if (us <= 0) record.status = "unsupported", record.reason = "takes one channel";
  return record;
}

} // namespace

TEST_CASE("the peak multiply-add rate is units x lanes x 2 x clock, and unknown where the lanes are") {
  auto properties = sized<polyconv_device_properties>();
  properties.compute_units = 132;
  properties.compute_capability = 90;
  properties.clock_mhz = 1980;
  CHECK(peak_fma(properties, "fma_f32").value() == doctest::Approx(66.908e12).epsilon(1e-4));
  CHECK(peak_fma(properties, "fma_f64").value() == doctest::Approx(33.454e12).epsilon(1e-4));
  CHECK(peak_fma(properties, "fma_f16").value() == doctest::Approx(16 * 66.908e12).epsilon(1e-4)); // tensor cores
  CHECK(peak_fma(properties, "fma_bf16") == peak_fma(properties, "fma_f16"));
  CHECK(peak_fma(properties, "fma_tf32").value() == doctest::Approx(8 * 66.908e12).epsilon(1e-4));
  CHECK(peak_fma(properties, "fma_s8").value() == doctest::Approx(32 * 66.908e12).epsilon(1e-4));
  CHECK_FALSE(peak_fma(properties, "copy").has_value());
  properties.compute_capability = 1;
  CHECK_FALSE(peak_fma(properties, "fma_f32").has_value());
  properties.compute_capability = 90;
  properties.clock_mhz = 0;
  CHECK_FALSE(peak_fma(properties, "fma_f32").has_value());
}

TEST_CASE("a device's copy rate is measured, what it does not tell is said") {
  const polyconv_device *device = fake_device();
  if (!device) return;
  const Ceilings ceilings = measure_device_ceilings(device);
  REQUIRE(ceilings.rates.size() == 1); // no lanes are known of it
  CHECK(ceilings.rates[0].kind == "copy");
  CHECK(ceilings.rates[0].per_second > 1e6);
  CHECK(ceilings.best("copy", ceilings.processors).value() == ceilings.rates[0].per_second);
  DeviceMeter meter(device);
  CHECK_THROWS_WITH_AS(meter.fma("fma_f32", 0), doctest::Contains("fake device 0 is not known"), Unable);
}

TEST_CASE("rows on a device are timed by events, in a graph where they are compared or where that is asked for") {
  if (!fake_device()) return;
  Bench plain(quick());
  const Record alone = plain.measure(job_on_fake("fake-device/direct"));
  CHECK(alone.status == "good");
  CHECK(alone.clock == "events");
  CHECK(alone.wall_us.value() > 0);
  CHECK(alone.cold_ratio.value() > 0);
  const Record compared = plain.measure(job_on_fake("fake-device/direct", "fake-device/packed"));
  CHECK(compared.clock == "graph");
  CHECK(compared.ratio.value() > 0);
  const Record copy = plain.measure(job_on_fake("fake-device/direct", "copy"));
  CHECK(copy.clock == "graph");
  CHECK(copy.ratio.value() > 0);
  const Record fma = plain.measure(job_on_fake("fake-device/direct", "fma"));
  CHECK(fma.status == "good");
  CHECK(fma.baseline_reason == "unsupported: no multiply-add rate is known for the types of this problem");
  CHECK_FALSE(fma.ratio.has_value());
  RunSettings graph = quick();
  graph.graph = true;
  graph.cache = Cache::kCold;
  const Record captured = Bench(graph).measure(job_on_fake("fake-device/bound"));
  CHECK(captured.status == "good");
  CHECK(captured.clock == "graph");
  CHECK_FALSE(captured.cold_ratio.has_value());
}

TEST_CASE("a profile has every call, step and copy, with the host's time and the device's") {
  if (!fake_device()) return;
  RunSettings settings = quick();
  settings.profile = true;
  for (const char *kernel : {"fake-device/packed", "fake-device/bound"}) {
    INFO(std::string(kernel));
    const Record record = Bench(settings).measure(job_on_fake(kernel));
    REQUIRE(record.status == "good");
    std::set<std::string> kinds, names;
    for (const ProfileLine &line : record.profile) {
      kinds.insert(line.kind);
      names.insert(line.name);
      if (line.kind == "step") CHECK(line.device_us.value() > 0);
      if (line.kind == "call") CHECK(line.host_us.value() > 0);
      if (line.bytes) CHECK(line.device_us.value() > 0);
    }
    const bool bound = record.kernel == "fake-device/bound@only";
    CHECK(kinds == std::set<std::string>{"call", "copy in", "copy out", "step"});
    CHECK(names.count("polyconv_plan_create") == 1);
    CHECK(names.count(bound ? "polyconv_run_bound" : "polyconv_run") == 1);
    CHECK(names.count(bound ? "polyconv_bind" : "polyconv_weights_create, and the wait for it") == 1);
    CHECK(names.count("polyconv_graph_launch, of one run") == 1);
    CHECK(names.count("1: " + record.kernel) == 1);
    CHECK(names.count("input, pinned host memory") == 1);
    CHECK(names.count("output, ordinary host memory") == 1);
  }
}

TEST_CASE("a sweep is ordered by kernel, fastest config first; the best is marked, like refusals share a row") {
  const std::vector<Record> ordered =
      ordered_by_config({config("a/x@1", 30), config("a/x@2", 20), config("a/y@1", 0), config("a/y@2", 0),
                         config("b/z@1", 10), config("b/z@2", 40), config("b/z@3", 0)});
  std::vector<std::string> names;
  names.reserve(ordered.size());
  for (const Record &record : ordered) names.push_back(record.requested);
  CHECK(names == std::vector<std::string>{"a/x@2", "a/x@1", "b/z@1", "b/z@2", "a/y, 2 configs", "b/z@3"});
  for (const Record &record : ordered) CHECK(record.best == (record.requested == "b/z@1"));
  std::vector<Record> two = {config("a/x@1", 30), config("a/x@1", 20)};
  two[1].problem = "q";
  for (const Record &record : ordered_by_config(two)) CHECK(record.best); // each of its own problem
}

TEST_CASE("ladders name each technique once, the simplest first") {
  CHECK(ladder_of("cuda").front().technique == std::string("direct"));
  CHECK(ladder_of("cuda").size() == 8);
  CHECK(ladder_of("cpu").front().kernels == std::string("reference/*"));
  CHECK(ladder_of("abacus").empty());
}

TEST_CASE("every rung of the ladders names a kernel, where its backend is there") {
  for (const char *kind : {"cpu", "cuda"}) {
    const std::vector<std::string> names = polyconv::check::kernel_names(kind);
    for (const Rung &rung : ladder_of(kind)) {
      const std::string glob = rung.kernels;
      const auto some = [&](const std::string &wanted) {
        return std::any_of(names.begin(), names.end(),
                           [&](const std::string &name) { return glob_match(wanted, name); });
      };
      CHECK_MESSAGE((some(glob) || !some(backend_of(glob) + "/*")), glob);
    }
  }
}
