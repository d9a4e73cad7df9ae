// bench_suites.cpp - every suite that ships: each token parses, is valid and canonical once read again; and how suites
// and the command line's overrides are put together.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <set>

#include "bench_files.hpp"
#include "judge/expect.hpp"
#include "system/machine.hpp"
#include "text/text.hpp"
#include "work/suite.hpp"
#include "work/work.hpp"

using namespace polyconv::bench;

namespace {

std::vector<std::string> tokens_of(const std::vector<Work> &works) {
  std::vector<std::string> tokens;
  tokens.reserve(works.size());
  for (const Work &work : works) tokens.push_back(work.token);
  return tokens;
}

} // namespace

TEST_CASE("every suite that ships is read, and every problem of it is valid") {
  const std::map<std::string, size_t> sizes = {{"awkward", 58},
                                               {"census", 597},
                                               {"census_video", 7},
                                               {"chains_tiny", 13},
                                               {"filters", 26},
                                               {"mobilenet_blocks", 12},
                                               {"mobilenet_pairs", 12},
                                               {"mobilenet_v2", 30},
                                               {"resnet50", 23},
                                               {"sd15_unet", 35},
                                               {"seeds", 14 * 4 + 9},
                                               {"tiny", 39},
                                               {"unet", 34},
                                               {"vgg16", 9}};
  std::set<std::string> expected;
  for (const auto &[name, size] : sizes) expected.insert(name);
  const std::vector<std::string> names = suite_names();
  CHECK(std::set<std::string>(names.begin(), names.end()) == expected);
  for (const std::string &name : names) {
    const std::vector<Work> works = load_suite(name, true);
    INFO(name);
    if (sizes.count(name) > 0) CHECK(works.size() == sizes.at(name));
    std::set<std::string> distinct;
    for (const Work &work : works) {
      INFO(work.token);
      CHECK(work.suite == name);
      CHECK(polyconv_problem_validate(work.problems.data(), static_cast<int32_t>(work.problems.size())) ==
            POLYCONV_SUCCESS);
      CHECK(parse_work(work.token, "").token == work.token);
      CHECK_MESSAGE(distinct.insert(work.token).second, "twice in the suite");
    }
  }
}

TEST_CASE("tiny has every row of types and every direction") {
  std::set<std::string> types;
  std::set<std::string> directions;
  std::set<int> dimensions;
  for (const Work &work : load_suite("tiny", true)) {
    const polyconv_problem &p = work.problems[0];
    types.insert(std::string(polyconv_type_name(p.input_type)) + "-" + polyconv_type_name(p.weights_type) + "-" +
                 polyconv_type_name(p.output_type));
    directions.insert(work.token.substr(0, work.token.find(':')));
    dimensions.insert(p.spatial_dims);
  }
  for (const char *type :
       {"f64-f64-f64", "f32-f32-f32", "f16-f16-f16", "f16-f16-f32", "bf16-bf16-bf16", "bf16-bf16-f32", "s8-s8-s32",
        "s8-s8-s8", "u8-s8-u8", "u8-u8-s32", "u8-s8-f32", "u8-f32-u8", "u8-f32-f32", "u16-f32-u16"})
    CHECK_MESSAGE(types.count(type) == 1, std::string(type));
  CHECK(directions == std::set<std::string>{"fwd", "bwd_d", "bwd_w", "tfwd", "tbwd_d", "tbwd_w"});
  CHECK(dimensions == std::set<int>{1, 2, 3});
}

TEST_CASE("seeds are what was asked for") {
  WorkRequest request;
  request.suites = {"seeds"};
  request.batches = {100};
  const std::vector<std::string> tokens = tokens_of(collect_work(request));
  const std::set<std::string> all(tokens.begin(), tokens.end());
  CHECK(all.size() == 14 + 9);
  for (const char *token :
       {"fwd:n100,c1,k4,i86x86,f7x7", "fwd:n100,c12,k24,i33x33,f7x7,s2", "fwd:n100,c1,k6,i28x28,f5x5,p2",
        "fwd:n100,c6,k16,i28x28,f4x4,s2", "fwd:n100,c16,k8,i13x13,f3x3,p1", "fwd:n100,c8,k4,i13x13,f3x3",
        "fwd:n1,c1,k1,i8192x8192,f7x7,p3"})
    CHECK_MESSAGE(all.count(token) == 1, std::string(token));
}

