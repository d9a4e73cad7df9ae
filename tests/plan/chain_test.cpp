// chain_test.cpp - several layers in one plan: fused kernels against layers one by one, groups of some, residuals from
// anywhere, and intermediates that live exactly as long as somebody needs them.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"

namespace {

using namespace job;

const std::string kA = "fwd:n2,c4,k4,i8x8,f3x3,p1:bias+relu";
const std::string kB = "fwd:n2,c4,k4,g4,i8x8,f1x1:bias"; // keeps numbers small enough to stay exact
const std::string kSum = "fwd:n2,c4,k4,i8x8,f3x3,p1:residual=";

polyconv_options probe(const char *kernels) {
  load("plan_probe");
  return options(kernels);
}

} // namespace

TEST_CASE("layers one by one, with what lies between in the workspace") {
  for (const size_t count : {size_t{2}, size_t{3}, size_t{8}}) {
    Job job(std::vector<std::string>(count, kB));
    check_against_reference(&job, probe("fake-plan-probe/ties"));
    CHECK(job.steps == static_cast<int32_t>(count));
    // Two images of 4 channels of 8 x 8 in f32; two of them take turns, whatever the length.
    const int64_t one = 2 * 4 * 8 * 8 * 4;
    CHECK(info(plan(job.problems, probe("fake-plan-probe/ties"))).workspace_bytes == (count == 2 ? one : 2 * one));
  }
}

TEST_CASE("a fused kernel is taken where its estimate is below the sum of the layers'") {
  const struct {
    const char *kernels;
    size_t layers;
    const char *taken;
  } cases[] = {
      // 12 us for two against 15 each, 40 for any number, 50 each.
      {"scratch,fuses_two", 2, "fuses_two"},
      {"scratch,fuses_two", 3, "fuses_two + scratch"},
      {"scratch,fuses_two", 4, "fuses_two + fuses_two"},
      {"scratch,fuses_all", 2, "scratch + scratch"},
      {"scratch,fuses_all", 3, "fuses_all"},
      {"ties,fuses_all", 8, "fuses_all"},
      {"fuses_two,fuses_all", 5, "fuses_all"},
      {"likes_first,fuses_two", 2, "fuses_two"},
      {"atomic,fuses_two", 2, "atomic + atomic"}, // 4 each
  };
  for (const auto &one : cases) {
    CAPTURE(std::string(one.kernels));
    CAPTURE(one.layers);
    const std::string names = one.kernels, first = names.substr(0, names.find(',')),
                      second = names.substr(names.find(',') + 1);
    const std::string globs = "fake-plan-probe/" + first + ",fake-plan-probe/" + second;
    polyconv_options o = probe(globs.c_str());
    o.determinism = POLYCONV_DETERMINISM_NONE;
    Job job(std::vector<std::string>(one.layers, kB));
    check_against_reference(&job, o);
    std::string taken;
    for (size_t at = 0; (at = job.kernel.find("plan-probe/", at)) != std::string::npos; ++at) {
      const size_t begin = at + 11;
      taken += (taken.empty() ? "" : " + ") + job.kernel.substr(begin, job.kernel.find('@', at) - begin);
    }
    CHECK(taken == one.taken);
  }
}

TEST_CASE("residuals come from a buffer, the chain's input or any layer before") {
  for (const char *kernels : {"fake-plan-probe/ties", "fake-plan-probe/ties,fake-plan-probe/fuses_two",
                              "fake-plan-probe/ties,fake-plan-probe/fuses_all", "reference/*"}) {
    CAPTURE(std::string(kernels));
    for (const std::vector<std::string> &chain : std::vector<std::vector<std::string>>{
             {kA, kSum + "input"},
             {kA, kSum + "layer0"},
             {kA, kB, kSum + "layer0"},
             {kA, kB, kSum + "input", kB, kSum + "layer2"},
             {kA, kB, kB, kB, kSum + "layer0+relu"}, // alive over three layers
             {kA, "fwd:n2,c4,k4,i8x8,f3x3,p1:residual+relu", kSum + "layer0"},
             {kA, kSum + "layer0", kSum + "layer1", kSum + "layer0"},
         }) {
      Job job(chain);
      CAPTURE(chain.back());
      check_against_reference(&job, probe(kernels));
    }
  }
}

