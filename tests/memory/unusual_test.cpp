// unusual_test.cpp - unusual layers against their definition (naive_layer.hpp): inputs that are walked backwards or
// hold one element in many places, negative padding, dilated pooling and pooling of rounded-up sizes. By the reference,
// by what planning takes, and by every other kernel that accepts them, with small integers, so that every sum is exact.
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/check.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "naive_layer.hpp"

namespace {

using naive::Array;

polyconv_problem parse(const std::string &token) {
  polyconv_problem p;
  REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &p) == POLYCONV_SUCCESS,
                  token << ": " << polyconv_last_error());
  return p;
}

// A tensor in memory of its own, from its lowest element on.
struct Memory {
  Memory(const polyconv_problem &p, int32_t which) {
    int64_t bytes = 0;
    REQUIRE(polyconv_problem_tensor(&p, which, &tensor, &bytes) == POLYCONV_SUCCESS);
    REQUIRE((tensor.type == POLYCONV_F32 || tensor.type == POLYCONV_S32));
    elements.assign(static_cast<size_t>(bytes) / 4, -12345.f);
  }
  // What buffers hold: the pointer of element 0.
  void *pointer() { return elements.data() + tensor.offset; }

  template <class Visit>
  void each(const Visit &visit) {
    int64_t i[3];
    for (int64_t n = 0; n < tensor.size[0]; ++n)
      for (int64_t c = 0; c < tensor.size[1]; ++c)
        for (i[0] = 0; i[0] < tensor.size[2]; ++i[0])
          for (i[1] = 0; i[1] < tensor.size[3]; ++i[1])
            for (i[2] = 0; i[2] < tensor.size[4]; ++i[2]) {
              int64_t at = tensor.offset + n * tensor.stride[0] + c * tensor.stride[1];
              for (int axis = 0; axis < 3; ++axis) at += i[axis] * tensor.stride[2 + axis];
              visit(n, c, i, elements.at(static_cast<size_t>(at)));
            }
  }
  void draw(std::mt19937 &random) {
    std::uniform_int_distribution<int> small(-3, 3);
    each([&](int64_t, int64_t, auto &, float &element) { element = static_cast<float>(small(random)); });
  }
  Array array() {
    Array result(tensor.size);
    each([&](int64_t n, int64_t c, auto &i, float &element) { result.at(n, c, i) = static_cast<double>(element); });
    return result;
  }

  polyconv_tensor tensor = {};
  std::vector<float> elements;
};

struct Layer {
  explicit Layer(const std::string &name) : token(name), problem(parse(name)) {
    std::mt19937 random(7);
    for (Memory *memory : {&input, &weights, &output}) memory->draw(random);
    polyconv_buffers_init(&buffers);
    buffers.input = input.pointer(), buffers.output = output.pointer(), buffers.weights[0] = weights.pointer();
    bias = {1, -2, 3, 0, 2, -1, 1, 2, -3, 1, 0, 2, -2, 3, 1, -1};
    if (problem.epilogue.has_bias != 0) buffers.bias[0] = bias.data();
    expect();
  }

  // What the written tensor must hold; of BACKWARD_WEIGHTS the weights' and the bias's gradient.
  void expect() {
    Array x = input.array(), w = weights.array();
    polyconv_problem plain = problem;
    plain.epilogue.pool.kind = POLYCONV_POOL_NONE;
    plain.has_output_strides = 0;
    polyconv_tensor before;
    REQUIRE(polyconv_problem_tensor(&plain, POLYCONV_TENSOR_OUTPUT, &before, nullptr) == POLYCONV_SUCCESS);
    Array y(before.size);
    const bool pools = problem.epilogue.pool.kind != POLYCONV_POOL_NONE;
    if (problem.direction != POLYCONV_FORWARD) y = output.array();
    REQUIRE((problem.direction == POLYCONV_FORWARD || !pools));
    naive::convolve(problem, x, w, y);
    expected = problem.direction == POLYCONV_BACKWARD_DATA ? x : problem.direction == POLYCONV_BACKWARD_WEIGHTS ? w : y;
    int64_t o[3];
    for (int64_t n = 0; n < y.size[0]; ++n)
      for (int64_t k = 0; k < y.size[1]; ++k)
        for (o[0] = 0; o[0] < y.size[2]; ++o[0])
          for (o[1] = 0; o[1] < y.size[3]; ++o[1])
            for (o[2] = 0; o[2] < y.size[4]; ++o[2]) {
              if (problem.epilogue.has_bias == 0) continue;
              if (problem.direction == POLYCONV_FORWARD)
                expected.at(n, k, o) += static_cast<double>(bias[static_cast<size_t>(k)]);
              else
                bias_gradient[static_cast<size_t>(k)] += y.at(n, k, o);
            }
    if (pools) expected = naive::pool(problem, expected, output.tensor.size);
  }

