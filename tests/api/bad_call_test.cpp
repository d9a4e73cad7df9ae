// bad_call_test.cpp - one row for each way to call the library wrongly: NULLs, indices, options, devices, backends.
// Each gives its status and a sentence, and leaves results and memory as they were. bad_input_test.cpp has the wrong
// problems, bad_buffers_test.cpp the wrong buffers and weights.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "bad_world.hpp"

using polyconv_test::check_rows;
using polyconv_test::kInvalid;
using polyconv_test::Row;
using polyconv_test::Words;
using polyconv_test::World;

// Under a sanitizer, too big an allocation must fail as it does elsewhere, not end the test.
extern "C" __attribute__((visibility("default"))) const char *
__asan_default_options() { // NOLINT(bugprone-reserved-identifier)
  return "allocator_may_return_null=1";
}
extern "C" __attribute__((visibility("default"))) const char *
__tsan_default_options() { // NOLINT(bugprone-reserved-identifier)
  return "allocator_may_return_null=1";
}

TEST_CASE("problem functions") {
  check_rows({
      {"validate NULL", [](World &) { return polyconv_problem_validate(nullptr, 1); }, kInvalid, {"problems is NULL"}},
      {"validate 0",
       [](World &w) { return polyconv_problem_validate(&w.problem, 0); },
       kInvalid,
       {"count is 0", "1..8"}},
      {"validate 9",
       [](World &w) { return polyconv_problem_validate(&w.problem, 9); },
       kInvalid,
       {"count is 9", "1..8"}},
      {"parse NULL", [](World &w) { return polyconv_problem_parse(nullptr, &w.problem); }, kInvalid, {"token is NULL"}},
      {"parse to NULL",
       [](World &) { return polyconv_problem_parse("fwd:i8", nullptr); },
       kInvalid,
       {"problem is NULL"}},
      {"format NULL",
       [](World &) { return polyconv_problem_format(nullptr, nullptr, 0, nullptr); },
       kInvalid,
       {"NULL"}},
      {"format into NULL",
       [](World &w) { return polyconv_problem_format(&w.problem, nullptr, 9, nullptr); },
       kInvalid,
       {"buffer is NULL"}},
      {"format short",
       [](World &w) {
         char text[5] = "mark";
         const polyconv_status status = polyconv_problem_format(&w.problem, text, sizeof text, nullptr);
         CHECK(std::strcmp(text, "mark") == 0);
         return status;
       },
       kInvalid,
       {"size is 5", "at least"}},
      {"tensor NULL",
       [](World &) { return polyconv_problem_tensor(nullptr, 0, nullptr, nullptr); },
       kInvalid,
       {"NULL"}},
      {"tensor -1",
       [](World &w) { return polyconv_problem_tensor(&w.problem, -1, nullptr, nullptr); },
       kInvalid,
       {"which is -1", "0..10"}},
      {"tensor 11",
       [](World &w) { return polyconv_problem_tensor(&w.problem, 11, nullptr, nullptr); },
       kInvalid,
       {"which is 11", "0..10"}},
      {"no scale",
       [](World &w) { return polyconv_problem_tensor(&w.problem, POLYCONV_TENSOR_SCALE, nullptr, nullptr); },
       kInvalid,
       {"which is 3", "no scale"}},
      {"flops to NULL",
       [](World &w) { return polyconv_problem_flops(&w.problem, nullptr); },
       kInvalid,
       {"flops is NULL"}},
      {"flops of NULL", [](World &w) { return polyconv_problem_flops(nullptr, &w.number); }, kInvalid, {"NULL"}},
  });
}