TEST_CASE("overrides and sweeps multiply; what they make invalid is kept with its reason") {
  WorkRequest request;
  request.tokens = {"fwd:n1,c4,k6,i9x9,f3x3"};
  request.batches = {2, 3};
  request.sweeps = {parse_sweep("i=8,10")};
  request.dtypes = {"f16", "f64"};
  request.layouts = {"nhwc"};
  const std::vector<std::string> tokens = tokens_of(collect_work(request));
  CHECK(tokens.size() == 8);
  CHECK(tokens.front() == "fwd:n2,c4,k6,i8x8,f3x3:nhwc:f16");
  CHECK(tokens.back() == "fwd:n3,c4,k6,i10x10,f3x3:nhwc:f64");

  request = WorkRequest();
  request.tokens = {"fwd:n1,c4,k6,i9x9,f3x3"};
  request.directions = {"bwd_d", "bwd_w"};
  CHECK(tokens_of(collect_work(request)) ==
        std::vector<std::string>{"bwd_d:n1,c4,k6,i9x9,f3x3", "bwd_w:n1,c4,k6,i9x9,f3x3"});
  request.tokens = {"tfwd:n1,c4,k6,i9x9,f3x3,s2"}; // whose gradients are a transposed layer's too
  CHECK(tokens_of(collect_work(request)) ==
        std::vector<std::string>{"tbwd_d:n1,c4,k6,i9x9,f3x3,s2", "tbwd_w:n1,c4,k6,i9x9,f3x3,s2"});

  request = WorkRequest();
  request.tokens = {"fwd:n1,c4,k6,g2,i9x9,f3x3"};
  request.sweeps = {parse_sweep("c=4:6:1")};
  const std::vector<Work> works = collect_work(request);
  REQUIRE(works.size() == 3);
  CHECK(works[0].invalid.empty());
  CHECK(works[1].invalid.find("groups") != std::string::npos);
  request.sweeps = {parse_sweep("z=1")};
  CHECK(collect_work(request).front().invalid.find("z1") != std::string::npos);
  request.sweeps.clear();
  request.dtypes = {"f99"};
  CHECK_THROWS_WITH_AS(collect_work(request), doctest::Contains("'f99' is none of"), Error);
}

TEST_CASE("a problem that stands twice is measured once") {
  WorkRequest request;
  request.tokens = {"fwd:c4,k6,i9x9", "fwd:n1,c4,k6,i9x9,f1x1"};
  CHECK(collect_work(request).size() == 1);
}

TEST_CASE("chains come from a file") {
  const TemporaryFile good("# two layers\nfwd:c3,k4,i9x9,f3x3:relu\n\nfwd:c4,k5,i7x7,f3x3\n", ".txt");
  WorkRequest request;
  request.chains = {good.path()};
  const std::vector<Work> works = collect_work(request);
  REQUIRE(works.size() == 1);
  CHECK(works[0].problems.size() == 2);
  CHECK(works[0].token == "fwd:n1,c3,k4,i9x9,f3x3:relu > fwd:n1,c4,k5,i7x7,f3x3");
  const TemporaryFile apart("fwd:c3,k4,i9x9,f3x3\nfwd:c5,k5,i7x7,f3x3\n", ".txt"), empty("# no layer\n", ".txt");
  request.chains = {apart.path()};
  CHECK_THROWS_WITH_AS(collect_work(request), doctest::Contains("layer 1"), Error);
  request.chains = {empty.path()};
  CHECK_THROWS_WITH_AS(collect_work(request), doctest::Contains("0 layers"), Error);
  request.chains = {"nosuch"};
  CHECK_THROWS_WITH_AS(collect_work(request), doctest::Contains("there are image-f32"), Error);
}

