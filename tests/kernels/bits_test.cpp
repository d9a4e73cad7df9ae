// bits_test.cpp - the order of every sum is a function of problem and config alone: the same bits at every thread
// count, in a caller's pool, and from threads, openmp and tbb, which link the same kernels.
//
// All of that is long for an emulator. POLYCONV_BITS_OF=@sve256 takes only the kernels with that in their names,
// POLYCONV_BITS_PART=2/5 the second of five equal parts of them, and POLYCONV_BITS_CUT=3 one problem in three, others
// for the next kernel, smaller ones for large, on three threads and in a caller's pool, and random numbers alone
// (tests/cross).
//
// ctest-label: conformance
// ctest-timeout: 240
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>
#include <polyconv/sdk/epilogue.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "not_here.hpp"
#include "number_from.hpp"
#include "skip.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

// Sizes that many threads cannot share evenly.
constexpr const char *kProblems[] = {
    "fwd:n3,c19,k37,i17x13,f3x3,p1:bias+relu",
    "fwd:n1,c64,k48,i14x15,f3x3,p1:nhwc",
    "fwd:n2,c40,k56,i9x9,f1x1:nhwc:bias+silu",
    "fwd:n2,c40,k56,i9x9,f1x1:f16",
    "fwd:n7,c24,k40,i7x7,f1x1:bias+relu",
    "fwd:n2,c35,k35,g35,i15x15,f3x3,p1",
    "fwd:n2,c32,k32,g32,i15x15,f3x3,s2,p1:nhwc:bias+clip6",
    "fwd:n1,c1,k1,i67x129,f5x5,p2:pad=reflect",
    "fwd:n1,c3,k3,g3,i67x43,f3x3,p1:nhwc:u8-f32-f32:pad=replicate",
    "fwd:n2,c9,k21,i11x12,f3x3,p1:bf16:bias+relu+avgpool2",
    "fwd:n2,c9,k21,i11x12,f3x3,p1:f64",
    "fwd:n2,c300,k5,i4x4,f3x3,p1",
    "fwd:n2,c3,k5,i5x6x7,f3x3x3,p1",
    "bwd_d:n3,c19,k37,i17x13,f3x3,s2,p1",
    "bwd_d:n2,c12,k12,g12,i11x11,f3x3,p1:nhwc",
    "bwd_w:n7,c11,k13,i17x13,f3x3,p1:bias",
    "bwd_w:n5,c16,k24,i14x14,f1x1:nhwc:bias",
    "bwd_w:n5,c12,k12,g12,i11x11,f3x3,s2,p1",
    "bwd_d:n2,c40,k56,i13x11,f3x3,s2,p1:nhwc",
    "bwd_w:n3,c40,k70,i30x29,f3x3,p1:bias",
    "bwd_w:n3,c200,k150,i14x14,f1x1:nhwc",
    "bwd_w:n5,c40,k40,g40,i15x13,f3x3,p1:nhwc",
    "tfwd:n2,c19,k11,i9x7,f4x4,s2,p1:bias+relu",
    "fwd:n3,c19,k37,i17x13,f3x3,p1:bias+elu0.5",
    "fwd:n2,c40,k56,i9x9,f1x1:nhwc:bias+gelutanh",
    "fwd:n2,c32,k32,g32,i15x15,f3x3,p1:nhwc:f16:prelu",
    "fwd:n2,c9,k21,i11x12,f3x3,p1:u8-s8-s32:wz=channel",
    "bwd_w:n7,c11,k13,i17x13,f3x3,p1:bf16-f32-bf16:bias",
    "bwd_w:n3,c40,k70,i20x19,f3x3,p1:scale+bias+residual",
    "bwd_d:n2,c12,k12,g12,i11x11,f3x3,p1:nhwc:f16:scale+residual",
};

// One tensor of random bits that are finite numbers of its type.
Bytes random_tensor(const polyconv_problem &p, int32_t which) {
  polyconv_tensor tensor;
  int64_t size = 0;
  if (polyconv_problem_tensor(&p, which, &tensor, &size) != POLYCONV_SUCCESS) return {};
  Bytes bytes(static_cast<size_t>(size));
  uint32_t state = 77u + static_cast<uint32_t>(which);
  const size_t element = polyconv_type_size(tensor.type);
  for (size_t i = 0; i < bytes.size() / element; ++i) {
    state = state * 1664525u + 1013904223u;
    const float v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    const double wide = static_cast<double>(v) + static_cast<double>(state >> 7) * 0x1p-50;
    if (tensor.type < POLYCONV_S32)
      polyconv::sdk::store_as(bytes.data(), tensor.type, static_cast<int64_t>(i), wide);
    else
      std::memcpy(bytes.data() + i * element, &state, element);
  }
  return bytes;
}

