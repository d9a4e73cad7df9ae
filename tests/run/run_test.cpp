// run_test.cpp - polyconv_run: its checks, polyconv_buffers_check's, what several threads may do at once, and that a
// run neither allocates nor frees. Allocations are counted by this program's own malloc, by the module that asks.
// SPDX-License-Identifier: Apache-2.0
#include "plan_job.hpp"
#include "sanitized.hpp"
#include "skip.hpp"

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace {

std::atomic<bool> counting{false};
std::atomic<int> counted{0};

#if !defined(_WIN32)
// Whether the caller of malloc is code of polyconv or of a backend: the thread runtimes (libgomp, libtbb) and the C
// library have their own reasons. Memory that C++ code asks for comes by way of operator new below.
[[maybe_unused]] void count(void *caller) { // unused under sanitizers, which bring their own malloc
  if (!counting.load(std::memory_order_relaxed)) return;
  counting = false; // dladdr may allocate
  Dl_info info;
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr && std::strstr(info.dli_fname, "libpolyconv") != nullptr)
    ++counted;
  counting = true;
}
#endif

} // namespace

#if defined(__GLIBC__) && !defined(POLYCONV_TEST_SANITIZED)
#define POLYCONV_TEST_COUNTS 1
extern "C" void *__libc_malloc(size_t size);
extern "C" void __libc_free(void *pointer);
extern "C" __attribute__((visibility("default"))) void *malloc(size_t size) {
  count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void *operator new(size_t size) {
  count(__builtin_return_address(0));
  if (void *pointer = __libc_malloc(size)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void *pointer) noexcept {
  __libc_free(pointer);
}
void operator delete(void *pointer, size_t) noexcept {
  __libc_free(pointer);
}
#else
#define POLYCONV_TEST_COUNTS 0 // a sanitizer's own allocator stands here, or a C library that we do not know
#endif

namespace {

using namespace job;

polyconv_options probe(const char *kernels) {
  load("plan_probe");
  return options(kernels);
}

// A job planned and ready to be run.
Job ready(const std::string &token, const polyconv_options &o) {
  Job job({token});
  job.plan = plan(job.problems, o);
  job.prepare_run();
  return job;
}

#define CHECK_REFUSED(job, part)                                                                 \
  do {                                                                                           \
    const std::vector<char> before = (job).output;                                               \
    CHECK(polyconv_run((job).plan.get(), &(job).buffers, nullptr) == POLYCONV_INVALID_ARGUMENT); \
    CHECK_MESSAGE(contains(error(), part), error());                                             \
    CHECK((job).output == before);                                                               \
  } while (false)

#define CHECK_BAD_BUFFERS(job, part)                                                              \
  do {                                                                                            \
    CHECK(polyconv_buffers_check((job).plan.get(), &(job).buffers) == POLYCONV_INVALID_ARGUMENT); \
    CHECK_MESSAGE(contains(error(), part), error());                                              \
  } while (false)

} // namespace

TEST_CASE("pointers that the problem requires") {
  Job job = ready("fwd:n2,c3,k4,i9x9,f3x3,p1:scale+bias+residual+relu", options("reference/*"));
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  const polyconv_buffers good = job.buffers;
  job.buffers.input = nullptr;
  CHECK_REFUSED(job, "buffers.input is NULL");
  job.buffers = good;
  job.buffers.output = nullptr;
  CHECK_REFUSED(job, "buffers.output is NULL");
  job.buffers = good;
  job.buffers.weights[0] = nullptr;
  CHECK_REFUSED(job, "buffers.weights[0] is NULL");
  job.buffers = good;
  job.buffers.bias[0] = nullptr;
  CHECK_REFUSED(job, "buffers.bias[0] is NULL");
  job.buffers = good;
  job.buffers.scale[0] = nullptr;
  CHECK_REFUSED(job, "buffers.scale[0] is NULL");
  job.buffers = good;
  job.buffers.residual[0] = nullptr;
  CHECK_REFUSED(job, "buffers.residual[0] is NULL");
  job.buffers = good;
  Job slopes = ready("fwd:c3,k4,i9x9,f3x3,p1:prelu", options("reference/*"));
  slopes.buffers.slope[0] = nullptr;
  CHECK_REFUSED(slopes, "buffers.slope[0] is NULL");
  Job points = ready("fwd:c3,k4,i9x9,f3x3,p1:u8-u8-s32:wz=channel", options("reference/*"));
  points.buffers.weights_zero_point[0] = nullptr;
  CHECK_REFUSED(points, "buffers.weights_zero_point[0] is NULL");
  job.buffers.struct_size = 3;
  CHECK_REFUSED(job, "buffers.struct_size is 3");
  CHECK(polyconv_run(nullptr, &good, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "plan is NULL"));
  CHECK(polyconv_run(job.plan.get(), nullptr, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(contains(error(), "buffers is NULL"));
  CHECK(polyconv_buffers_check(nullptr, &good) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_buffers_check(job.plan.get(), nullptr) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("saved is required where options.save asks for it") {
  polyconv_options o = options("reference/*");
  o.save = POLYCONV_SAVE_PRE_ACTIVATION;
  Job job = ready("fwd:n1,c3,k4,i9x9,f3x3:relu", o);
  CHECK_REFUSED(job, "buffers.saved[0] is NULL");
}

TEST_CASE("buffers of an older and of a newer caller") {
  Job job = ready("fwd:n2,c3,k4,i9x9,f3x3,p1", probe("fake-plan-probe/ties"));
  job.buffers.struct_size = offsetof(polyconv_buffers, bias); // knew neither bias nor what follows
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  struct Newer {
    polyconv_buffers known;
    void *unknown;
  } newer = {job.buffers, nullptr};
  newer.known.struct_size = sizeof newer;
  CHECK(polyconv_run(job.plan.get(), &newer.known, nullptr) == POLYCONV_SUCCESS);
  newer.unknown = &newer;
  CHECK(polyconv_run(job.plan.get(), &newer.known, nullptr) == POLYCONV_INVALID_ARGUMENT);
}

TEST_CASE("workspace size, presence and alignment") {
  Job job = ready("fwd:n2,c3,k4,i9x9,f3x3,p1", probe("fake-plan-probe/scratch"));
  const polyconv_buffers good = job.buffers;
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  job.buffers.workspace_size = 999;
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_WORKSPACE_TOO_SMALL);
  CHECK(contains(error(), "buffers.workspace_size is 999, expected at least 1000 bytes"));
  job.buffers = good;
  job.buffers.workspace = nullptr;
  CHECK_REFUSED(job, "buffers.workspace is NULL");
  job.buffers = good;
  job.buffers.workspace = static_cast<char *>(good.workspace) + 64;
  CHECK_REFUSED(job, "expected a multiple of 256 bytes");
}

TEST_CASE("buffers_check: alignment of elements, and overlap of what is written") {
  Job job = ready("fwd:n2,c3,k4,i9x9,f3x3,p1:bias+residual", options("reference/*"));
  const polyconv_buffers good = job.buffers;
  CHECK_MESSAGE(polyconv_buffers_check(job.plan.get(), &job.buffers) == POLYCONV_SUCCESS, error());
  job.buffers.bias[0] = job.bias[0].data() + 1;
  CHECK_BAD_BUFFERS(job, "buffers.bias[0] is 0x");
  CHECK_BAD_BUFFERS(job, "expected a multiple of 4 bytes, the size of its type f32");
  job.buffers = good;
  job.buffers.output = job.input.data();
  CHECK_BAD_BUFFERS(job, "buffers.output, which is written, overlaps buffers.input");
  job.buffers = good;
  job.buffers.weights[0] = job.output.data() + 4;
  CHECK_BAD_BUFFERS(job, "buffers.output, which is written, overlaps buffers.weights[0]");
  job.buffers = good;
  job.buffers.weights[0] = job.input.data(); // both only read: whatever that is good for; the input is the longer
  CHECK_MESSAGE(polyconv_buffers_check(job.plan.get(), &job.buffers) == POLYCONV_SUCCESS, error());
  job.buffers = good;
  job.buffers.residual[0] = job.output.data(); // in place: allowed
  CHECK(polyconv_buffers_check(job.plan.get(), &job.buffers) == POLYCONV_SUCCESS);
  job.buffers.residual[0] = job.output.data() + 4;
  CHECK_BAD_BUFFERS(job, "buffers.output, which is written, overlaps buffers.residual[0]");
}

TEST_CASE("buffers_check: in place not under pooling, and the other directions' writes") {
  Job pooled = ready("fwd:n1,c3,k4,i8x8,f3x3,p1:residual+maxpool2", options("reference/*"));
  pooled.buffers.output = pooled.residual[0].data();
  CHECK_BAD_BUFFERS(pooled, "overlaps buffers.residual[0]");
  Job data = ready("bwd_d:n1,c3,k4,i8x8,f3x3,p1", options("reference/*"));
  CHECK(polyconv_buffers_check(data.plan.get(), &data.buffers) == POLYCONV_SUCCESS);
  data.buffers.weights[0] = data.input.data();
  CHECK_BAD_BUFFERS(data, "buffers.input, which is written, overlaps buffers.weights[0]");
  Job weights = ready("bwd_w:n1,c3,k4,i8x8,f3x3,p1:bias", options("reference/*"));
  CHECK(polyconv_buffers_check(weights.plan.get(), &weights.buffers) == POLYCONV_SUCCESS);
  weights.buffers.bias[0] = weights.buffers.weights[0];
  CHECK_BAD_BUFFERS(weights, "buffers.weights[0], which is written, overlaps buffers.bias[0]");
  Job residual = ready("bwd_d:n1,c3,k4,i8x8,f3x3,p1:residual", options("reference/*"));
  CHECK_MESSAGE(polyconv_buffers_check(residual.plan.get(), &residual.buffers) == POLYCONV_SUCCESS, error());
  residual.buffers.residual_gradient[0] = residual.input.data();
  CHECK_BAD_BUFFERS(residual, "buffers.input, which is written, overlaps buffers.residual_gradient[0]");
  residual.buffers.residual_gradient[0] = nullptr; // not wanted
  CHECK_MESSAGE(polyconv_buffers_check(residual.plan.get(), &residual.buffers) == POLYCONV_SUCCESS, error());
  CHECK_MESSAGE(polyconv_run(residual.plan.get(), &residual.buffers, nullptr) == POLYCONV_SUCCESS, error());
  Job scratch = ready("fwd:n1,c3,k4,i8x8,f3x3,p1", probe("fake-plan-probe/scratch"));
  Aligned shared(1 << 16);
  scratch.buffers.workspace = shared.data.get();
  scratch.buffers.input = static_cast<char *>(shared.data.get()) + 512;
  CHECK_BAD_BUFFERS(scratch, "buffers.workspace, which is written, overlaps buffers.input");
}

TEST_CASE("buffers_check: slices of one larger tensor interleave without overlap") {
  // Channels 0..3 of 8 are read, 4..7 written, as a dense block does.
  polyconv_problem p = problem("fwd:n2,c4,k4,i8x8,f3x3,p1:nhwc");
  const int64_t strides[] = {8 * 8 * 8, 1, 8 * 8, 8};
  p.has_input_strides = p.has_output_strides = 1;
  for (int i = 0; i < 4; ++i) p.input_strides[i] = p.output_strides[i] = strides[i];
  std::vector<float> all(2 * 8 * 8 * 8, 1.0f);
  Job job = Job::of({p});
  job.plan = plan(job.problems, options("reference/*"));
  job.prepare_run();
  job.buffers.input = all.data();
  job.buffers.output = all.data() + 4;
  CHECK_MESSAGE(polyconv_buffers_check(job.plan.get(), &job.buffers) == POLYCONV_SUCCESS, error());
  job.buffers.output = all.data() + 3;
  CHECK_BAD_BUFFERS(job, "buffers.output, which is written, overlaps buffers.input");
  std::swap(job.buffers.input, job.buffers.output);
  CHECK_BAD_BUFFERS(job, "overlaps");
}

TEST_CASE("host pointers are refused on a device with memory of its own, by run too where options.checked is set") {
  load("device");
  const polyconv_device *fake = nullptr;
  REQUIRE(polyconv_device_find("fake", &fake) == POLYCONV_SUCCESS);
  Job job({"fwd:n1,c3,k4,i8x8,f3x3"});
  polyconv_options o = options("fake-device/direct");
  o.checked = 1;
  polyconv_status status = POLYCONV_SUCCESS;
  job.plan = try_plan(job.problems, o, &status, fake);
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
  CHECK_BAD_BUFFERS(job, "buffers.input is host memory, expected memory of device fake");
  CHECK_REFUSED(job, "buffers.input is host memory");
}

TEST_CASE("options.checked makes run look at every buffer") {
  polyconv_options o = probe("fake-plan-probe/ties");
  o.checked = 1;
  Job job = ready("fwd:n1,c4,k4,i8x8,f3x3,p1", o);
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  job.buffers.output = job.buffers.input;
  CHECK_REFUSED(job, "overlaps buffers.input");
}

TEST_CASE("options.observer sees every step of a run once it is enqueued, bound or not") {
  struct Seen {
    std::vector<int32_t> steps;
    std::vector<std::string> kernels;
  } seen;
  polyconv_options o = options("reference/*");
  o.observer = [](void *context, int32_t step, const char *kernel, void *stream) {
    auto &to = *static_cast<Seen *>(context);
    to.steps.push_back(step);
    to.kernels.emplace_back(kernel);
    CHECK(stream == nullptr);
  };
  o.observer_context = &seen;
  Job job({"fwd:n1,c4,k4,i8x8,f3x3,p1", "fwd:n1,c4,k4,i8x8,f3x3,p1"});
  job.plan = plan(job.problems, o);
  job.prepare_run();
  const std::vector<int32_t> steps{-1, 0, 1};
  const std::vector<std::string> kernels{"", "reference/convolve@plain", "reference/convolve@plain"};
  CHECK(seen.steps.empty());
  CHECK(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  CHECK(seen.steps == steps);
  CHECK(seen.kernels == kernels);
  seen = {};
  polyconv_bound *bound = nullptr;
  REQUIRE(polyconv_bind(job.plan.get(), &job.buffers, &bound) == POLYCONV_SUCCESS);
  CHECK(polyconv_run_bound(bound, nullptr) == POLYCONV_SUCCESS);
  polyconv_bound_destroy(bound);
  CHECK(seen.steps == steps);
  CHECK(seen.kernels == kernels);
}

TEST_CASE("several threads run one plan at once, each with its own workspace and output") {
  polyconv_options o = options();
  o.threads = 2;
  Job job = ready("fwd:n1,c8,k8,i16x16,f3x3,p1:bias+relu+maxpool2", o);
  REQUIRE(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
  const std::vector<char> expected = job.output;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      polyconv_buffers own = job.buffers;
      Aligned workspace(own.workspace_size);
      for (int i = 0; i < 20; ++i) {
        std::vector<char> output(expected.size(), static_cast<char>(0xff));
        own.output = output.data();
        own.workspace = workspace.data.get();
        if (polyconv_run(job.plan.get(), &own, nullptr) != POLYCONV_SUCCESS || output != expected) ++wrong;
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("from its second call on a run allocates nothing") {
  if (POLYCONV_TEST_COUNTS == 0) return polyconv_test::skip("allocations cannot be counted here");
  load("plan_probe");
  const struct {
    const char *kernel, *token;
  } cases[] = {{nullptr, "fwd:n2,c16,k16,i28x28,f3x3,p1:bias+relu"},
               {nullptr, "fwd:n2,c16,k16,i28x28,f3x3,p1:bias+relu+maxpool2"},
               {nullptr, "bwd_d:n2,c16,k16,i28x28,f3x3,p1"},
               {nullptr, "bwd_w:n2,c16,k16,i28x28,f3x3,p1:bias"},
               {"reference/*", "fwd:n2,c4,k4,i9x9,f3x3,p1:bias+relu+avgpool2"},
               {"openmp/*", "fwd:n2,c16,k16,i28x28,f1x1"},
               {"tbb/*", "fwd:n2,c16,k16,i28x28,f3x3,p1"},
               {"fake-plan-probe/likes_last", "fwd:n2,c16,k16,i28x28,f3x3,p1:relu+maxpool2"}};
  for (const auto &one : cases) {
    for (const int32_t checked : {0, 1}) {
      polyconv_options o = options(one.kernel);
      o.checked = checked;
      polyconv_status status = POLYCONV_SUCCESS;
      Job job({one.token});
      job.plan = try_plan(job.problems, o, &status);
      if (status == POLYCONV_UNAVAILABLE) continue; // this build lacks the backend
      REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, error());
      job.prepare_run();
      CAPTURE(job.kernel);
      REQUIRE(polyconv_run(job.plan.get(), &job.buffers, nullptr) == POLYCONV_SUCCESS);
      counted = 0;
      counting = true;
      for (int i = 0; i < 3; ++i) polyconv_run(job.plan.get(), &job.buffers, nullptr);
      counting = false;
      CHECK(counted == 0);
    }
  }
  // The counter counts: planning allocates.
  counting = true;
  const Plan made = try_plan({problem("fwd:n1,c4,k4,i8x8,f3x3")}, options());
  counting = false;
  CHECK(counted > 0);
}

TEST_CASE("a caller's thread pool is used, and only it") {
  struct Pool {
    std::atomic<int> calls{0};
    static void run(void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
      ++static_cast<Pool *>(context)->calls;
      for (int64_t i = 0; i < tasks; ++i) task(task_context, tasks - 1 - i);
    }
  } pool;
  Job job({"fwd:n2,c16,k16,i28x28,f3x3,p1:bias+relu"});
  polyconv_options o = options();
  o.threads = 3;
  REQUIRE(job.run(o) == POLYCONV_SUCCESS);
  const std::vector<char> expected = job.output;
  o.parallel_for = Pool::run;
  o.parallel_for_context = &pool;
  job.poison();
  REQUIRE(job.run(o) == POLYCONV_SUCCESS);
  CHECK(pool.calls > 0);
  CHECK(job.output == expected);
}

TEST_CASE("a run adds little to the kernel's own call") {
  // An empty problem on a probe kernel: nearly all of it is ours. The bound is loose for busy machines.
  Job job = ready("fwd:n1,c1,k1,i1x1,f1x1", probe("fake-plan-probe/ties"));
  double best = 1e9;
  for (int i = 0; i < 50; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int j = 0; j < 200; ++j) polyconv_run(job.plan.get(), &job.buffers, nullptr);
    best = std::min(best,
                    std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / 200);
  }
  MESSAGE("a run of one element takes " << best << " us");
#if defined(NDEBUG) && POLYCONV_TEST_COUNTS
  CHECK(best < 2);
#endif
}
