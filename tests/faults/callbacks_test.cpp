// callbacks_test.cpp - callbacks that call back: a log sink, an observer, a thread pool and an allocator that use
// polyconv themselves, while polyconv is calling them.
// SPDX-License-Identifier: Apache-2.0
#include "../plan_job.hpp"

#include <atomic>
#include <thread>

namespace {

using namespace job;

const char *const kToken = "fwd:n2,c8,k8,i12x12,f3x3,p1:bias+relu";

// A plan that is run from wherever, and knows its right answer.
struct Small {
  Plan made;
  std::vector<float> input = std::vector<float>(2 * 8 * 12 * 12), weights = std::vector<float>(8 * 8 * 9),
                     bias = std::vector<float>(8, 1.0f), output = std::vector<float>(2 * 8 * 12 * 12), right;
  std::unique_ptr<Aligned> workspace;
  Weights packed;
  polyconv_buffers buffers;

  explicit Small(const polyconv_options &o) : made(plan({problem(kToken)}, o)) {
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>(static_cast<int>(i % 7) - 3);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(static_cast<int>(i % 5) - 2);
    workspace = std::make_unique<Aligned>(static_cast<size_t>(info(made).workspace_bytes));
    polyconv_weights *w = nullptr;
    REQUIRE(polyconv_weights_create(made.get(), 0, weights.data(), nullptr, nullptr, &w) == POLYCONV_SUCCESS);
    packed.reset(w);
    polyconv_buffers_init(&buffers);
    buffers.input = input.data();
    buffers.weights[0] = weights.data();
    buffers.packed[0] = w;
    buffers.bias[0] = bias.data();
    buffers.output = output.data();
    buffers.workspace = workspace->data.get();
    buffers.workspace_size = workspace->size;
  }

  polyconv_status run() const { return polyconv_run(made.get(), &buffers, nullptr); }
};

std::vector<float> right_answer() {
  Small reference(options("reference/*"));
  REQUIRE(reference.run() == POLYCONV_SUCCESS);
  return reference.output;
}

} // namespace

TEST_CASE("a log sink may plan, look at errors and set another sink") {
  struct Sink {
    std::atomic<int> lines{0}, others{0};
    static void first(void *context, int32_t, const char *) {
      Sink &self = *static_cast<Sink *>(context);
      ++self.lines;
      chosen({problem(kToken)}, options("reference/*")); // would log a line itself: a fallback
      polyconv_backend_load("/nowhere/libpolyconv_of_nobody.so");
      if (self.lines == 1) polyconv_set_log(second, context, POLYCONV_LOG_WARNING);
    }
    static void second(void *context, int32_t, const char *) { ++static_cast<Sink *>(context)->others; }
  } sink;
  polyconv_set_log(Sink::first, &sink, POLYCONV_LOG_DEBUG);
  chosen({problem(kToken)}, options("reference/*"));
  CHECK(sink.lines == 1);
  const int before = sink.others;
  chosen({problem(kToken)}, options("reference/*"));
  CHECK(sink.lines == 1);
  CHECK(sink.others == before + 1);
  polyconv_set_log(nullptr, nullptr, 0);
}

TEST_CASE("sinks of several threads that set sinks do not wait for each other") {
  static std::atomic<int> lines;
  lines = 0;
  struct Sink {
    static void add(void *, int32_t, const char *) {
      ++lines;
      polyconv_set_log(add, nullptr, POLYCONV_LOG_WARNING);
    }
  };
  polyconv_set_log(Sink::add, nullptr, POLYCONV_LOG_WARNING);
  const polyconv_problem p = problem(kToken);
  const polyconv_options o = options("reference/*");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        polyconv_plan *plan = nullptr;
        polyconv_plan_create(nullptr, &p, 1, &o, &plan);
        polyconv_plan_destroy(plan);
      }
    });
  for (std::thread &thread : threads) thread.join();
  polyconv_set_log(nullptr, nullptr, 0);
  CHECK(lines == 160);
}

TEST_CASE("an observer may run other plans") {
  const std::vector<float> right = right_answer();
  static Small *inner;
  Small other(options());
  inner = &other;
  polyconv_options o = options();
  static std::atomic<int> calls;
  calls = 0;
  o.observer = [](void *, int32_t step, const char *, void *) {
    ++calls;
    if (step >= 0) CHECK(inner->run() == POLYCONV_SUCCESS);
  };
  Small outer(o);
  CHECK(outer.run() == POLYCONV_SUCCESS);
  CHECK(calls >= 2);
  CHECK(outer.output == right);
  CHECK(inner->output == right);
}

TEST_CASE("a caller's pool may run other plans in its tasks, and itself through another plan") {
  const std::vector<float> right = right_answer();
  struct Pool {
    const Small *inner = nullptr;
    std::atomic<int> depth{0};
    static void run(void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
      Pool &self = *static_cast<Pool *>(context);
      const bool outermost = self.depth++ == 0;
      for (int64_t i = tasks; i-- > 0;) {
        task(task_context, i);
        if (outermost && self.inner != nullptr) CHECK(self.inner->run() == POLYCONV_SUCCESS);
      }
      --self.depth;
    }
  } pool;
  polyconv_options o = options();
  o.parallel_for = Pool::run;
  o.parallel_for_context = &pool;
  o.threads = 4;
  Small inner(o);
  pool.inner = &inner;
  Small outer(o);
  CHECK(outer.run() == POLYCONV_SUCCESS);
  CHECK(outer.output == right);
}

TEST_CASE("an allocator may use polyconv, and one that has nothing left is out of memory") {
  struct Memory {
    int left = 1000, alive = 0;
    static void *allocate(void *context, size_t bytes, size_t alignment) {
      Memory &self = *static_cast<Memory *>(context);
      polyconv_device_properties properties;
      properties.struct_size = sizeof properties;
      polyconv_device_get_properties(nullptr, &properties);
      if (self.left-- <= 0) return nullptr;
      ++self.alive;
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    }
    static void release(void *context, void *pointer) {
      --static_cast<Memory *>(context)->alive;
      std::free(pointer);
    }
  } memory;
  polyconv_options o = options();
  o.allocator = {Memory::allocate, Memory::release, &memory};
  {
    Small small(o);
    CHECK(small.run() == POLYCONV_SUCCESS);
    memory.left = 0;
    polyconv_weights *w = nullptr;
    CHECK(polyconv_weights_create(small.made.get(), 0, small.weights.data(), nullptr, nullptr, &w) ==
          POLYCONV_OUT_OF_MEMORY);
    CHECK(contains(error(), "options.allocator returned NULL"));
  }
  CHECK(memory.alive == 0);
}