TEST_CASE("chains come from tokens, suites and by name, and every one that ships makes sense") {
  const std::string pair = "fwd:n1,c3,k4,i9x9,f3x3:relu > fwd:n1,c4,k5,i7x7,f3x3";
  CHECK(parse_work("fwd:c3,k4,i9x9,f3x3:relu>fwd:c4,k5,i7x7,f3x3", "").token == pair);
  CHECK_THROWS_WITH_AS(parse_work("fwd:c3,k4,i9x9 > fwd:c3,k4,i9x9", ""),
                       doctest::Contains("layer 1: in_channels is 3"), Error);
  CHECK_THROWS_WITH_AS(parse_work(pair + " >", ""), doctest::Contains("token"), Error);
  const TemporaryFile suite("@batch=1,3\n" + pair + " # both\nfwd:i8x8\n", ".txt");
  const std::vector<Work> works = load_suite(suite.path(), true);
  REQUIRE(works.size() == 4);
  CHECK(works[1].problems[1].batch == 3);
  size_t named = 0;
  for (const auto &entry : std::filesystem::directory_iterator(data_folder("suites") / "chains")) {
    const Work chain = load_chain(entry.path().stem().string());
    CHECK(chain.problems.size() > 1);
    CHECK(chain.name == entry.path().stem().string());
    ++named;
  }
  CHECK(named >= 7);
}

TEST_CASE("what changes in one layer of a chain the others follow") {
  WorkRequest request;
  request.tokens = {"fwd:n1,c3,k8,i9x9,f3x3,p1:relu > fwd:n1,c8,k8,g8,i9x9,f3x3,s2,p1 > fwd:n1,c8,k5,i5x5,f1x1"};
  const auto changed = [&](const std::vector<std::string> &sweeps) {
    request.sweeps.clear();
    for (const std::string &sweep : sweeps) request.sweeps.push_back(parse_sweep(sweep));
    const Work work = collect_work(request).front();
    return work.invalid.empty() ? work.token : work.invalid;
  };
  CHECK(changed({"k=16"}) ==
        "fwd:n1,c3,k16,i9x9,f3x3,p1:relu > fwd:n1,c16,k16,g16,i9x9,f3x3,s2,p1 > fwd:n1,c16,k5,i5x5,f1x1");
  CHECK(changed({"i=20"}) ==
        "fwd:n1,c3,k8,i20x20,f3x3,p1:relu > fwd:n1,c8,k8,g8,i20x20,f3x3,s2,p1 > fwd:n1,c8,k5,i10x10,f1x1");
  CHECK(changed({"2.k=7", "1.s=1"}) ==
        "fwd:n1,c3,k8,i9x9,f3x3,p1:relu > fwd:n1,c8,k8,g8,i9x9,f3x3,p1 > fwd:n1,c8,k7,i9x9,f1x1");
  CHECK(changed({"3.k=7"}).find("3.k=7 is for layer 3; expected a layer from 0 to 2") != std::string::npos);
  CHECK(changed({"1.f=30"}).find("after 1.f=30: ") != std::string::npos);
  CHECK_THROWS_WITH_AS(parse_sweep("x.k=7"), doctest::Contains("whole number"), Error);
  request.sweeps.clear();
  request.batches = {4};
  request.dtypes = {"f16"};
  const Work work = collect_work(request).front();
  for (const polyconv_problem &layer : work.problems) {
    CHECK(layer.batch == 4);
    CHECK(layer.weights_type == POLYCONV_F16);
  }
}

TEST_CASE("wrong suites are refused in words") {
  const auto refused = [](const std::string &text, const std::string &extension, const char *words) {
    const TemporaryFile file(text, extension);
    CHECK_THROWS_WITH_AS(load_suite(file.path(), true), doctest::Contains(words), Error);
  };
  CHECK_THROWS_WITH_AS(load_suite("nosuch", true), doctest::Contains("resnet50"), Error);
  CHECK_THROWS_WITH_AS(load_suite("no/such.txt", true), doctest::Contains("not a file"), Error);
  refused("fwd:i8x8\nfwd:n1\n", ".txt", ":2: ");
  refused("@size=3\n", ".txt", "unknown directive");
  refused("@batch=x\n", ".txt", "whole number");
  refused("# nothing\n", ".txt", "no problem");
  const std::string header =
      "name,groups,mb,ic,ih,iw,oc,oh,ow,kh,kw,sh,sw,ph_l,pw_l,dh,dw,ph_r,pw_r,count,spatial_dims\n";
  refused(header + "a,1,1,3,9,9,4,8,7,3,3,1,1,0,0,1,1,0,0,1,2\n", ".csv", "oh is 8, but the other columns make it 7");
  refused(header + "a,2,1,3,9,9,4,7,7,3,3,1,1,0,0,1,1,0,0,1,2\n", ".csv", "groups");
  refused(header + "a,1,1,3,9,9,4,7,7,3,3,1,1,0,0,1,1,0,0,1,4\n", ".csv", "spatial_dims");
  refused(header + "a,1,1,3,9,9,4,7,7,3,3,1,1,0,0,1,1,0,0,1,3\n", ".csv", "no column 'id'");
}