TEST_CASE("planning and options") {
  const auto option = [](const char *name, void (*spoil)(polyconv_options &), Words words) {
    return Row{name,
               [spoil](World &w) {
                 spoil(w.options);
                 return w.create();
               },
               kInvalid, std::move(words)};
  };
  check_rows({
      {"plan to NULL",
       [](World &w) { return polyconv_plan_create(nullptr, &w.problem, 1, nullptr, nullptr); },
       kInvalid,
       {"plan is NULL"}},
      {"plan of NULL",
       [](World &w) { return polyconv_plan_create(nullptr, nullptr, 1, nullptr, &w.new_plan); },
       kInvalid,
       {"problems is NULL"}},
      {"plan of -1",
       [](World &w) { return polyconv_plan_create(nullptr, &w.problem, -1, nullptr, &w.new_plan); },
       kInvalid,
       {"count is -1"}},
      option("options", [](auto &o) { o.struct_size = 3; }, {"options", "struct_size is 3"}),
      option("math", [](auto &o) { o.math = 4; }, {"options.math is 4", "0 to 3"}),
      option("determinism", [](auto &o) { o.determinism = -1; }, {"options.determinism is -1"}),
      option("fallback", [](auto &o) { o.fallback = 3; }, {"options.fallback is 3"}),
      option("threads", [](auto &o) { o.threads = 1025; }, {"options.threads is 1025", "1024"}),
      option("threads below 0", [](auto &o) { o.threads = -1; }, {"options.threads is -1"}),
      option("workspace_limit", [](auto &o) { o.workspace_limit = -2; }, {"options.workspace_limit is -2"}),
      option("tuning_budget_ms", [](auto &o) { o.tuning_budget_ms = -1; }, {"options.tuning_budget_ms is -1"}),
      option("dynamic_weights", [](auto &o) { o.dynamic_weights = 3; }, {"options.dynamic_weights is 3", "0 to 2"}),
      option("checked", [](auto &o) { o.checked = 7; }, {"options.checked is 7", "0 or 1"}),
      option("save", [](auto &o) { o.save = 3; }, {"options.save is 3"}),
      option("argmax of nothing", [](auto &o) { o.save = POLYCONV_SAVE_ARGMAX; }, {"options.save is 1", "max pooling"}),
      option("bind", [](auto &o) { o.bind = -1; }, {"options.bind is -1", "0 or 1"}),
      option("half an allocator", [](auto &o) { o.allocator.release = [](void *, void *) {}; },
             {"options.allocator.allocate is NULL"}),
      option("shared_memory_limit", [](auto &o) { o.shared_memory_limit = -2; },
             {"options.shared_memory_limit is -2", "-1"}),
      option("no grouping", [](auto &o) { o.grouping = ""; }, {"options.grouping is \"\"", "2+2"}),
      option("two layers of one", [](auto &o) { o.grouping = "1+1"; },
             {"options.grouping is '1+1'", "2 layers", "expected 1"}),
      option("no glob", [](auto &o) { o.kernel = ""; }, {"options.kernel is \"\""}),
      {"unknown kernel",
       [](World &w) {
         w.options.kernel = "nobody/*";
         return w.create();
       },
       POLYCONV_UNAVAILABLE,
       {"options.kernel", "nobody/*"}},
      {"unserved level",
       [](World &w) {
         w.options.determinism = POLYCONV_DETERMINISM_IDENTICAL; // for f32
         return w.create();
       },
       POLYCONV_UNSUPPORTED,
       {"determinism"}},
      {"no fallback",
       [](World &w) {
         w.options.fallback = POLYCONV_FALLBACK_ERROR;
         return w.create();
       },
       POLYCONV_UNSUPPORTED,
       {"fallback"}},
      {"info of NULL",
       [](World &) {
         polyconv_plan_info info = {};
         info.struct_size = sizeof info;
         return polyconv_plan_get_info(nullptr, &info);
       },
       kInvalid,
       {"plan is NULL"}},
      {"info to NULL", [](World &w) { return polyconv_plan_get_info(w.plan, nullptr); }, kInvalid, {"info is NULL"}},
      {"info without size",
       [](World &w) {
         polyconv_plan_info info = {};
         const polyconv_status status = polyconv_plan_get_info(w.plan, &info);
         CHECK(info.kernel == nullptr);
         return status;
       },
       kInvalid,
       {"struct_size is 0"}},
      {"explain NULL",
       [](World &w) { return polyconv_explain(nullptr, nullptr, 1, nullptr, &w.new_explanation); },
       kInvalid,
       {"problems is NULL"}},
      {"explain to NULL",
       [](World &w) { return polyconv_explain(nullptr, &w.problem, 1, nullptr, nullptr); },
       kInvalid,
       {"explanation is NULL"}},
  });
}

