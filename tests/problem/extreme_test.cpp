// extreme_test.cpp - sizes, strides and padding up to the edges of 64 bits: each problem is refused in a sentence, or
// planned by every CPU kernel that takes it, in a time and with a workspace that follow from its tensors; and what can
// be run is right, within guards.
// ctest-label: conformance
// ctest-timeout: 300
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "skip.hpp"

namespace {

constexpr double kMostSeconds = 5;              // of planning once; milliseconds on an idle machine
constexpr int64_t kSmallBytes = 1 << 20;        // of tensors that are run
constexpr int64_t kMostWorkspace = 256ll << 20; // that two threads need for small tensors
constexpr int64_t kEdges[] = {1ll << 15, 1ll << 24, 1ll << 31, 1ll << 32, 1ll << 40, 1ll << 48, 1ll << 59, INT64_MAX};

struct PlanDeleter {
  void operator()(polyconv_plan *plan) const { polyconv_plan_destroy(plan); }
};
struct ExplanationDeleter {
  void operator()(polyconv_explanation *explanation) const { polyconv_explanation_destroy(explanation); }
};

polyconv_options options_for(const char *kernel) {
  polyconv_options options;
  polyconv_options_init(&options);
  options.kernel = kernel;
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  options.threads = 2;
  options.math = POLYCONV_MATH_FAST;
  return options;
}

// Bytes of all that a run touches, INT64_MAX where they are no number that fits.
int64_t bytes_of(const polyconv_problem &p) {
  int64_t sum = 0;
  for (const int32_t which : {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_OUTPUT,
                              POLYCONV_TENSOR_PRE_ACTIVATION, POLYCONV_TENSOR_ARGMAX, POLYCONV_TENSOR_RESIDUAL}) {
    int64_t bytes = 0;
    if (polyconv_problem_tensor(&p, which, nullptr, &bytes) != POLYCONV_SUCCESS) continue;
    CHECK(bytes >= 0);
    sum += bytes;
  }
  return sum;
}

// Plans once; what came out is one of the answers that a caller can use, and came in time.
std::unique_ptr<polyconv_plan, PlanDeleter> plan(const polyconv_problem &p, const char *kernel) {
  const polyconv_options options = options_for(kernel);
  const auto begin = std::chrono::steady_clock::now();
  polyconv_plan *made = nullptr;
  const polyconv_status status = polyconv_plan_create(nullptr, &p, 1, &options, &made);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK_MESSAGE(took.count() < kMostSeconds, std::string(kernel == nullptr ? "default" : kernel));
  const bool fine = status == POLYCONV_SUCCESS || status == POLYCONV_UNSUPPORTED || status == POLYCONV_OUT_OF_MEMORY;
  CHECK_MESSAGE(fine, std::string(polyconv_last_error()));
  return std::unique_ptr<polyconv_plan, PlanDeleter>(made);
}

int64_t workspace_of(const polyconv_plan &plan) {
  polyconv_plan_info info = {};
  info.struct_size = sizeof info;
  REQUIRE(polyconv_plan_get_info(&plan, &info) == POLYCONV_SUCCESS);
  return info.workspace_bytes;
}

// Small tensors, and numbers that reach far beyond them.
const char *const kTokens[] = {
    // A stride that is never taken.
    "bwd_d:n1,c1,k1,i3,f1,s576460752303423488",
    "bwd_d:n1,c1,k1,i3,f1,s9223372036854775807",
    "tfwd:n1,c1,k1,i1,f3,s1152921504606846976",
    "fwd:n3,c64,k3,i24x18,f1x3,s1x9223372036854775807,p1x2/1:krsc:f16:scale",
    "bwd_d:n1,c1,k1,i3x3,f1,s274177x67280421310721",
    "bwd_w:n2,c8,k8,i9x9,f3x3,s9223372036854775807:nhwc",
    "fwd:n2,c8,k8,i9x9,f3x3,s7,p1:nhwc",
    "bwd_d:n2,c16,k16,i4x4,f3x3,s3",
    "tfwd:n2,c16,k16,i1x1,f5x5,s3,o2",
    "fwd:n1,c8,k8,i9x9,f1,d9223372036854775807",
    "fwd:n2,c4,k4,i8x8,f3x3,p1:maxpool8s9223372036854775807",
    "fwd:n1,c4,k4,i8x8,f3x3,p1:nhwc:xs=9223372036854775807.1.32.4",
    // Two outputs, far apart.
    "fwd:n1,c1,k1,i3,f1,s281474976710600,p281474976710600/0",
    "bwd_d:n1,c2,k3,i3,f1,s1099511627776,p1099511627776/0",
    "bwd_d:n1,c2,k3,i3x5,f3x3,s1099511627776x1,p1099511627776x1/0x1",
    "tfwd:n1,c2,k3,i2,f3,s1099511627776,p1099511627776/0",
    "bwd_w:n1,c2,k3,i3x5,f3x3,s1099511627776x1,p1099511627776x1/0x1",
    "fwd:n1,c8,k16,i12x12,f3x3,s16777216,p16777216",
    "fwd:n1,c2,k3,i5x7,f3x3,s1x2000000000,p1x2000000000:pad=reflect",
    "fwd:n1,c2,k3,i5x7,f3x3,s2000000000x1,p2000000000x1:pad=circular",
    "fwd:n1,c2,k3,i5x7,f3x3,s2000000000x1,p2000000000x1:pad=symmetric",
    "bwd_w:n1,c2,k8,i5x7,f3x3,s1x2000000000,p1x2000000000:pad=replicate",
    "fwd:n1,c4,k4,g4,i5x7,f3x3,s1x2000000000,p1x2000000000:nhwc",
    "fwd:n1,c3,k3,g3,i5x7,f3x3,s1x2000000000,p1x2000000000:separable:flip",
    "bwd_d:n2,c2,k6,g2,i6x6x2,f3x3x1,s1x2x4194306,p0x4x8388614/0x0x4194308,d1x2x1:nhwc:krsc:pad=replicate",
    "bwd_d:n1,c2,k3,i5x7,f3x3,s1x2000000000,p1x2000000000:pad=circular",
    "bwd_d:n1,c2,k3,i5x7,f3x3,s2000000000x1,p2000000000x1:pad=reflect",
    // Taps that are far apart.
    "fwd:n1,c8,k8,i7x7,f2x2,d1x1073741824,p0x1073741824/0x0",
    "fwd:n1,c8,k8,i7x7,f2x2,d1073741824x1,p1073741824x0/0x0:nhwc",
    "fwd:n1,c8,k8,i7x7,f3x3,d100000,p100000:pad=circular",
    "fwd:n2,c4,k4,g4,i7x70,f3x3,d1x5000,p1x5000:nhwc",
    "bwd_d:n1,c8,k8,i7x7,f2x2,d1x1073741824,p0x1073741824/0x0",
    "bwd_w:n1,c8,k8,i7x7,f2x2,d1x1073741824,p0x1073741824/0x0",
    "bwd_d:n1,c3,k5,i40,f4,s3,d40000,p60000",
    "bwd_d:n1,c3,k5,i40,f4,s2,d40001,p60002",
    "fwd:n1,c3,k5,i40,f4,s3,d40000,p60000",
    "fwd:n1,c2,k2,i4x4,f1:avgpool2x4000000000p0x3999999999",
    "fwd:n1,c2,k2,i4x4,f1:nhwc:maxpool2x40000000s1x39999999p0x39999999",
    "fwd:n1,c3,k3,i4x9,f1:relu+maxpool2x400000s1x399998p0x399999",
};

// Tensors that nobody has: planned or refused, and quickly.
const char *const kVast[] = {
    "fwd:n1,c8,k16,i1099511627776x12,f3x3,p1",
    "fwd:n1,c8,k16,i12x1099511627776,f3x3,p1:nhwc",
    "fwd:n1,c8,k16,i1099511627776x12,f3x3,s549755813888x1,p1:nhwc",
    "bwd_d:n1,c8,k16,i1099511627776x12,f3x3,s549755813888x1,p1",
    "bwd_d:n1,c8,k16,i12x1099511627776,f3x3,s1x549755813888,p1",
    "bwd_w:n1,c8,k16,i1099511627776x12,f3x3,p1",
    "tfwd:n1,c8,k16,i1099511627776x12,f3x3,s2,p1",
    "fwd:n1,c1,k1,i281474976710656,f1",
    "fwd:n1,c1,k1,i1073741823,f536870912",
    "bwd_w:n1,c1,k8,i2147483647,f67108864",
    "fwd:n1,c1,k1,i1x1,f16777216x16777216,p8388608x8388608",
    "fwd:n1,c1,k1,i1x16777216,f1x1048576,s1x1048575,d1x3",
    "fwd:n281474976710656,c1,k1,i1,f1",
    "fwd:n1,c281474976710656,k1,i1,f1",
    "fwd:n1,c1,k281474976710656,i1,f1:nhwc",
    "fwd:n1,c16777216,k16777216,i1,f1:bf16",
    "bwd_w:n1,c16777216,k16777216,i1,f1:nhwc",
    "fwd:n1,c4294967296,k4294967296,g4294967296,i16,f3,p1:nhwc",
    "bwd_w:n1,c4294967296,k4294967296,g4294967296,i16x16,f3x3,p1:nhwc",
    "fwd:n1,c64,k64,i1048576x1048576,f3x3,p1:s8",
    "fwd:n1,c1,k1,i16777216x16777216,f129x129,p64",
    "fwd:n1,c1,k1,i16777216x16777216,f9x9,p4:separable",
    "fwd:n4,c64,k64,i268435456,f3,p1:f64:relu+maxpool2",
};

void plan_everywhere(const polyconv_problem &p, const std::vector<std::string> &kernels, bool small) {
  const auto bounded = [&](const auto &made) {
    if (small && made) CHECK(workspace_of(*made) <= kMostWorkspace);
  };
  bounded(plan(p, nullptr));
  for (const std::string &kernel : kernels) bounded(plan(p, kernel.c_str()));
}

// Small numbers in every tensor of a gradient; what it writes. Empty where the kernels are not there.
std::vector<float> gradient_by(const char *kernel, const polyconv_problem &p) {
  polyconv_options options = options_for(kernel);
  if (p.epilogue.pool.kind == POLYCONV_POOL_MAX) options.save = POLYCONV_SAVE_PRE_ACTIVATION;
  std::vector<float> tensors[4];
  const int32_t which[] = {POLYCONV_TENSOR_INPUT, POLYCONV_TENSOR_WEIGHTS, POLYCONV_TENSOR_OUTPUT,
                           POLYCONV_TENSOR_PRE_ACTIVATION};
  for (int i = 0; i < 4; ++i) {
    int64_t bytes = 0;
    if (polyconv_problem_tensor(&p, which[i], nullptr, &bytes) != POLYCONV_SUCCESS) continue; // nothing was saved
    for (int64_t at = 0; at < bytes / 4; ++at) tensors[i].push_back(static_cast<float>(at * 7 % 11 - 4));
  }
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = tensors[0].data();
  buffers.weights[0] = tensors[1].data();
  buffers.output = tensors[2].data();
  buffers.saved[0] = tensors[3].data();
  const polyconv_status status = polyconv_convolve(nullptr, &p, 1, &options, &buffers);
  if (status == POLYCONV_UNSUPPORTED || status == POLYCONV_UNAVAILABLE) return {};
  CHECK_MESSAGE(status == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
  return tensors[p.direction == POLYCONV_BACKWARD_DATA ? 0 : 1];
}

// Numbers of every magnitude, and those beside the edges of types.
class Edges {
 public:
  explicit Edges(uint64_t seed) : random_(seed) {}

  polyconv_problem next() {
    polyconv_problem p;
    polyconv_problem_init(&p);
    p.spatial_dims = static_cast<int32_t>(between(1, 3));
    p.transposed = chance(25);
    p.flip = chance(10);
    p.separable = chance(10);
    draw_types(&p);
    extreme_ = static_cast<int>(between(5, 60)); // percent of fields that are
    p.batch = chance(10) ? 0 : size();
    p.groups = chance(70) ? 1 : size();
    p.in_channels = product(p.groups, size());
    p.out_channels = chance(30) ? p.groups : product(p.groups, size());
    for (int i = 0; i < p.spatial_dims; ++i) draw_axis(&p, i);
    if (p.transposed == 0 && chance(30)) p.pad_mode = static_cast<int32_t>(between(2, 5));
    p.input_layout = chance(50);
    p.weights_layout = chance(50);
    p.output_layout = chance(50);
    if (chance(20)) draw_strides(&p.has_input_strides, p.input_strides);
    if (chance(10)) draw_strides(&p.has_weights_strides, p.weights_strides);
    if (chance(20)) draw_strides(&p.has_output_strides, p.output_strides);
    if (p.direction == POLYCONV_FORWARD && chance(20)) draw_pool(&p);
    if (p.direction == POLYCONV_FORWARD) p.epilogue.has_bias = chance(50);
    return p;
  }

 private:
  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  int32_t chance(int percent) { return between(1, 100) <= percent ? 1 : 0; }

  // Mostly small, else of any magnitude.
  int64_t size() {
    if (!chance(extreme_)) return between(1, 12);
    if (chance(30)) {
      const int64_t edge = kEdges[between(0, static_cast<int64_t>(std::size(kEdges)) - 1)];
      return edge - between(0, 2);
    }
    return static_cast<int64_t>(random_() >> between(1, 62)) + 1;
  }
  static int64_t product(int64_t a, int64_t b) {
    int64_t value = 0;
    return __builtin_mul_overflow(a, b, &value) ? INT64_MAX : value;
  }

  void draw_types(polyconv_problem *p) {
    static const int32_t rows[][3] = {
        {POLYCONV_F32, POLYCONV_F32, POLYCONV_F32},   {POLYCONV_F64, POLYCONV_F64, POLYCONV_F64},
        {POLYCONV_BF16, POLYCONV_BF16, POLYCONV_F32}, {POLYCONV_F16, POLYCONV_F16, POLYCONV_F16},
        {POLYCONV_S8, POLYCONV_S8, POLYCONV_S8},      {POLYCONV_U8, POLYCONV_F32, POLYCONV_U8}};
    const int64_t row = chance(60) ? 0 : between(0, 5);
    p->input_type = rows[row][0], p->weights_type = rows[row][1], p->output_type = rows[row][2];
    if (row < 4) p->direction = static_cast<int32_t>(between(POLYCONV_FORWARD, POLYCONV_BACKWARD_WEIGHTS));
  }

  void draw_axis(polyconv_problem *p, int i) {
    p->input_size[i] = size();
    p->kernel_size[i] = chance(60) ? between(1, 5) : size();
    p->stride[i] = chance(40) ? 1 : size();
    p->dilation[i] = chance(60) ? 1 : size();
    // Padding in which the taps find room, as often as not.
    const int64_t reach = product(p->kernel_size[i] - 1, p->dilation[i]);
    p->pad_begin[i] = chance(40) ? 0 : chance(40) ? size() : chance(50) ? reach : p->stride[i];
    p->pad_end[i] = chance(50) ? 0 : chance(50) ? p->pad_begin[i] : size();
    if (p->transposed != 0 && chance(20)) p->output_padding[i] = size() - 1;
  }

  void draw_strides(int32_t *has, int64_t (&strides)[5]) {
    *has = 1;
    for (int64_t &stride : strides) stride = size();
  }

  void draw_pool(polyconv_problem *p) {
    polyconv_pool &pool = p->epilogue.pool;
    pool.kind = static_cast<int32_t>(between(POLYCONV_POOL_MAX, POLYCONV_POOL_AVERAGE));
    for (int i = 0; i < p->spatial_dims; ++i) {
      pool.window[i] = size();
      pool.stride[i] = size();
      pool.pad_begin[i] = chance(50) ? 0 : pool.window[i] - 1;
      pool.pad_end[i] = chance(50) ? 0 : pool.window[i] - 1;
    }
  }

  std::mt19937_64 random_;
  int extreme_ = 0;
};

} // namespace

TEST_CASE("small tensors amid vast padding, strides and dilation are planned in proportion, and computed right") {
  const std::vector<std::string> kernels = polyconv::check::kernel_names();
  int ran = 0;
  for (const std::string token : kTokens) {
    CAPTURE(token);
    polyconv_problem p;
    REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
    REQUIRE(bytes_of(p) <= kSmallBytes);
    plan_everywhere(p, kernels, true);
    polyconv::check::Case layer(token);
    for (const std::string &kernel : kernels) {
      CAPTURE(kernel);
      const polyconv::check::Result result =
          layer.run(polyconv::check::Mode::Exact, nullptr, options_for(kernel.c_str()));
      if (result.verdict == polyconv::check::Verdict::Unsupported) continue;
      CHECK_MESSAGE(result.acceptable(), result.sentence);
      ran += result.good() ? 1 : 0;
    }
    CHECK(layer.run(polyconv::check::Mode::Exact, nullptr, options_for(nullptr)).acceptable());
  }
  MESSAGE(ran << " runs");
  CHECK(ran >= static_cast<int>(std::size(kTokens)));
}

TEST_CASE("gradients through pooling of vast windows keep to what lies inside") {
  for (const std::string token : {"bwd_d:n1,c2,k2,i4x4,f1:avgpool2x4000000000p0x3999999999",
                                  "bwd_w:n1,c2,k2,i4x9,f1:maxpool2x40000000s1x39999999p0x39999999",
                                  "bwd_d:n1,c2,k2,i4x9,f1:nhwc:relu+maxpool2x40000000s1x39999999p0x39999999"}) {
    CAPTURE(token);
    polyconv_problem p;
    REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS, std::string(polyconv_last_error()));
    const std::vector<float> expected = gradient_by("reference/*", p);
    CHECK(std::any_of(expected.begin(), expected.end(), [](float value) { return value != 0; }));
    for (const char *kernel : {"openmp/*", "tbb/*"}) {
      const std::vector<float> found = gradient_by(kernel, p);
      for (size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("vast tensors are planned or refused at once, by every kernel") {
  const std::vector<std::string> kernels = polyconv::check::kernel_names();
  int refused = 0;
  for (const std::string token : kVast) {
    CAPTURE(token);
    polyconv_problem p;
    if (polyconv_problem_parse(token.c_str(), &p) != POLYCONV_SUCCESS) {
      CHECK(std::string(polyconv_last_error()).find("expected") != std::string::npos);
      ++refused;
      continue;
    }
    CHECK(bytes_of(p) > 0);
    plan_everywhere(p, kernels, false);
  }
  CHECK(refused < static_cast<int>(std::size(kVast)) / 2);
}

TEST_CASE("problems drawn to the edges of 64 bits are refused in a sentence or explained and planned") {
  Edges edges(19);
  int valid = 0, planned = 0;
  for (int round = 0; round < 20000; ++round) {
    const polyconv_problem p = edges.next();
    if (polyconv_problem_validate(&p, 1) != POLYCONV_SUCCESS) {
      const std::string sentence = polyconv_last_error();
      CHECK(sentence.find("layer 0: ") != std::string::npos);
      CHECK(sentence.find("expected") != std::string::npos);
      continue;
    }
    ++valid;
    char text[1024] = "";
    CHECK(polyconv_problem_format(&p, text, sizeof text, nullptr) == POLYCONV_SUCCESS);
    const std::string token = text;
    CAPTURE(token);
    bytes_of(p);
    const polyconv_options options = options_for(nullptr);
    const auto begin = std::chrono::steady_clock::now();
    polyconv_explanation *made = nullptr;
    REQUIRE_MESSAGE(polyconv_explain(nullptr, &p, 1, &options, &made) == POLYCONV_SUCCESS,
                    std::string(polyconv_last_error()));
    const std::unique_ptr<polyconv_explanation, ExplanationDeleter> explanation(made);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    CHECK(took.count() < kMostSeconds);
    const auto chosen = plan(p, nullptr);
    if (chosen) CHECK(workspace_of(*chosen) >= 0);
    planned += chosen ? 1 : 0;
  }
  MESSAGE(valid << " valid, " << planned << " planned");
  CHECK(valid >= 1000);
  CHECK(planned >= 500);
}