// Everything that a run writes; empty where the kernel does not take the problem.
Bytes run(const char *token, const std::string &kernel, int32_t threads, polyconv_parallel_for pool,
          void *pool_context) {
  polyconv_problem p;
  polyconv_problem_init(&p);
  REQUIRE_MESSAGE(polyconv_problem_parse(token, &p) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
  Bytes input = random_tensor(p, POLYCONV_TENSOR_INPUT), weights = random_tensor(p, POLYCONV_TENSOR_WEIGHTS);
  Bytes bias = random_tensor(p, POLYCONV_TENSOR_BIAS), output = random_tensor(p, POLYCONV_TENSOR_OUTPUT);
  const Bytes slope = random_tensor(p, POLYCONV_TENSOR_SLOPE), scale = random_tensor(p, POLYCONV_TENSOR_SCALE);
  const Bytes zero_point = random_tensor(p, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT);
  Bytes residual = random_tensor(p, POLYCONV_TENSOR_RESIDUAL_GRADIENT);
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel.c_str();
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = threads;
  options.parallel_for = pool;
  options.parallel_for_context = pool_context;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input.data();
  buffers.weights[0] = weights.data();
  buffers.bias[0] = bias.data();
  buffers.output = output.data();
  buffers.slope[0] = slope.data();
  buffers.scale[0] = scale.data();
  buffers.weights_zero_point[0] = zero_point.data();
  buffers.residual_gradient[0] = residual.data();
  const polyconv_status status = polyconv_convolve(nullptr, &p, 1, &options, &buffers);
  if (status == POLYCONV_UNSUPPORTED) return {};
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, token << " by " << kernel << ": " << std::string(polyconv_last_error()));
  if (p.direction == POLYCONV_FORWARD) return output;
  Bytes &written = p.direction == POLYCONV_BACKWARD_DATA ? input : weights;
  if (p.direction == POLYCONV_BACKWARD_WEIGHTS) written.insert(written.end(), bias.begin(), bias.end());
  written.insert(written.end(), residual.begin(), residual.end());
  return written;
}

// Three threads of the caller's own, tasks in no particular order.
struct Pool {
  std::atomic<int64_t> calls{0};

  static void run(void *context, int64_t tasks, void (*task)(void *, int64_t), void *task_context) {
    ++static_cast<Pool *>(context)->calls;
    std::atomic<int64_t> left{tasks};
    const auto work = [&] {
      for (int64_t i; (i = --left) >= 0;) task(task_context, i);
    };
    std::thread threads[2] = {std::thread(work), std::thread(work)};
    work();
    for (std::thread &thread : threads) thread.join();
  }
};

bool starts_with(const std::string &name, const char *prefix) {
  return name.compare(0, std::strlen(prefix), prefix) == 0;
}

