// bench_network.cpp - a whole network as one row: which layers it has and how often they run, what the row says, and
// that what is wrong with one layer names it. On the CPU, and on the fake device for graphs.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sstream>

#include "bench_files.hpp"
#include "fake_backends/fakes.hpp"
#include "judge/expect.hpp"
#include "judge/judge.hpp"
#include "measure/bench_row.hpp"
#include "print/output.hpp"
#include "result/info.hpp"
#include "result/json.hpp"
#include "skip.hpp"
#include "subject/network.hpp"
#include "subject/tensors.hpp"
#include "text/text.hpp"

using namespace polyconv::bench;

namespace {

const char *const kHeader =
    "name,groups,mb,ic,ih,iw,oc,oh,ow,kh,kw,sh,sw,ph_l,pw_l,dh,dw,ph_r,pw_r,count,spatial_dims\n";

// Three distinct layers of six: the third row repeats the first.
const char *const kRows =
    "stem,1,2,3,9,9,4,9,9,3,3,1,1,1,1,1,1,1,1,1,2\n"
    "body,1,2,4,9,9,4,9,9,3,3,1,1,1,1,1,1,1,1,3,2\n"
    "again,1,2,3,9,9,4,9,9,3,3,1,1,1,1,1,1,1,1,1,2\n"
    "head,1,2,4,9,9,5,9,9,1,1,1,1,0,0,1,1,0,0,1,2\n";

std::vector<Work> networks(const std::string &path, const std::vector<long long> &batches = {},
                           const std::vector<std::string> &dtypes = {}, const std::vector<std::string> &layouts = {}) {
  WorkRequest request;
  request.networks = {path};
  request.batches = batches;
  request.dtypes = dtypes;
  request.layouts = layouts;
  return collect_work(request);
}

// A tree for a GPU alone may have no backend that serves the CPU.
bool has_reference() {
  return why_missing("reference").empty();
}

Work tiny_network() {
  return networks(TemporaryFile(std::string(kHeader) + kRows).path()).at(0);
}

Job job_of(const Work &work, const std::string &kernel, const std::string &baseline = "") {
  Job job;
  job.work = work;
  job.device = "cpu";
  job.request.kernel = kernel;
  job.math = "strict";
  job.baseline = baseline;
  return job;
}

Record measured(const Job &job) {
  RunSettings settings;
  settings.min_seconds = 0;
  return Bench(settings).measure(job);
}

bool ends_with(const std::string &text, const std::string &ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

std::string table_of(const Record &record) {
  std::ostringstream out;
  RecordWriter writer("table", View::kTimes, out);
  writer.add(record);
  writer.finish();
  return out.str();
}

} // namespace

TEST_CASE("a network is every layer of its table as often as it occurs, one for each batch, type and layout") {
  const TemporaryFile file(std::string(kHeader) + kRows);
  const std::string name = std::filesystem::path(file.path()).stem().string();
  const Work network = networks(file.path()).at(0);
  CHECK(network.token == name + "@2");
  CHECK(network.name == "6 layers");
  CHECK(network.problems.empty());
  REQUIRE(network.layers.size() == 3);
  CHECK(network.layers[0].name == "stem");
  CHECK(network.layers[0].count == 2);
  CHECK(network.layers[1].count == 3);
  CHECK(network.layers[2].count == 1);
  const std::vector<Work> all = networks(file.path(), {1, 8}, {"f16", "f64"}, {"nhwc"});
  REQUIRE(all.size() == 4);
  CHECK(all[0].token == name + "@1:nhwc:f16");
  CHECK(all[3].token == name + "@8:nhwc:f64");
  CHECK(all[3].layers[1].token == "fwd:n8,c4,k4,i9x9,f3x3,p1:nhwc:f64");
}

TEST_CASE("a suite of tokens is a network too: each once, with an image's time only where all have one batch") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const TemporaryFile same("fwd:n4,c3,k4,i9x9,f3x3:nhwc:relu\nfwd:n4,c4,k5,i7x7,f3x3:nhwc\n", ".txt"),
      different("fwd:n4,c3,k4,i9x9,f3x3\nfwd:n1,c4,k5,i7x7,f3x3\n", ".txt");
  const Work one = networks(same.path()).at(0), other = networks(different.path()).at(0);
  CHECK(images_of(one) == 4);
  CHECK(ends_with(one.token, "@4:nhwc"));
  CHECK_FALSE(images_of(other).has_value());
  CHECK(other.token == other.suite);
  CHECK_FALSE(measured(job_of(other, "reference/*")).image_us.has_value());
}

TEST_CASE("ResNet-50 has its 53 convolutions, 8.2 GFLOP an image") {
  const Work network = networks("resnet50").at(0);
  CHECK(network.name == "53 layers");
  CHECK(network.token == "resnet50@1");
  CHECK(flops_of(network) == doctest::Approx(8.2e9).epsilon(0.02));
}