TEST_CASE("what a later layer needs is not hidden inside a fused kernel") {
  // fuses_two would take layers 0 and 1, but layer 2 needs what lies between them.
  Job job({kA, kB, kSum + "layer0"});
  check_against_reference(&job, probe("fake-plan-probe/ties,fake-plan-probe/fuses_two"));
  CHECK(job.kernel == "fake-plan-probe/ties@only + fake-plan-probe/fuses_two@only");
}

TEST_CASE("options.grouping forces which layers are one, whatever is faster") {
  const struct {
    const char *grouping;
    size_t layers;
    std::vector<const char *> taken;
  } cases[] = {
      {"none", 3, {"ties", "ties", "ties"}},
      {"1", 2, {"ties", "ties"}},
      {"2", 4, {"fuses_two", "fuses_two"}},
      {"2", 3, {"fuses_two", "ties"}},
      {"3", 4, {"fuses_all", "ties"}},
      {"4", 4, {"fuses_all"}},
      {"8", 3, {"fuses_all"}}, // as many as there are
      {"2+2", 4, {"fuses_two", "fuses_two"}},
      {"1+3", 4, {"ties", "fuses_all"}},
      {"1+2+1", 4, {"ties", "fuses_two", "ties"}},
      {"2+3+1+2", 8, {"fuses_two", "fuses_all", "ties", "fuses_two"}},
      {"2", 1, {"ties"}},
  };
  for (const auto &one : cases) {
    CAPTURE(std::string(one.grouping));
    polyconv_options o = probe("fake-plan-probe/ties,fake-plan-probe/fuses_two,fake-plan-probe/fuses_all");
    o.grouping = one.grouping;
    Job job(std::vector<std::string>(one.layers, kB));
    check_against_reference(&job, o);
    std::string taken;
    for (const char *name : one.taken)
      taken += (taken.empty() ? "" : " + ") + ("fake-plan-probe/" + std::string(name) + "@only");
    CHECK(job.kernel == taken);
  }
}

TEST_CASE("a grouping that nobody takes fails with the layers and the reason") {
  polyconv_options o = probe("fake-plan-probe/ties,fake-plan-probe/fuses_two");
  const std::vector<polyconv_problem> four(4, problem(kB));
  o.grouping = "1+3";
  const std::string failed = chosen(four, o);
  CHECK(contains(failed, "unsupported: no kernel on cpu takes "));
  CHECK(contains(failed, ": layers 1 to 3 as one, of which layer 1 is their layer 0: "));
  CHECK(contains(failed, "fuses two layers"));
  o.grouping = "3+1";
  CHECK(contains(chosen(four, o), ": layers 0 to 2 as one: "));
  o.grouping = "9999999999"; // more than an int holds
  CHECK(contains(chosen(four, o), "options.grouping is '9999999999', expected \"none\", a number of layers"));
  o.grouping = "2+3";
  CHECK(chosen(four, o) == "invalid argument: options.grouping is '2+3', 5 layers in all, expected 4 as in this chain");
  o.grouping = "2";
  CHECK(contains(chosen({problem(kA), problem(kB), problem(kSum + "layer0")}, o),
                 "layers 0 to 1 as one would not store the output of layer 0, which layer 2 adds"));
  polyconv_explanation *explanation = nullptr;
  o.grouping = "1+3";
  REQUIRE(polyconv_explain(nullptr, four.data(), 4, &o, &explanation) == POLYCONV_SUCCESS);
  CHECK(contains(polyconv_explanation_text(explanation), "layers 1 to 3 as one"));
  polyconv_explanation_destroy(explanation);
}

TEST_CASE("options.shared_memory_limit keeps out what needs more") {
  polyconv_options o = probe("fake-plan-probe/ties,fake-plan-probe/fuses_two,fake-plan-probe/fuses_all");
  const std::vector<polyconv_problem> four(4, problem(kB));
  const std::string pair = "fake-plan-probe/fuses_two@only";
  o.shared_memory_limit = 2000; // 1000 a layer
  o.grouping = "4";
  CHECK(contains(chosen(four, o), "needs 4000 bytes of shared memory, options.shared_memory_limit is 2000"));
  o.grouping = nullptr;
  CHECK(chosen(four, o) == pair + " + " + pair);
  o.shared_memory_limit = 0;
  CHECK(chosen({four[0], four[1]}, o) == "fake-plan-probe/ties@only + fake-plan-probe/ties@only");
}

