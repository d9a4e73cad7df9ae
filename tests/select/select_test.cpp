// select_test.cpp - which kernel is taken, and why not another: filters, flags, policies, ties, and answers that make
// no sense. plan_probe's kernels compete only where a test names them.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"

namespace {

using namespace job;

const char *const kToken = "fwd:n1,c4,k4,i8x8,f3x3,p1";
const char *const kPlainToken = "fwd:n1,c16,k16,i28x28,f3x3,p1";

std::string choose(const std::string &kernels, polyconv_options o = options(), const char *token = kToken) {
  load("plan_probe");
  std::string globs;
  size_t begin = 0;
  while (begin < kernels.size()) {
    const size_t comma = std::min(kernels.find(',', begin), kernels.size());
    globs += (globs.empty() ? "" : ",") + ("fake-plan-probe/" + kernels.substr(begin, comma - begin));
    begin = comma + 1;
  }
  o.kernel = globs.c_str();
  const std::string name = chosen({problem(token)}, o);
  const std::string prefix = "fake-plan-probe/";
  return name.compare(0, prefix.size(), prefix) == 0 ? name.substr(prefix.size()) : name;
}

} // namespace

TEST_CASE("the estimate decides, then the order of the list") {
  CHECK(choose("two_speeds,generic") == "two_speeds@fast");
  CHECK(choose("ties,two_speeds") == "two_speeds@fast"); // 50 us both: the list's order, not the filter's
  CHECK(choose("ties,two_speeds,scratch") == "scratch@only");
}

TEST_CASE("a pattern forces configs; a glob over configs tries them all") {
  CHECK(choose("two_speeds@slow") == "two_speeds@slow");
  CHECK(choose("two_speeds@*") == "two_speeds@fast");
  CHECK(choose("two_speeds@s*") == "two_speeds@slow");
  CHECK(choose("t*@?low") == "two_speeds@slow");
  const std::string missing = choose("two_speeds@medium");
  CHECK(contains(missing, "unavailable: options.kernel is 'fake-plan-probe/two_speeds@medium'"));
  CHECK(contains(missing, "fake-plan-probe/two_speeds@slow, fake-plan-probe/two_speeds@fast"));
}

TEST_CASE("blanks around patterns do not matter, empty ones neither") {
  load("plan_probe");
  CHECK(chosen({problem(kToken)}, options(" fake-plan-probe/two_speeds@slow ,, ")) ==
        "fake-plan-probe/two_speeds@slow");
}

TEST_CASE("a filter that matches nothing is told apart from kernels that say no") {
  load("plan_probe");
  const std::string nothing = chosen({problem(kToken)}, options("nobody/*"));
  CHECK(contains(nothing, "unavailable: options.kernel is 'nobody/*', which matches no kernel"));
  const std::string no = choose("tf32");
  CHECK(contains(no, "unsupported: no kernel on cpu takes fwd:"));
  CHECK(contains(no, "fake-plan-probe/tf32: rounds products to TF32"));
  CHECK(contains(chosen({problem(kToken)}, options("")), "invalid argument: options.kernel is \"\""));
}

TEST_CASE("a backend that is taken on request only must be named") {
  load("plan_probe");
  CHECK(!contains(chosen({problem(kToken)}, options()), "plan-probe"));
  CHECK(!contains(chosen({problem(kToken)}, options("*")), "plan-probe"));
  CHECK(!contains(chosen({problem(kToken)}, options("*/*")), "plan-probe"));
  CHECK(contains(chosen({problem(kToken)}, options("*/two_speeds")), "unsupported"));
  CHECK(contains(chosen({problem(kToken)}, options("fake-plan-*/ties")), "fake-plan-probe/ties@only"));
}

TEST_CASE("flags keep kernels out of policies that they break") {
  polyconv_options o = options();
  CHECK(contains(choose("atomic"), "determinism 0"));
  o.determinism = POLYCONV_DETERMINISM_NONE;
  CHECK(choose("atomic", o) == "atomic@only");

  o = options();
  CHECK(choose("variant", o) == "variant@only");
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(contains(choose("variant", o), "determinism 0 and 1"));

  o = options();
  for (const int32_t math : {POLYCONV_MATH_STRICT, POLYCONV_MATH_FP32_EMULATED, POLYCONV_MATH_TF32}) {
    o.math = math;
    CHECK(contains(choose("transform", o), "taken only under math fast"));
  }
  o.math = POLYCONV_MATH_FAST;
  CHECK(choose("transform", o) == "transform@only");

  o = options();
  CHECK(contains(choose("bound", o), "options.bind"));
  o.bind = 1;
  CHECK(choose("bound", o) == "bound@only");
}