TEST_CASE("every occurrence of a layer runs, in order, with packed weights of its own") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const Work work = tiny_network();
  const polyconv_device *cpu = nullptr;
  REQUIRE(polyconv_device_find("cpu", &cpu) == POLYCONV_SUCCESS);
  BufferPool pool(cpu);
  int steps = 0;
  PlanRequest request;
  request.observer = [](void *count, int32_t step, const char *, void *) { *static_cast<int *>(count) += step == 0; };
  request.observer_context = &steps;
  Network network(cpu, work, request, pool, "workspace", int64_t{1} << 30);
  CHECK(steps == 6); // the first run
  network.run(2);
  CHECK(steps == 18);
  CHECK(network.layers().size() == 3);
  int64_t packed = 0;
  for (const Work &layer : work.layers) packed += layer.count * Planned(cpu, layer, request).weights_bytes();
  CHECK(network.weights_bytes() == packed);
}

TEST_CASE("the row of a network: times, rates, kernels and each layer") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const Work work = tiny_network();
  const Record record = measured(job_of(work, "reference/*", "reference"));
  REQUIRE(record.status == "good");
  CHECK(record.problem == work.token);
  CHECK(record.suite == work.suite);
  CHECK(record.name == "6 layers");
  CHECK(record.type == "f32");
  CHECK(record.clock == "wall");
  CHECK(record.check == "good");
  CHECK(record.kernel == "6x reference/convolve (fallback)");
  CHECK(record.fallback);
  CHECK(record.backend == "reference");
  CHECK(record.image_us.value() == doctest::Approx(record.median_us.value() / 2));
  CHECK(record.gflop.value() == doctest::Approx(2e-9 * 2 * 81 * (2 * 4 * 3 * 9 + 3 * 4 * 4 * 9 + 5 * 4)));
  CHECK(record.gflops.value() == doctest::Approx(*record.gflop * 1e6 / *record.median_us));
  CHECK(record.ratio.value() > 0);
  CHECK(record.baseline_kernel == record.kernel);
  REQUIRE(record.layers.size() == 3);
  CHECK(record.layers[1].name == "body");
  CHECK(record.layers[1].problem == "fwd:n2,c4,k4,i9x9,f3x3,p1");
  CHECK(record.layers[1].count == 3);
  CHECK(record.layers[1].kernel.rfind("reference/convolve@", 0) == 0);
  CHECK(json_line(record).find("\"layers\":[{\"name\":\"stem\"") != std::string::npos);
  CHECK(table_of(record).find("an image") != std::string::npos);
  Record steady = record;
  steady.p95_us = steady.median_us;
  CHECK(summary({steady, steady}, View::kTimes).empty()); // no mean of a network and its like
}

TEST_CASE("the kernels of a network are counted without their configs, the most frequent first") {
  const auto line = [](int64_t count, const std::string &kernel, bool fallback = false) {
    return LayerLine{"", "", count, kernel, "strict", fallback};
  };
  CHECK(kernels_text({line(1, "a/x@1"), line(2, "b/y@1 + a/pool@z"), line(3, "a/x@2"), line(2, "a/x@1", true)}) ==
        "4x a/x, 2x b/y + a/pool, 2x a/x (fallback)");
}

TEST_CASE("a row that one layer spoils names it") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const Work work = tiny_network();
  const Record refused = measured(job_of(work, "reference/pool*"));
  CHECK(refused.status == "unsupported");
  CHECK(refused.reason.rfind("layer stem: ", 0) == 0);
  const Record missing = measured(job_of(work, "nosuch/*"));
  CHECK(missing.status == "unavailable");
  const Record without = measured(job_of(work, "reference/*", "reference/pool*"));
  CHECK(without.status == "good");
  CHECK(without.baseline_reason.rfind("unsupported: layer stem: ", 0) == 0);

  const TemporaryFile large("fwd:n1,c1,k1,i9x9,f3x3\nfwd:n100000,i8192x8192,f3x3\n", ".txt");
  const Record skipped = measured(job_of(networks(large.path()).at(0), ""));
  CHECK(skipped.status == "skipped");
  CHECK(skipped.reason.find("TiB") != std::string::npos);
  CHECK(skipped.reason.find("the largest layer is fwd:n100000,c1,k1,i8192x8192,f3x3") != std::string::npos);

  const TemporaryFile gradient("fwd:n1,c4,k4,i9x9,f3x3\nbwd_d:n1,c4,k4,i9x9,f3x3\n", ".txt");
  const Record invalid = measured(job_of(networks(gradient.path(), {}, {"s8-s8-s32"}).at(0), "reference/*"));
  CHECK(invalid.status == "invalid argument");
  CHECK(invalid.reason.rfind("layer bwd_d:n1,c4,k4,i9x9,f3x3: --dtype s8-s8-s32: ", 0) == 0);
}