  Memory &written() {
    return problem.direction == POLYCONV_FORWARD         ? output
           : problem.direction == POLYCONV_BACKWARD_DATA ? input
                                                         : weights;
  }

  // False where the kernel does not take it.
  bool check(const char *kernel) {
    CAPTURE(token);
    CAPTURE(kernel);
    polyconv_options options;
    polyconv_options_init(&options);
    options.kernel = kernel;
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    options.threads = 2;
    Memory &result = written();
    const std::vector<float> kept = result.elements, kept_bias = bias;
    std::fill(result.elements.begin(), result.elements.end(), -12345.f);
    const polyconv_status status = polyconv_convolve(nullptr, &problem, 1, &options, &buffers);
    if (status == POLYCONV_UNSUPPORTED) {
      result.elements = kept;
      return false;
    }
    REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, polyconv_last_error());
    double worst = 0;
    result.each([&](int64_t n, int64_t c, auto &i, float &element) {
      worst = std::fmax(worst, std::fabs(static_cast<double>(element) - expected.at(n, c, i)));
      if (element != element) worst = INFINITY;
    });
    CHECK(worst <= (problem.epilogue.pool.kind == POLYCONV_POOL_AVERAGE ? 1e-4 : 0));
    if (problem.direction == POLYCONV_BACKWARD_WEIGHTS && problem.epilogue.has_bias != 0)
      for (int64_t k = 0; k < problem.out_channels; ++k)
        CHECK(static_cast<double>(bias[static_cast<size_t>(k)]) == bias_gradient[static_cast<size_t>(k)]);
    result.elements = kept;
    bias = kept_bias;
    return true;
  }

  const std::string token;
  const polyconv_problem problem;
  Memory input{problem, POLYCONV_TENSOR_INPUT}, weights{problem, POLYCONV_TENSOR_WEIGHTS},
      output{problem, POLYCONV_TENSOR_OUTPUT};
  std::vector<float> bias;
  double bias_gradient[16] = {};
  Array expected;
  polyconv_buffers buffers;
};

// One config of every kernel, by backend and kernel: as many instruction sets as there are cases.
std::vector<std::string> kernels(size_t turn) {
  std::vector<std::string> result;
  std::vector<std::string> configs;
  std::string last;
  const auto close = [&] {
    if (!configs.empty()) result.push_back(configs[turn % configs.size()]);
    configs.clear();
  };
  for (const std::string &name : polyconv::check::kernel_names()) {
    const std::string kernel = name.substr(0, name.find('@'));
    if (kernel != last) close();
    last = kernel;
    configs.push_back(name);
  }
  close();
  return result;
}

void check_all(const std::vector<const char *> &tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    Layer layer(tokens[i]);
    CHECK_MESSAGE(layer.check("reference/*"), tokens[i] << ": " << polyconv_last_error());
    CHECK_MESSAGE(layer.check(nullptr), tokens[i] << ": " << polyconv_last_error());
    for (const std::string &kernel : kernels(i)) layer.check(kernel.c_str());
  }
}

} // namespace