const char *environment(const char *variable) {
  const char *value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// Every kernel and config, or those that POLYCONV_BITS_OF and POLYCONV_BITS_PART leave.
std::vector<std::string> kernels() {
  unsigned part = 1, parts = 1;
  const char *const share = environment("POLYCONV_BITS_PART");
  const bool sense = std::sscanf(share, "%u/%u", &part, &parts) == 2 && part >= 1 && part <= parts;
  REQUIRE_MESSAGE((sense || *share == 0), "POLYCONV_BITS_PART=" << std::string(share) << " is no part, as 2/5 is");
  std::vector<std::string> result;
  unsigned count = 0;
  for (const std::string &name : polyconv::check::kernel_names())
    if (name.find(environment("POLYCONV_BITS_OF")) != std::string::npos && count++ % parts == part - 1)
      result.push_back(name);
  return result;
}

size_t cut() {
  return static_cast<size_t>(polyconv_test::cut_from("POLYCONV_BITS_CUT"));
}

// The problems for the kernel with that number.
template <size_t Count>
std::vector<const char *> problems(const char *const (&all)[Count], size_t kernel) {
  const size_t step = cut();
  std::vector<const char *> result;
  for (size_t i = kernel % step; i < Count; i += step) result.push_back(all[i]);
  return result;
}

// One thread's bits against those of several and of a caller's pool. False where the kernel takes no such problem.
bool same_on_all_threads(const char *problem, const std::string &kernel, Pool &pool) {
  const Bytes one = run(problem, kernel, 1, nullptr, nullptr);
  if (one.empty()) return false;
  for (int32_t threads : cut() > 1 ? std::vector<int32_t>{3} : std::vector<int32_t>{2, 3, 8})
    CHECK_MESSAGE(one == run(problem, kernel, threads, nullptr, nullptr),
                  kernel << " on " << std::string(problem) << " with " << threads << " threads");
  CHECK_MESSAGE(one == run(problem, kernel, 5, Pool::run, &pool),
                kernel << " on " << std::string(problem) << " in the caller's pool");
  return true;
}

// Which thread counts and pools change nothing is asked of the kernels of threads; openmp and tbb must agree with
// these.
bool is_twin(const std::string &kernel) {
  return starts_with(kernel, "openmp/") || starts_with(kernel, "tbb/");
}

// Large enough that shares are cut into pieces, which any thread may do: in place and brought into strips, by lines, by
// pixels and by panels; of lines too long for one strip, too.
constexpr const char *kLarge[] = {"fwd:n3,c96,k160,i29x28,f3x3,p1:nhwc:bias+relu",
                                  "fwd:n2,c512,k72,i13x14,f3x3,p1:nhwc",
                                  "fwd:n5,c1024,k200,i9x11,f1x1:nhwc",
                                  "fwd:n3,c256,k520,i9x31,f1x1:nhwc:bias",
                                  "fwd:n3,c256,k200,i29x31,f1x1:bias",
                                  "fwd:n2,c80,k96,i43x48,f3x3,p1",
                                  "fwd:c64,k288,i2x344,f3x3,p1",
                                  "fwd:n23,c4,k16,i40x40,f7x7:bias"};

// The same for emulators, a tenth of the work: shares of some 100 us, which are still cut into five pieces and more.
constexpr const char *kLargeEmulated[] = {"fwd:n3,c32,k64,i15x14,f3x3,p1:nhwc:bias+relu",
                                          "fwd:n2,c128,k40,i13x7,f3x3,p1:nhwc",
                                          "fwd:n5,c200,k100,i9x11,f1x1:nhwc",
                                          "fwd:n3,c100,k130,i9x31,f1x1:nhwc:bias",
                                          "fwd:n3,c64,k66,i29x31,f1x1:bias",
                                          "fwd:n2,c24,k32,i43x22,f3x3,p1",
                                          "fwd:c24,k64,i2x344,f3x3,p1",
                                          "fwd:n9,c4,k16,i22x23,f7x7:bias"};

bool has_pieces(const std::string &kernel) {
  for (const char *name : {"/dense@", "/pointwise@", "/lowered@", "/shifted@"})
    if (kernel.find(name) != std::string::npos) return true;
  return false;
}

// The bits of a twin's kernel against those of threads. False where the kernel takes no such problem.
bool same_as_twin(const char *problem, const std::string &kernel) {
  const Bytes own = run(problem, "threads" + kernel.substr(kernel.find('/')), 2, nullptr, nullptr);
  if (own.empty()) return false;
  CHECK_MESSAGE(own == run(problem, kernel, 3, nullptr, nullptr), kernel << " on " << std::string(problem));
  return true;
}

} // namespace

TEST_CASE("thread counts and a caller's pool change no bit") {
  Pool pool;
  int compared = 0;
  size_t turn = 0;
  for (const std::string &kernel : kernels()) {
    if (starts_with(kernel, "onednn/") || is_twin(kernel)) continue; // onednn promises neither
    for (const char *problem : problems(kProblems, turn++)) compared += same_on_all_threads(problem, kernel, pool);
  }
  CHECK(compared > 0);
  CHECK(pool.calls > 0);
}

TEST_CASE("who does which piece of a large layer changes no bit") {
  Pool pool;
  int compared = 0;
  for (const std::string &kernel : kernels()) {
    if (!has_pieces(kernel) || is_twin(kernel)) continue;
    for (const char *problem : cut() > 1 ? kLargeEmulated : kLarge)
      compared += same_on_all_threads(problem, kernel, pool);
  }
  CHECK(compared > 0);
}

TEST_CASE("threads, openmp and tbb agree in every bit") {
  int compared = 0;
  size_t turn = 0;
  for (const std::string &kernel : kernels())
    if (is_twin(kernel))
      for (const char *problem : problems(kProblems, turn++)) compared += same_as_twin(problem, kernel);
  if (compared == 0) return polyconv_test::skip("neither openmp nor tbb is here");
  MESSAGE(compared << " results compared");
}

