// crowd_test.cpp - 64 threads that plan, explain, pack and run at once, each with its own plan and all with one;
// threads with tiny stacks; and a library that is loaded and unloaded again and again.
// SPDX-License-Identifier: Apache-2.0
#include "../plan_job.hpp"

#include <atomic>
#include <climits>
#include <thread>

#include <dlfcn.h>
#include <pthread.h>

#include "../sanitized.hpp"
#include "../skip.hpp"

namespace {

using namespace job;

const char *const kTokens[] = {"fwd:n1,c8,k16,i14x14,f3x3,p1:bias+relu", "fwd:n1,c16,k8,i14x14,f1x1:nhwc",
                               "bwd_d:n1,c8,k8,i9x9,f3x3,s2", "fwd:n1,c8,k8,i14x14,f3x3:nhwc:maxpool2"};

struct Layer {
  polyconv_problem p;
  std::vector<float> data[3]; // input, weights and bias, output
  polyconv_buffers buffers;

  explicit Layer(const char *token) {
    if (polyconv_problem_parse(token, &p) != POLYCONV_SUCCESS) std::abort();
    for (auto &tensor : data) tensor.resize(20000);
    for (size_t i = 0; i < 20000; ++i) {
      data[0][i] = static_cast<float>(static_cast<int>(i % 7) - 3);
      data[1][i] = static_cast<float>(static_cast<int>(i % 5) - 2);
    }
    const bool back = p.direction == POLYCONV_BACKWARD_DATA;
    polyconv_buffers_init(&buffers);
    buffers.input = data[back ? 2 : 0].data();
    buffers.output = data[back ? 0 : 2].data();
    buffers.weights[0] = data[1].data();
    buffers.bias[0] = data[1].data();
  }

  polyconv_status convolve(const polyconv_options *o) { return polyconv_convolve(nullptr, &p, 1, o, &buffers); }
};

std::vector<std::vector<float>> right_answers() {
  std::vector<std::vector<float>> right;
  const polyconv_options o = options("reference/*");
  for (const char *token : kTokens) {
    Layer layer(token);
    REQUIRE(layer.convolve(&o) == POLYCONV_SUCCESS);
    right.push_back(layer.data[2]);
  }
  return right;
}

// Everything a thread does once the search is over.
bool does_it_all(size_t which, const std::vector<float> &right) {
  Layer layer(kTokens[which]);
  polyconv_options o = options();
  o.threads = 2;
  polyconv_explanation *explanation = nullptr;
  if (layer.convolve(&o) != POLYCONV_SUCCESS || layer.data[2] != right) return false;
  if (polyconv_explain(nullptr, &layer.p, 1, &o, &explanation) != POLYCONV_SUCCESS) return false;
  const bool explained = polyconv_explanation_count(explanation) > 0;
  polyconv_explanation_destroy(explanation);
  // And a failure, whose sentence must be this thread's.
  o.threads = -1 - static_cast<int32_t>(which);
  const std::string expected = "options.threads is " + std::to_string(o.threads);
  return layer.convolve(&o) == POLYCONV_INVALID_ARGUMENT && contains(error(), expected) && explained;
}

} // namespace

TEST_CASE("64 threads at once, whose first call is the search") {
  constexpr size_t kThreads = 64;
  std::atomic<size_t> good{0}, waiting{0};
  std::vector<std::vector<float>> outputs(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      Layer layer(kTokens[i % std::size(kTokens)]);
      for (++waiting; waiting < kThreads;) std::this_thread::yield();
      if (layer.convolve(nullptr) == POLYCONV_SUCCESS) ++good;
      outputs[i] = layer.data[2];
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(good == kThreads);
  const auto right = right_answers();
  for (size_t i = 0; i < kThreads; ++i) CHECK(outputs[i] == right[i % right.size()]);
}

TEST_CASE("64 threads plan, explain and run at once, again and again") {
  const auto right = right_answers();
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 64; ++i)
    threads.emplace_back([&, i] {
      for (size_t round = 0; round < 3; ++round) {
        const size_t which = (i + round) % right.size();
        if (does_it_all(which, right[which])) ++good;
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(good == 64 * 3);
}

TEST_CASE("a thread with a tiny stack plans and runs") {
  if (polyconv_test::kSanitized) return polyconv_test::skip("a sanitizer's frames are larger");
  const auto right = right_answers(); // the search, which opens libraries, has been made
  struct Task {
    const std::vector<std::vector<float>> *right;
    int good = 0;
  } task = {&right};
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  constexpr size_t kStack = 128 << 10; // musl's default; glibc's is 8 MiB
  REQUIRE(pthread_attr_setstacksize(&attributes, kStack) == 0);
  pthread_t thread;
  REQUIRE(pthread_create(
              &thread, &attributes,
              [](void *context) -> void * {
                Task &self = *static_cast<Task *>(context);
                for (size_t i = 0; i < self.right->size(); ++i) self.good += does_it_all(i, (*self.right)[i]) ? 1 : 0;
                return nullptr;
              },
              &task) == 0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
  CHECK(task.good == static_cast<int>(right.size()));
}

TEST_CASE("loading what is there again and again changes nothing") {
  load("good");
  const int32_t count = polyconv_backend_count();
  for (int i = 0; i < 100; ++i) {
    CHECK(polyconv_backend_load(fakes::path("good").c_str()) == POLYCONV_INVALID_ARGUMENT);
    CHECK(polyconv_backend_load(fakes::path("no_symbol").c_str()) == POLYCONV_UNAVAILABLE);
  }
  CHECK(polyconv_backend_count() == count + 1); // the one that cannot serve, once
}

TEST_CASE("a program may unload the library: its plug-ins stay, and so must what they were given") {
  const std::string list = "'" + (fakes::build_tests() / "unload").string() + "'";
  const fakes::Result result = fakes::run(list);
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(contains(result.out, "20 times"));
}