TEST_CASE("inputs may be walked backwards and hold one element in many places") {
  check_all({
      "fwd:n2,c3,k4,i6x7,f3x3,p1:xs=126.42.7.-1",
      "fwd:n2,c3,k4,i6x7,f3x3,p1:xs=126.42.-7.1:bias",
      "fwd:n2,c3,k4,i6x7,f3x3,p1:xs=-126.-42.-7.-1",
      "fwd:n2,c3,k4,i6x7,f3x3,p1:nhwc:xs=126.-1.-21.3",
      "fwd:n2,c3,k4,i6x7,f3x3,p1,s2:xs=0.0.7.1",
      "fwd:n2,c4,k4,g2,i6x7,f3x3,p1:xs=4.1.0.0",
      "fwd:n3,c4,k4,g4,i20x20,f3x3,p1:xs=0.400.20.-1",
      "fwd:n1,c8,k8,i20x20,f1x1:xs=1.-400.0.1",
      "fwd:n1,c8,k8,i20x20,f3x3:xs=0.0.0.0",
      "fwd:n1,c2,k3,i9,f4:xs=1.1.1",
      "fwd:n1,c2,k3,i4x5x6,f3x2x3,p1:xs=240.-120.-30.6.-1",
      "bwd_w:n2,c3,k4,i6x7,f3x3,p1:xs=126.42.7.-1:ys=0.0.0.0:bias",
      "bwd_w:n2,c3,k4,i6x7,f3x3,p1:xs=0.1.0.0:ys=-168.-42.-7.-1:bias",
      "bwd_w:n2,c8,k8,i12x12,f3x3,p1:ys=1152.144.-12.1",
      "bwd_d:n2,c3,k4,i6x7,f3x3,p1:ys=0.0.0.0",
      "bwd_d:n2,c3,k4,i6x7,f3x3,p1,s2:ys=24.-12.4.-1",
      "bwd_d:n2,c8,k8,i12x12,f1x1:ys=-1152.144.-12.-1",
      "tfwd:n2,c3,k4,i6x7,f3x3,p1,s2:xs=0.-42.7.-1:bias",
      "tbwd_d:n2,c3,k4,i6x7,f3x3,p1,s2:ys=0.0.-1.0",
      "tbwd_w:n2,c3,k4,i6x7,f3x3,p1,s2:xs=-1.0.0.0:ys=0.0.-1.1:bias",
  });
}

TEST_CASE("negative padding crops") {
  check_all({
      "fwd:n2,c3,k4,i9x8,f3x3,p-1",
      "fwd:n2,c3,k4,i9x8,f3x3,p-1x-2/-2x0:nhwc:bias",
      "fwd:n2,c3,k4,i9x8,f3x3,s2,p-3x2/1x-1",
      "fwd:n2,c3,k4,i9x8,f3x3,p-3x2/1x-1:pad=replicate",
      "fwd:n2,c3,k4,i9x8,f3x3,p-3x2/4x-1:pad=circular",
      "fwd:n1,c16,k16,i24x24,f3x3,p-2x-4/0:bias",
      "fwd:n1,c16,k16,i24x24,f1x1,p-2x-4/0",
      "fwd:n1,c8,k8,g8,i24x24,f3x3,p-2x-4/1",
      "fwd:n2,c3,k4,i9x8,f3x3,p-1:xs=216.72.-8.-1",
      "fwd:n1,c2,k3,i4x5x6,f2x2x2,p-1x0x-1/0x-2x1",
      "bwd_w:n2,c3,k4,i9x8,f3x3,p-1:bias",
      "bwd_w:n2,c3,k4,i9x8,f3x3,s2,p-3x2/1x-1:nhwc",
      "bwd_d:n2,c3,k4,i9x8,f3x3,p-1",
      "bwd_d:n2,c3,k4,i9x8,f3x3,s2,p-3x2/1x-1",
      "bwd_d:n2,c3,k4,i9x8,f3x3,p-3x2/1x-1:pad=replicate",
      "bwd_d:n2,c3,k4,i9x8,f3x3,p-3x2/4x-1:pad=circular",
      "bwd_d:n1,c16,k16,i24x24,f3x3,p-2x-4/0",
      "tfwd:n2,c3,k4,i5x4,f3x3,p-1:bias",
      "tfwd:n2,c3,k4,i5x4,f3x3,s2,p-1x1/-2x0,o1:bias",
      "tbwd_d:n2,c3,k4,i5x4,f3x3,s2,p-1x1/-2x0,o1",
      "tbwd_w:n2,c3,k4,i5x4,f3x3,s2,p-1x1/-2x0,o1",
      "tbwd_w:n2,c3,k4,i5x4,f3x3,s2,p-1x1/-2x0,o1:bias",
  });
}

TEST_CASE("pooling may be dilated and round sizes up") {
  check_all({
      "fwd:n2,c3,k4,i9x8,f3x3,p1:maxpool3s2c",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:bias+maxpool3s2d2",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:nhwc:maxpool3s1p2d2",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:maxpool2x3s3x2p1x2d1x2c",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s2c",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s2ic",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s2p1ic",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:nhwc:avgpool3x2s2x3p1/0ic",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s2p1d2i",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s3p2/1d2ic",
      "fwd:n2,c3,k4,i9x8,f3x3,p1:bias+avgpool2s3d3c",
      "fwd:n1,c2,k3,i6x5x7,f2x2x2:maxpool2s2d1x2x3c",
      "fwd:n1,c16,k16,i21x21,f3x3,p1:bias+maxpool3s2c",
      "tfwd:n2,c3,k4,i5x4,f3x3,s2:avgpool3s2p1ic",
  });
}