TEST_CASE("threads, openmp and tbb agree in every bit of large layers") {
  int compared = 0;
  for (const std::string &kernel : kernels()) {
    if (!has_pieces(kernel) || !is_twin(kernel)) continue;
    for (size_t i = 0; i < std::size(kLarge); i += 3)
      compared += same_as_twin(cut() > 1 ? kLargeEmulated[i] : kLarge[i], kernel);
  }
  if (compared == 0) return polyconv_test::skip("neither openmp nor tbb is here");
  MESSAGE(compared << " results compared");
}

// avx512_bf16 is a config for bf16 alone.
bool is_depthwise_of_f32(const std::string &kernel) {
  return starts_with(kernel, "threads/depthwise@") && kernel.find("bf16") == std::string::npos;
}

TEST_CASE("depthwise layers beyond the caches are right, whole vectors of channels or not") {
  polyconv_options options;
  polyconv_options_init(&options);
  int here = 0;
  for (const char *token :
       {"fwd:n3,c100,k100,g100,i91x85,f3x3,s2,p1/0:nhwc:bias+clip6", "fwd:n5,c48,k48,g48,i90x86,f5x5,s2,p2/1:nhwc",
        "fwd:n4,c32,k32,g32,i30x600,f3x3,s2,p4:nhwc:pad=circular", "fwd:n4,c64,k64,g64,i85x90,f3x3,p1:nhwc:bias"}) {
    polyconv::check::Case problem(token); // one for all kernels: what the reference says takes longer than they
    for (const std::string &kernel : kernels()) {
      if (!is_depthwise_of_f32(kernel)) continue;
      options.kernel = kernel.c_str();
      const polyconv::check::Result result =
          cut() > 1 ? problem.run(polyconv::check::Mode::Random, nullptr, options) : problem.run_all(nullptr, options);
      if (polyconv_test::is_not_here(result.sentence)) continue;
      ++here;
      CHECK_MESSAGE(result.good(), kernel << ": " << result.sentence);
      CHECK(result.kernel == kernel);
    }
  }
  CHECK(here > 0);
}

TEST_CASE("small depthwise planes keep their kernel where the workspace is too small to turn them") {
  polyconv_options options;
  polyconv_options_init(&options);
  options.threads = 2;                // each has its own workspace
  options.workspace_limit = 64 << 10; // turned, input and result take 490 KiB
  int here = 0;
  polyconv::check::Case problem("fwd:n8,c40,k40,g40,i14x14,f3x3,p1:bias");
  for (const std::string &kernel : kernels()) {
    if (!is_depthwise_of_f32(kernel)) continue;
    options.kernel = kernel.c_str();
    const polyconv::check::Result result = problem.run(polyconv::check::Mode::Random, nullptr, options);
    if (polyconv_test::is_not_here(result.sentence)) continue;
    ++here;
    CHECK_MESSAGE(result.good(), kernel << ": " << result.sentence);
    CHECK(result.kernel == kernel);
  }
  CHECK(here > 0);
}

// Kernels that sum in different orders are chosen by what fits into the caches; at this level by one image of it.
TEST_CASE("an image has the same bits in a batch that is no longer in the caches") {
  constexpr int kImages = 4;
  const std::string rest = "c144,k144,g144,i56x56,f3x3,p1:nhwc:bias"; // 3.6 MB each
  polyconv_options options;
  polyconv_options_init(&options);
  options.determinism = POLYCONV_DETERMINISM_INVARIANT;
  std::vector<float> input(size_t{kImages} * 144 * 56 * 56), weights(144 * 9), bias(144), one(144 * 56 * 56);
  std::vector<float> batch(input.size());
  unsigned state = 1;
  for (std::vector<float> *numbers : {&input, &weights, &bias})
    for (float &number : *numbers)
      number = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 8388608 - 1;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.weights[0] = weights.data(), buffers.bias[0] = bias.data();
  const auto run = [&](const std::string &token, float *from, float *to) {
    polyconv_problem problem;
    REQUIRE(polyconv_problem_parse(token.c_str(), &problem) == POLYCONV_SUCCESS);
    buffers.input = from, buffers.output = to;
    return polyconv_convolve(nullptr, &problem, 1, &options, &buffers);
  };
  for (const std::string &kernel : kernels()) {
    if (!is_depthwise_of_f32(kernel)) continue;
    options.kernel = kernel.c_str();
    if (run("fwd:n4," + rest, input.data(), batch.data()) != POLYCONV_SUCCESS) continue; // not on this processor
    for (size_t i = 0; i < kImages; ++i) {
      REQUIRE(run("fwd:n1," + rest, input.data() + i * one.size(), one.data()) == POLYCONV_SUCCESS);
      CHECK_MESSAGE(std::memcmp(one.data(), batch.data() + i * one.size(), one.size() * sizeof(float)) == 0, kernel);
    }
  }
}