TEST_CASE("with a tuning budget no grouping is taken that is slower than another, the layers one by one included") {
  const struct {
    const char *kernels, *estimated, *measured;
  } cases[] = {{"ties,fuses_slowly", "fuses_slowly", "ties + ties + ties"},
               {"drags,fuses_all", "drags + drags + drags", "fuses_all"}};
  for (const auto &one : cases) {
    CAPTURE(std::string(one.kernels));
    const auto named = [](const std::string &list, const std::string &separator, const std::string &end) {
      std::string text;
      for (size_t begin = 0; begin < list.size();) {
        const size_t stop = std::min(list.find(separator, begin), list.size());
        text += (text.empty() ? "" : separator) + "fake-plan-probe/" + list.substr(begin, stop - begin) + end;
        begin = stop + separator.size();
      }
      return text;
    };
    const std::string globs = named(one.kernels, ",", "");
    polyconv_options o = probe(globs.c_str());
    const std::vector<polyconv_problem> three(3, problem(kB));
    CHECK(chosen(three, o) == named(one.estimated, " + ", "@only"));
    o.tuning_budget_ms = 120;
    const Plan tuned = plan(three, o);
    CHECK(std::string(info(tuned).kernel) == named(one.measured, " + ", "@only"));
    CHECK(info(tuned).estimate_us > 1);
    Job job(std::vector<std::string>(3, kB));
    check_against_reference(&job, o);
  }
}

TEST_CASE("a grouping that fails while the whole chain is timed drops out, whichever run it fails in") {
  const std::vector<polyconv_problem> three(3, problem(kB));
  const std::string alone = "fake-plan-probe/ties@only", layers = alone + " + " + alone + " + " + alone;
  for (const char *temper : {"at_once", "later"}) {
    CAPTURE(std::string(temper));
    const std::string globs = std::string("fake-plan-probe/ties,fake-plan-probe/tires@") + temper;
    polyconv_options o = probe(globs.c_str());
    o.tuning_budget_ms = 120;
    CHECK(chosen(three, o) == layers);
    polyconv_explanation *explanation = nullptr;
    REQUIRE(polyconv_explain(nullptr, three.data(), 3, &o, &explanation) == POLYCONV_SUCCESS);
    const std::string text = polyconv_explanation_text(explanation);
    polyconv_explanation_destroy(explanation);
    CAPTURE(text);
    CHECK(contains(text, "failed while it was timed: tired"));
    CHECK(contains(text, "measured ")); // of the layers, beside what was expected of them:
    CHECK(contains(text, "predicted 150 us"));
    Job job(std::vector<std::string>(3, kB));
    check_against_reference(&job, o);
  }
}

TEST_CASE("a grouping that needs too much workspace gives way to one that needs less") {
  load("faulty");
  polyconv_options o = probe("fake-plan-probe/atomic,fake-faulty/chain_correct"); // 4 us a layer, 20 for all
  o.determinism = POLYCONV_DETERMINISM_NONE;
  const std::vector<polyconv_problem> pair(2, problem(kB));
  const int64_t between = 2 * 4 * 8 * 8 * 4;
  CHECK(info(plan(pair, o)).workspace_bytes == between);
  o.workspace_limit = between - 1;
  CHECK(chosen(pair, o) == "fake-faulty/chain_correct@only");
  CHECK(info(plan(pair, o)).workspace_bytes == 0);
  o.grouping = "none";
  CHECK(contains(chosen(pair, o), "options.workspace_limit is 2047, expected at least 2048"));
}