TEST_CASE("a math mode is entered only where asked for") {
  polyconv_options o = options();
  CHECK(choose("tf32,ties", o) == "ties@only");
  o.math = POLYCONV_MATH_TF32;
  CHECK(choose("tf32,ties", o) == "tf32@only");
}

TEST_CASE("determinism 3 is for integers, and 2 not for backward weights") {
  polyconv_options o = options();
  o.determinism = POLYCONV_DETERMINISM_IDENTICAL;
  CHECK(contains(chosen({problem(kToken)}, o), "unsupported"));
  CHECK(contains(error(), "s8/u8 rows only"));
  CHECK(!contains(chosen({problem("fwd:n1,c4,k4,i8x8,f3x3:s8")}, o), "unsupported"));
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(contains(chosen({problem("bwd_w:n2,c4,k4,i8x8,f3x3")}, o), "not offered for backward weights"));
}

TEST_CASE("determinism 2 chooses as for one image on one thread") {
  // 10 us an image against 50 us: eight images would tip the scale.
  const char *eight = "fwd:n8,c4,k4,i8x8,f3x3,p1";
  polyconv_options o = options();
  CHECK(choose("per_image,ties", o, eight) == "ties@only");
  CHECK(choose("per_thread,scratch", [&] {
          auto t = o;
          t.threads = 8;
          return t;
        }()) == "per_thread@only");
  o.determinism = POLYCONV_DETERMINISM_INVARIANT;
  CHECK(choose("per_image,ties", o, eight) == "per_image@only");
  CHECK(choose("per_thread,scratch", [&] {
          auto t = o;
          t.threads = 8;
          return t;
        }()) == "scratch@only");
  CHECK(choose("few_images,ties", o) == "few_images@only");
  const std::string refused = choose("few_images,ties", o, eight);
  CHECK(contains(refused, "unsupported"));
  CHECK(contains(refused, "determinism 2 takes the kernel that is best for one image"));
  CHECK(contains(refused, "takes up to 4 images, not 8"));
  o.determinism = POLYCONV_DETERMINISM_RUN;
  CHECK(choose("few_images,ties", o, eight) == "ties@only");
}

TEST_CASE("the workspace limit counts what a kernel and its helpers need") {
  polyconv_options o = options();
  o.workspace_limit = 999;
  CHECK(choose("scratch,ties", o) == "ties@only");
  CHECK(contains(choose("scratch", o), "needs 1000 bytes of workspace, options.workspace_limit is 999"));
  o.workspace_limit = 1000;
  CHECK(choose("scratch,ties", o) == "scratch@only");
  o.workspace_limit = 0;
  CHECK(contains(choose("ties", o, "fwd:n1,c4,k4,i8x8,f3x3,p1:maxpool2"), "needs 1024 bytes of workspace"));
}

TEST_CASE("dynamic weights keep kernels that can repack") {
  polyconv_options o = options();
  CHECK(choose("packs,packs_once", o) == "packs_once@only");
  o.dynamic_weights = 1;
  CHECK(choose("packs,packs_once", o) == "packs@only");
}