TEST_CASE("the shipped expectations are read, and their layers stand in the suites that they are about") {
  const std::vector<Expectation> expectations = load_expectations("cpu-foundation");
  CHECK(expectations.size() == 8);
  std::set<std::string> known;
  for (const char *suite : {"resnet50", "seeds"})
    for (const Work &work : load_suite(suite, true)) known.insert(work.token);
  for (const Expectation &e : expectations) CHECK_MESSAGE(known.count(e.about) == 1, e.about);
  size_t three_by_three = 0;
  for (const Work &work : load_suite("resnet50", true)) three_by_three += work.problems[0].kernel_size[0] == 3 ? 1 : 0;
  CHECK(three_by_three == 7); // each has its bar
}

TEST_CASE("every file of expectations that ships is read") {
  size_t files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(data_folder("expect"))) {
    CHECK_MESSAGE(!load_expectations(entry.path().stem().string()).empty(), entry.path());
    ++files;
  }
  CHECK(files >= 5);
}

TEST_CASE("the bars against oneDNN: which layers each is about") {
  const std::vector<Expectation> bars = load_expectations("cpu");
  REQUIRE(bars.size() == 12);
  CHECK(bars[0].works.size() == 2 * 23 + 9 + 34); // resnet50 at two batches, vgg16, unet
  CHECK(bars[0].least_each == 0.85);
  for (const size_t depthwise : {2, 3}) {
    CHECK(bars[depthwise].works.size() == 10);
    for (const Work &work : bars[depthwise].works) CHECK(work.problems[0].groups == work.problems[0].in_channels);
  }
  for (const Work &work : bars[4].works) CHECK(work.problems[0].kernel_size[0] == 1);
  const std::vector<Expectation> amx = load_expectations("cpu-amx");
  REQUIRE(amx.size() == 4);
  CHECK(amx[3].works.size() == 22); // all but the 7x7
}

TEST_CASE("the bars over the census: the layers of each, all of them of the direction and type that they say") {
  const std::vector<Expectation> gpu = load_expectations("h200-census");
  REQUIRE(gpu.size() == 17);
  CHECK(gpu[0].works.size() == 597);
  CHECK(gpu[1].works.size() == 120); // every fifth
  CHECK(gpu[0].most_below == 0.04);
  CHECK(gpu[0].least_sum == 1.1);
  for (const Work &work : gpu[2].works) CHECK(work.problems[0].batch == 1);
  for (const Work &work : gpu[6].works) CHECK(work.problems[0].direction == POLYCONV_BACKWARD_WEIGHTS);
  for (const Expectation &e : gpu) {
    INFO(e.where);
    if (e.about.rfind("suite:census (", 0) == 0)
      CHECK(e.works.size() == (e.about.find("one in 5") < e.about.size() ? 120 : 597));
  }
  size_t transposed = 0;
  for (const Work &work : gpu[4].works) transposed += work.problems[0].transposed != 0 ? 1 : 0;
  CHECK(transposed == 18);
  CHECK(gpu[12].works.size() == 7);
  for (const size_t one : {14, 15, 16}) // the times are of layers that stand in the suite
    CHECK(gpu[12].concerns(gpu[one].about));
  const std::vector<Expectation> cpu = load_expectations("cpu-census");
  REQUIRE(cpu.size() == 7);
  for (size_t i = 0; i < 6; ++i)
    for (const Work &work : cpu[i].works) CHECK(work.problems[0].batch == 1);
}