TEST_CASE("pooling inside a chain, shapes that change, and transposed layers") {
  for (const std::vector<std::string> &chain : std::vector<std::vector<std::string>>{
           {"fwd:n1,c3,k8,i16x16,f3x3,p1:relu+maxpool2", "fwd:n1,c8,k4,i8x8,f3x3,s2", "fwd:n1,c4,k2,i3x3,f1x1"},
           {"fwd:n1,c3,k4,i9x9,f3x3,s2:bias", "tfwd:n1,c4,k2,i4x4,f3x3,s2:bias+relu"},
           {"tfwd:n1,c3,k4,i4x4,f2x2,s2", "fwd:n1,c4,k3,i8x8,f3x3:nhwc"}}) {
    if (chain.back().find("nhwc") != std::string::npos) continue; // layouts must agree: see below
    Job job(chain);
    check_against_reference(&job, options());
  }
  CHECK(contains(chosen({problem("fwd:n1,c3,k4,i8x8,f1x1"), problem("fwd:n1,c4,k3,i8x8,f3x3:nhwc")}, options()),
                 "invalid argument: layer 1: "));
}

TEST_CASE("saved tensors of a chain belong to their layers") {
  Job job({"fwd:n1,c3,k8,i16x16,f3x3,p1:relu+maxpool2", "fwd:n1,c8,k4,i8x8,f3x3,p1:relu+maxpool2"},
          POLYCONV_SAVE_ARGMAX);
  polyconv_options o = probe("fake-plan-probe/ties");
  o.save = POLYCONV_SAVE_ARGMAX;
  check_against_reference(&job, o);
  CHECK(job.steps == 4);
}

TEST_CASE("packed weights by layer, and pointers by layer") {
  Job job({kA, kB, kA});
  check_against_reference(&job, probe("fake-plan-probe/packs"));
  job.plan = plan(job.problems, probe("fake-plan-probe/packs"));
  job.prepare_run();
  job.buffers.packed[1] = nullptr;
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "buffers.packed[1] is NULL"));
  job.prepare_run();
  job.buffers.bias[2] = nullptr;
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "buffers.bias[2] is NULL"));
}

TEST_CASE("a layer that nobody takes fails the chain and is named with its reason") {
  polyconv_options o = probe("fake-plan-probe/ties");
  const std::string failed = chosen({problem("fwd:n1,c4,k4,i8x8,f1x1:f64"), problem("fwd:n1,c4,k4,i8x8,f1x1:f64")}, o);
  CHECK(contains(failed, "unsupported"));
  CHECK(contains(failed, "takes f32 only"));
}

TEST_CASE("the workspace limit covers a chain's intermediates") {
  polyconv_options o = probe("fake-plan-probe/ties");
  const std::vector<polyconv_problem> chain = {problem(kA), problem(kA), problem(kA)};
  o.workspace_limit = 2 * 2 * 4 * 8 * 8 * 4;
  CHECK(!contains(chosen(chain, o), "unsupported"));
  o.workspace_limit -= 1;
  CHECK(contains(chosen(chain, o), "options.workspace_limit is 4095, expected at least 4096"));
}

TEST_CASE("a chain under determinism 2 groups as for one image") {
  polyconv_options o = probe("fake-plan-probe/per_image,fake-plan-probe/fuses_all");
  // 10 us an image and layer against 40 for all: from three images on fusing would win.
  const std::vector<polyconv_problem> eight(2, problem("fwd:n8,c4,k4,i8x8,f3x3,p1"));
  CHECK(chosen(eight, o) == "fake-plan-probe/fuses_all@only");
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(chosen(eight, o) == "fake-plan-probe/per_image@only + fake-plan-probe/per_image@only");
}

TEST_CASE("convolve takes chains, and an empty batch of one is nothing to do") {
  Job job({kA, kB, kSum + "layer0"});
  const polyconv_options o = probe("fake-plan-probe/packs");
  REQUIRE_MESSAGE(polyconv_convolve(nullptr, job.problems.data(), 3, &o, &job.buffers) == POLYCONV_SUCCESS, error());
  const std::vector<char> output = job.output;
  REQUIRE(job.run(options("reference/*")) == POLYCONV_SUCCESS);
  CHECK(output == job.output);
  Job empty({"fwd:n0,c4,k4,i8x8,f1x1", "fwd:n0,c4,k4,i8x8,f1x1"});
  empty.buffers.input = empty.buffers.output = nullptr;
  CHECK(empty.run(options()) == POLYCONV_SUCCESS);
}