TEST_CASE("a fallback is taken, with one line of log, or refused") {
  load("plan_probe");
  struct Lines {
    std::vector<std::string> all;
    static void add(void *context, int32_t level, const char *message) {
      if (level == POLYCONV_LOG_WARNING) static_cast<Lines *>(context)->all.push_back(message);
    }
  } lines;
  polyconv_set_log(Lines::add, &lines, POLYCONV_LOG_WARNING);
  polyconv_options o = options("fake-plan-probe/generic");
  const Plan warned = plan({problem(kToken)}, o);
  CHECK(info(warned).fallback == 1);
  REQUIRE(lines.all.size() == 1);
  CHECK(contains(lines.all[0], "fwd:"));
  CHECK(contains(lines.all[0], "fake-plan-probe/generic@only"));
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  plan({problem(kToken)}, o);
  CHECK(lines.all.size() == 1);
  o.kernel = "reference/*";
  o.fallback = POLYCONV_FALLBACK_ERROR;
  CHECK(contains(chosen({problem(kToken)}, o), "unsupported"));
  CHECK(contains(error(), "a fallback, and options.fallback is error"));
  o.kernel = "fake-plan-probe/generic,fake-plan-probe/ties";
  CHECK(chosen({problem(kToken)}, o) == "fake-plan-probe/ties@only");
  CHECK(lines.all.size() == 1);
  polyconv_set_log(nullptr, nullptr, POLYCONV_LOG_ERROR);
}

TEST_CASE("answers that make no sense are rejections with a reason") {
  const struct {
    const char *config, *reason;
  } lies[] = {
      {"nan_estimate", "defect: it estimates"},
      {"infinite_estimate", "defect: it estimates inf us"},
      {"zero_estimate", "defect: it estimates 0 us"},
      {"negative_estimate", "defect: it estimates -1 us"},
      {"negative_workspace", "defect: it wants -1 bytes of workspace"},
      {"absurd_workspace", "defect: it wants 9223372036854775807 bytes of workspace"},
      {"unterminated_format", "defect: it names no weights format"},
      {"empty_format", "defect: it names no weights format"},
      {"negative_weights", "defect: its packed weights take -4 bytes"},
      {"other_config", "defect: asked about config 9 it answered about 0"},
      {"config_beyond", "defect: it chose config 1000 of"},
      {"unasked_math", "would enter math mode fast, which nobody asked for"},
      {"negative_math", "would enter math mode"},
      {"unterminated_reason", "rrrrrrrr"},
      {"no_reason", "rejected without a reason"},
      {"odd_status", "defect: supports returned status 6 (device error)"},
      {"throws", "defect: supports returned status 8"},
  };
  for (const auto &lie : lies) {
    const std::string answer = choose("liar@" + std::string(lie.config));
    CAPTURE(answer);
    CHECK(contains(answer, "unsupported: "));
    CHECK(contains(answer, lie.reason));
    CHECK(choose("liar@" + std::string(lie.config) + ",ties") == "ties@only");
  }
}

TEST_CASE("POLYCONV_KERNEL is the filter where options have none") {
  const auto kernel_in = [](const std::string &filter) {
    return fakes::start(fakes::World{{{"POLYCONV_KERNEL", filter}}}, (fakes::build_tests() / "select_test").string(),
                        "-tc=\"print what a plain plan takes\"")
        .out;
  };
  CHECK(contains(kernel_in("reference/*"), "takes reference/"));
  CHECK(contains(kernel_in(""), "takes " + chosen({problem(kPlainToken)}, options())));
  CHECK(contains(kernel_in("nobody/*"), "POLYCONV_KERNEL is 'nobody/*', which matches no kernel"));
}

TEST_CASE("print what a plain plan takes") {
  MESSAGE("takes " << chosen({problem(kPlainToken)}, options()));
}