TEST_CASE("channels and sizes may be zero: results are empty, and sums over nothing are what the bias makes of 0") {
  check_all({
      "fwd:n2,c0,k4,i5x5,f3x3,p1:bias",
      "fwd:n2,c0,k4,i5x5,f3x3,p1",
      "fwd:n2,c0,k4,g2,i5x5,f1x1:nhwc:bias",
      "fwd:n2,c3,k0,i5x5,f3x3,p1:bias",
      "fwd:n2,c0,k0,i5x5,f3x3,p1",
      "fwd:n2,c3,k4,i0x5,f1x1:bias",
      "fwd:n2,c3,k4,i2x0,f3x3,p1:bias",
      "fwd:n2,c3,k4,i0x5,f3x3,p2:bias",
      "fwd:n0,c0,k4,i0x5,f3x3,p2:bias",
      "fwd:n2,c3,k4,i0x5,f1x1:bias+maxpool2",
      "fwd:n2,c0,k4,i5x5,f3x3,p1:bias+avgpool2",
      "fwd:n2,c3,k4,i0x5,f3x3,p2:xs=0.-1.5.1:bias",
      "bwd_d:n2,c3,k0,i5x5,f3x3,p1",
      "bwd_d:n2,c0,k3,i5x5,f3x3,p1",
      "bwd_d:n2,c3,k4,i0x5,f3x3,p2",
      "bwd_d:n0,c3,k4,i5x5,f3x3",
      "bwd_w:n2,c3,k4,i0x5,f3x3,p2:bias",
      "bwd_w:n2,c3,k4,i0x5,f1x1:bias",
      "bwd_w:n2,c0,k4,i5x5,f3x3,p1:bias",
      "bwd_w:n2,c0,k4,i5x5,f3x3,p1",
      "bwd_w:n2,c3,k0,i5x5,f3x3,p1:bias",
      "bwd_w:n0,c3,k4,i5x5,f3x3:bias",
      "tfwd:n2,c0,k4,i5x5,f3x3,s2:bias",
      "tfwd:n2,c3,k0,i5x5,f3x3,s2:bias",
      "tfwd:n2,c3,k4,i0x5,f3x3,s2:bias",
      "tfwd:n2,c3,k4,i0x5,f3x3:bias",
      "tbwd_d:n2,c3,k0,i5x5,f3x3,s2",
      "tbwd_d:n2,c3,k4,i0x5,f3x3",
      "tbwd_w:n2,c3,k4,i0x5,f3x3:bias",
      "tbwd_w:n2,c0,k4,i5x5,f3x3:bias",
  });
}

TEST_CASE("what is empty needs no pointer, and is no chain") {
  polyconv_problem p = parse("fwd:n2,c0,k4,i5x5,f3x3,p1");
  std::vector<float> output(200, 7.f);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.output = output.data();
  CHECK(polyconv_convolve(nullptr, &p, 1, nullptr, &buffers) == POLYCONV_SUCCESS);
  CHECK(output == std::vector<float>(200, 0.f));
  p = parse("fwd:n2,c3,k0,i5x5,f3x3,p1:bias");
  polyconv_buffers_init(&buffers);
  CHECK(polyconv_convolve(nullptr, &p, 1, nullptr, &buffers) == POLYCONV_SUCCESS);
  polyconv_options options;
  polyconv_options_init(&options);
  options.fallback = POLYCONV_FALLBACK_ERROR; // nothing is slow that computes nothing
  polyconv_plan *plan = nullptr;
  CHECK(polyconv_plan_create(nullptr, &p, 1, &options, &plan) == POLYCONV_SUCCESS);
  polyconv_weights *weights = nullptr;
  CHECK(polyconv_weights_create(plan, 0, nullptr, nullptr, nullptr, &weights) == POLYCONV_SUCCESS);
  buffers.packed[0] = weights;
  CHECK(polyconv_run(plan, &buffers, nullptr) == POLYCONV_SUCCESS);
  polyconv_weights_destroy(weights);
  polyconv_plan_destroy(plan);
  const polyconv_problem chain[] = {parse("fwd:n2,c3,k0,i5x5,f3x3,p1"), parse("fwd:n2,c0,k4,i5x5,f3x3,p1")};
  CHECK(polyconv_problem_validate(chain, 2) == POLYCONV_INVALID_ARGUMENT);
  CHECK(std::string(polyconv_last_error()).find("out_channels is 0; expected at least 1 in a chain") !=
        std::string::npos);
}