TEST_CASE("devices and backends") {
  check_rows({
      {"find to NULL", [](World &) { return polyconv_device_find("cpu", nullptr); }, kInvalid, {"device is NULL"}},
      {"find nonsense", [](World &w) { return polyconv_device_find("cpu:x", &w.new_device); }, kInvalid, {"cpu:x"}},
      {"find the empty name", [](World &w) { return polyconv_device_find("", &w.new_device); }, kInvalid, {"''"}},
      {"find a kind nobody serves",
       [](World &w) { return polyconv_device_find("abacus", &w.new_device); },
       POLYCONV_UNAVAILABLE,
       {"abacus"}},
      {"find a second CPU",
       [](World &w) { return polyconv_device_find("cpu:1", &w.new_device); },
       POLYCONV_UNAVAILABLE,
       {"cpu:1"}},
      {"properties to NULL",
       [](World &) { return polyconv_device_get_properties(nullptr, nullptr); },
       kInvalid,
       {"properties is NULL"}},
      {"alloc to NULL",
       [](World &) { return polyconv_device_alloc(nullptr, 8, 0, nullptr); },
       kInvalid,
       {"pointer is NULL"}},
      {"alloc of another kind",
       [](World &w) { return polyconv_device_alloc(nullptr, 8, 2, &w.new_pointer); },
       kInvalid,
       {"memory is 2"}},
      {"alloc too much",
       [](World &w) { return polyconv_device_alloc(nullptr, SIZE_MAX / 2, POLYCONV_MEMORY_DEVICE, &w.new_pointer); },
       POLYCONV_OUT_OF_MEMORY,
       {"9223372036854775807"}},
      {"free of another kind",
       [](World &w) { return polyconv_device_free(nullptr, &w.mark, 7); },
       kInvalid,
       {"memory is 7"}},
      {"copy from NULL",
       [](World &w) { return polyconv_device_copy(nullptr, w.output, nullptr, 4, nullptr); },
       kInvalid,
       {"source is NULL"}},
      {"copy to NULL",
       [](World &w) { return polyconv_device_copy(nullptr, nullptr, w.input, 4, nullptr); },
       kInvalid,
       {"destination is NULL"}},
      {"fill NULL",
       [](World &) { return polyconv_device_fill(nullptr, nullptr, 0, 4, nullptr); },
       kInvalid,
       {"destination is NULL"}},
      {"fill with 256",
       [](World &w) { return polyconv_device_fill(nullptr, w.output, 256, 4, nullptr); },
       kInvalid,
       {"byte is 256", "255"}},
      {"kind of NULL",
       [](World &) {
         int32_t memory = 0;
         return polyconv_device_pointer_kind(nullptr, nullptr, &memory);
       },
       kInvalid,
       {"pointer is NULL"}},
      {"stream to NULL",
       [](World &) { return polyconv_stream_create(nullptr, nullptr); },
       kInvalid,
       {"stream is NULL"}},
      {"event to NULL", [](World &) { return polyconv_event_create(nullptr, nullptr); }, kInvalid, {"event is NULL"}},
      {"record NULL",
       [](World &) { return polyconv_event_record(nullptr, nullptr, nullptr); },
       kInvalid,
       {"event is NULL"}},
      {"elapsed of NULL",
       [](World &w) { return polyconv_event_elapsed(nullptr, nullptr, nullptr, &w.number); },
       kInvalid,
       {"start is NULL"}},
      {"graphs on the CPU",
       [](World &) { return polyconv_graph_begin(nullptr, nullptr); },
       POLYCONV_UNSUPPORTED,
       {"cpu", "graph"}},
      {"backend -1",
       [](World &) {
         polyconv_backend_info info = {};
         info.struct_size = sizeof info;
         return polyconv_backend_get(-1, &info);
       },
       kInvalid,
       {"index is -1"}},
      {"backend 1000000",
       [](World &) {
         polyconv_backend_info info = {};
         info.struct_size = sizeof info;
         return polyconv_backend_get(1000000, &info);
       },
       kInvalid,
       {"index is 1000000"}},
      {"backend to NULL", [](World &) { return polyconv_backend_get(0, nullptr); }, kInvalid, {"info is NULL"}},
      {"load NULL", [](World &) { return polyconv_backend_load(nullptr); }, kInvalid, {"path is NULL"}},
      {"load relative",
       [](World &) { return polyconv_backend_load("libpolyconv_x.so"); },
       kInvalid,
       {"libpolyconv_x.so", "absolute"}},
      {"load nothing",
       [](World &) { return polyconv_backend_load("/no/such/libpolyconv_x.so"); },
       POLYCONV_UNAVAILABLE,
       {"/no/such/libpolyconv_x.so"}},
  });
  CHECK(polyconv_backend_kernel(-1, 0) == nullptr);
  CHECK(polyconv_backend_kernel(0, 100000) == nullptr);
  CHECK(polyconv_backend_config(0, 0, 100000) == nullptr);
  CHECK(polyconv_device_name(-1) == nullptr);
  CHECK(polyconv_device_name(100000) == nullptr);
}

TEST_CASE("explanations") {
  World world;
  polyconv_explanation *explanation = nullptr;
  REQUIRE(polyconv_explain(nullptr, &world.problem, 1, nullptr, &explanation) == POLYCONV_SUCCESS);
  polyconv_candidate candidate = {};
  candidate.struct_size = sizeof candidate;
  const int32_t count = polyconv_explanation_count(explanation);
  for (int32_t index : {-1, count, std::numeric_limits<int32_t>::max()}) {
    CHECK(polyconv_explanation_get(explanation, index, &candidate) == kInvalid);
    CHECK(std::string(polyconv_last_error()).find(std::to_string(index)) != std::string::npos);
    CHECK(candidate.kernel == nullptr);
  }
  CHECK(polyconv_explanation_get(explanation, 0, nullptr) == kInvalid);
  candidate.struct_size = 0;
  CHECK(polyconv_explanation_get(explanation, 0, &candidate) == kInvalid);
  CHECK(polyconv_explanation_get(nullptr, 0, &candidate) == kInvalid);
  CHECK(polyconv_explanation_count(nullptr) == 0);
  CHECK(polyconv_explanation_text(nullptr) != nullptr);
  polyconv_explanation_destroy(explanation);
}

TEST_CASE("what takes NULL ignores it") {
  polyconv_problem_init(nullptr);
  polyconv_options_init(nullptr);
  polyconv_buffers_init(nullptr);
  polyconv_plan_destroy(nullptr);
  polyconv_weights_destroy(nullptr);
  polyconv_bound_destroy(nullptr);
  polyconv_explanation_destroy(nullptr);
  CHECK(polyconv_device_free(nullptr, nullptr, POLYCONV_MEMORY_DEVICE) == POLYCONV_SUCCESS);
  CHECK(polyconv_device_copy(nullptr, nullptr, nullptr, 0, nullptr) == POLYCONV_SUCCESS);
}