TEST_CASE("options are validated field by field") {
  const auto refused = [](void (*change)(polyconv_options *)) {
    polyconv_options o = options();
    change(&o);
    return chosen({problem(kToken)}, o);
  };
  CHECK(contains(refused([](polyconv_options *o) { o->math = 4; }), "options.math is 4, expected"));
  CHECK(contains(refused([](polyconv_options *o) { o->math = -1; }), "options.math is -1, expected"));
  CHECK(contains(refused([](polyconv_options *o) { o->determinism = 4; }), "options.determinism is 4"));
  CHECK(contains(refused([](polyconv_options *o) { o->fallback = 3; }), "options.fallback is 3"));
  CHECK(contains(refused([](polyconv_options *o) { o->threads = -1; }),
                 "options.threads is -1, expected 0 (all) to 1024"));
  CHECK(contains(refused([](polyconv_options *o) { o->threads = 1025; }), "options.threads is 1025"));
  CHECK(contains(refused([](polyconv_options *o) { o->workspace_limit = -2; }), "options.workspace_limit is -2"));
  CHECK(contains(refused([](polyconv_options *o) { o->tuning_budget_ms = -1; }), "options.tuning_budget_ms is -1"));
  CHECK(contains(refused([](polyconv_options *o) { o->dynamic_weights = 3; }), "options.dynamic_weights is 3"));
  CHECK(contains(refused([](polyconv_options *o) { o->checked = -1; }), "options.checked is -1"));
  CHECK(contains(refused([](polyconv_options *o) { o->save = 3; }), "options.save is 3"));
  CHECK(contains(refused([](polyconv_options *o) { o->bind = 7; }), "options.bind is 7"));
  CHECK(contains(refused([](polyconv_options *o) { o->shared_memory_limit = -2; }),
                 "options.shared_memory_limit is -2, expected bytes, or -1"));
  CHECK(contains(refused([](polyconv_options *o) { o->grouping = ""; }), "options.grouping is \"\""));
  for (const char *grouping : {"two", "0", "2+", "+", "1+0", "-1", "2,2", "100", "None"}) {
    polyconv_options o = options();
    o.grouping = grouping;
    CHECK(contains(chosen({problem(kToken)}, o), "options.grouping is '" + std::string(grouping) + "', expected"));
  }
  CHECK(contains(refused([](polyconv_options *o) { o->struct_size = 0; }), "options.struct_size is 0"));
  CHECK(contains(refused([](polyconv_options *o) { o->struct_size = SIZE_MAX; }), "options.struct_size is"));
  CHECK(contains(refused([](polyconv_options *o) {
                   o->allocator.allocate = [](void *, size_t, size_t) -> void * { return nullptr; };
                 }),
                 "options.allocator.release is NULL, expected both functions or neither"));
}

TEST_CASE("options of an older and of a newer caller") {
  polyconv_options o = options();
  o.struct_size = offsetof(polyconv_options, threads); // an older caller: what follows keeps its default
  o.threads = 7;
  o.bind = 99;
  const Plan older = plan({problem(kToken)}, o);
  CHECK(info(older).threads != 7);

  struct Newer {
    polyconv_options known;
    int64_t unknown;
  } newer = {options(), 0};
  newer.known.struct_size = sizeof newer;
  polyconv_plan *made = nullptr;
  const polyconv_problem p = problem(kToken);
  CHECK(polyconv_plan_create(nullptr, &p, 1, &newer.known, &made) == POLYCONV_SUCCESS);
  polyconv_plan_destroy(made);
  newer.unknown = 1;
  CHECK(polyconv_plan_create(nullptr, &p, 1, &newer.known, &made) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "is not 0"));
}

TEST_CASE("a kernel is not asked about a layer with a trait that it does not declare") {
  const char *overlaps = "fwd:n1,c4,k4,i8x8,f3x3,p1:xs=1.1.2.1:ys=256.1.32.4";
  CHECK(choose("taught,generic", options(), overlaps) == "taught@only");
  // The others get a dense copy, if somebody makes it.
  const std::string copied = choose("ties", options(), overlaps);
  CHECK(contains(copied, "ties@only + "));
  CHECK(contains(copied, "/convert@"));
  load("plan_probe");
  for (const char *kernel : {"fake-plan-probe/taught", "fake-plan-probe/ties", "fake-plan-probe/likes_first"}) {
    Job one({overlaps});
    check_against_reference(&one, options(kernel));
    CHECK(one.steps == (contains(kernel, "taught") ? 1 : 2 + contains(kernel, "likes_first")));
  }
}

TEST_CASE("a chain with a trait goes to no fused kernel that does not declare it") {
  load("plan_probe");
  const std::vector<polyconv_problem> chain = {problem("fwd:n1,c4,k4,i8x8,f3x3,p1:xs=1.1.2.1"), problem(kToken)};
  polyconv_options o = options("fake-plan-probe/fuses_two,fake-plan-probe/taught");
  o.grouping = "2";
  CHECK(contains(chosen(chain, o), "takes no tensor that overlaps itself"));
  o.grouping = nullptr;
  CHECK(chosen(chain, o) == "fake-plan-probe/taught@only + fake-plan-probe/taught@only");
}