TEST_CASE("layers of several types and directions share no memory that one writes and another reads") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const TemporaryFile file(
      "fwd:n2,c4,k4,i9x9,f3x3\nfwd:n2,c4,k4,i9x9,f3x3:s8-s8-s32\n"
      "bwd_d:n2,c4,k4,i9x9,f3x3\nbwd_w:n2,c4,k4,i9x9,f3x3:bias\n",
      ".txt");
  const Record record = measured(job_of(networks(file.path()).at(0), "reference/*"));
  CHECK(record.status == "good");
  CHECK(record.check == "good");
  CHECK(record.type == "mixed");
}

TEST_CASE("a table says with count how often a layer occurs, once where it does not") {
  CHECK_THROWS_WITH_AS(
      networks(TemporaryFile(std::string(kHeader) + "a,1,1,3,9,9,4,7,7,3,3,1,1,0,0,1,1,0,0,0,2\n").path()),
      doctest::Contains("count must be at least 1"), Error);
  const std::string without = "name,groups,mb,ic,ih,iw,oc,oh,ow,kh,kw,sh,sw,ph_l,pw_l,dh,dw,ph_r,pw_r,spatial_dims\n";
  const TemporaryFile file(without + "a,1,1,3,9,9,4,7,7,3,3,1,1,0,0,1,1,0,0,2\n");
  CHECK(networks(file.path()).at(0).layers.at(0).count == 1);
  CHECK_THROWS_WITH_AS(networks("nosuch"), doctest::Contains("there are awkward"), Error);
}

TEST_CASE("a bar of an expectation file may be about a network") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  const TemporaryFile suite(std::string(kHeader) + kRows);
  const std::string row = "network:" + suite.path() + "@3,f32,strict,reference/*,reference,0.0001,,nhwc\n";
  const TemporaryFile file("problem,type,math,kernel,baseline,least_ratio,baseline_max_us,layout\n" + row);
  const std::vector<Expectation> bars = load_expectations(file.path());
  REQUIRE(bars.size() == 1);
  CHECK_FALSE(bars[0].of_suites);
  REQUIRE(bars[0].works.size() == 1);
  CHECK(ends_with(bars[0].about, "@3:nhwc"));
  Record record = measured(job_of(bars[0].works[0], "reference/*", "reference"));
  CHECK(broken_expectations(bars, {record}).empty());
  REQUIRE(record.layers.size() == 3);
  record.layers[1].kernel = "other/kernel@config"; // one layer on another kernel
  REQUIRE(broken_expectations(bars, {record}).size() == 1);
  CHECK(broken_expectations(bars, {record})[0].find("other/kernel@config ran, not reference/*") != std::string::npos);
}

TEST_CASE("on a device a network is one graph, and so is its baseline") {
  if (!std::filesystem::exists(fakes::path("device"))) return polyconv_test::skip("the fake device is not built");
  polyconv_backend_load(fakes::path("device").c_str()); // refused the second time, which is as good
  Job job = job_of(tiny_network(), "fake-device/bound", "fake-device/packed");
  job.device = "fake";
  const Record record = measured(job);
  REQUIRE(record.status == "good");
  CHECK(record.clock == "graph");
  CHECK(record.wall_us.value() > 0);
  CHECK(record.ratio.value() > 0);
  CHECK(record.kernel == "6x fake-device/bound");
  CHECK(record.baseline_kernel == "6x fake-device/packed");
  job.baseline = "copy";
  CHECK(measured(job).ratio.value() > 0);
  job.baseline.clear();
  CHECK(measured(job).clock == "graph");
}

TEST_CASE("a profile of a network has a line for each layer, and the lines add up to the run") {
  if (!has_reference()) return polyconv_test::skip("the backend reference is not here");
  for (const std::string device : {"cpu", "fake"}) {
    if (device == "fake" && !std::filesystem::exists(fakes::path("device")))
      return polyconv_test::skip("the fake device is not built");
    RunSettings settings;
    settings.min_seconds = 0;
    settings.profile = true;
    Job job = job_of(tiny_network(), device == "cpu" ? "reference/*" : "fake-device/direct");
    job.device = device;
    const Record record = Bench(settings).measure(job);
    REQUIRE(record.status == "good");
    std::vector<std::string> layers;
    double sum = 0;
    for (const ProfileLine &line : record.profile) {
      if (line.kind != "layer") continue;
      layers.push_back(line.name);
      sum += (device == "cpu" ? line.host_us : line.device_us).value();
    }
    REQUIRE(layers.size() == 3);
    CHECK(layers[0].rfind("2x stem: " + job.request.kernel.substr(0, job.request.kernel.find('/')), 0) == 0);
    CHECK(layers[1].rfind("3x body: ", 0) == 0);
    CHECK(layers[2].rfind("1x head: ", 0) == 0);
    CHECK(record.profile.front().name == "polyconv_run, of all layers");
    CHECK(sum > 0.2 * *record.median_us); // other work of this machine may make either longer
    CHECK(sum < 20 * *record.median_us);
  }
}