TEST_CASE("cropped layers in chains read what they crop") {
  // The second layer crops what the first one stores, whoever fuses; the residual is the whole input.
  const polyconv_problem chain[] = {parse("fwd:n2,c3,k3,i9x8,f3x3,p1:bias"),
                                    parse("fwd:n2,c3,k4,i9x8,f3x3,p-1:bias+residual=layer0")};
  CHECK(polyconv_problem_validate(chain, 2) == POLYCONV_INVALID_ARGUMENT); // shapes differ: cropping is real
  const polyconv_problem fits[] = {parse("fwd:n2,c3,k3,i9x8,f3x3,p-1/3:bias+residual=input"),
                                   parse("fwd:n2,c3,k3,i9x8,f3x3,p-2/4:bias+residual=input")};
  std::vector<float> input(2 * 3 * 72), weights[2], bias = {1, 2, 3}, results[2];
  std::mt19937 random(3);
  const auto draw = [&](std::vector<float> &v) {
    for (float &x : v) x = static_cast<float>(random() % 5) - 2;
  };
  draw(input);
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = input.data();
  for (int i = 0; i < 2; ++i) {
    weights[i].resize(81);
    draw(weights[i]);
    buffers.weights[i] = weights[i].data(), buffers.bias[i] = bias.data();
  }
  int run = 0;
  for (const char *kernel : {"reference/*", static_cast<const char *>(nullptr)}) {
    polyconv_options options;
    polyconv_options_init(&options);
    options.kernel = kernel;
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    results[run].assign(input.size(), -1.f);
    buffers.output = results[run].data();
    CHECK_MESSAGE(polyconv_convolve(nullptr, fits, 2, &options, &buffers) == POLYCONV_SUCCESS, polyconv_last_error());
    ++run;
  }
  CHECK(results[0] == results[1]);
  // Against layer after layer.
  std::vector<float> between(input.size()), last(input.size());
  for (int i = 0; i < 2; ++i) {
    polyconv_problem one = fits[i];
    one.epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
    polyconv_buffers single;
    polyconv_buffers_init(&single);
    single.input = i == 0 ? input.data() : between.data();
    single.output = i == 0 ? between.data() : last.data();
    single.weights[0] = weights[i].data(), single.bias[0] = bias.data(), single.residual[0] = input.data();
    CHECK(polyconv_convolve(nullptr, &one, 1, nullptr, &single) == POLYCONV_SUCCESS);
  }
  CHECK(results[0] == last);
}

TEST_CASE("unusual layers are served without a fallback where the CPU kernels are there") {
  const std::vector<std::string> names = polyconv::check::kernel_names();
  if (std::none_of(names.begin(), names.end(), [](const std::string &n) { return n.rfind("openmp/pool@", 0) == 0; }))
    return;
  for (const char *token :
       {"fwd:n2,c3,k4,i6x7,f3x3,p1:xs=126.42.7.-1", "fwd:n2,c3,k4,i6x7,f3x3,p1:xs=0.0.7.1",
        "fwd:n2,c3,k4,i9x8,f3x3,p-1", "bwd_w:n2,c3,k4,i6x7,f3x3,p1:ys=0.0.0.0", "fwd:n2,c3,k4,i9x8,f3x3,p1:maxpool3s2c",
        "fwd:n2,c3,k4,i9x8,f3x3,p1:maxpool3s1p2d2", "fwd:n2,c3,k4,i9x8,f3x3,p1:avgpool3s2p1ic"}) {
    const polyconv_problem p = parse(token);
    polyconv_options options;
    polyconv_options_init(&options);
    options.fallback = POLYCONV_FALLBACK_ERROR;
    polyconv_plan *plan = nullptr;
    CHECK_MESSAGE(polyconv_plan_create(nullptr, &p, 1, &options, &plan) == POLYCONV_SUCCESS,
                  token << ": " << polyconv_last_error());
    polyconv_plan_destroy(plan);
  }
}
