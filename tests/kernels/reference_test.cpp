// reference_test.cpp - the oracle itself, against a second, independent definition (conformance/naive.hpp): every case
// of the conformance tests, and random problems over every field.
//
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>
#include <polyconv/sdk/epilogue.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "conformance/cases.hpp"
#include "conformance/naive.hpp"
#include "conformance/tame.hpp"
#include "number_from.hpp"

namespace {

using naive::Values;
using polyconv::sdk::load_as;
using polyconv::sdk::store_as;

// One tensor of a problem in memory; empty where the problem has none.
struct Memory {
  polyconv_tensor tensor = {};
  std::vector<unsigned char> bytes;

  Memory(const polyconv_problem &p, int32_t which) {
    int64_t size = 0;
    if (polyconv_problem_tensor(&p, which, &tensor, &size) == POLYCONV_SUCCESS) bytes.resize(static_cast<size_t>(size));
    if (bytes.empty()) tensor.size[0] = 0;
  }
  void *data() { return bytes.data(); }

  template <class Visit>
  void each(const Visit &visit) const {
    const int64_t(&s)[5] = tensor.size;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3] * s[4]; ++i) {
      int64_t rest = i, offset = tensor.offset;
      for (int axis = 4; axis >= 0; --axis) {
        offset += rest % s[axis] * tensor.stride[axis];
        rest /= s[axis];
      }
      visit(offset);
    }
  }
  // Fills with numbers and returns them as stored.
  Values fill(polyconv_test::RandomProblem &random, double low, double high, bool whole) {
    each([&](int64_t offset) {
      const double v = low + (high - low) * static_cast<double>(random.between(0, 1 << 20)) / (1 << 20);
      store_as(data(), tensor.type, offset, whole ? std::nearbyint(v) : v);
    });
    return values();
  }
  Values values() const {
    Values result;
    each([&](int64_t offset) { result.push_back(load_as<double>(bytes.data(), tensor.type, offset)); });
    return result;
  }
};

double unit(int32_t type) {
  return type == POLYCONV_F64 ? 0x1p-50 : type == POLYCONV_F32 ? 0x1p-24 : type == POLYCONV_F16 ? 0x1p-11 : 0x1p-8;
}

std::string token_of(const polyconv_problem &p) {
  char token[512] = "?";
  polyconv_problem_format(&p, token, sizeof token, nullptr);
  return token;
}

void compare(const char *what, const polyconv_problem &p, int32_t type, const Values &found, const Values &expected) {
  REQUIRE_MESSAGE(found.size() == expected.size(), token_of(p) << ": " << std::string(what));
  int wrong = 0;
  double got = 0, wanted = 0;
  // Images sum f32 products; the oracle does so in double, as the definition here does, but in another order.
  const bool image = p.input_type >= POLYCONV_S32 && p.weights_type == POLYCONV_F32;
  for (size_t i = 0; i < found.size(); ++i) {
    double slack = 0;
    if (type < POLYCONV_S32) slack = 2 * unit(type) * std::fabs(expected[i]) + 1e-12;
    if (p.epilogue.activation == POLYCONV_ACT_GELU_TANH) slack *= 32; // f32's roundings of exp's argument
    if (type == POLYCONV_F16) slack += 0x1p-24;
    if (type >= POLYCONV_S32 && image) slack = 1;
    if (std::fabs(found[i] - expected[i]) <= slack) continue;
    if (wrong++ == 0) got = found[i], wanted = expected[i];
  }
  CHECK_MESSAGE(wrong == 0, token_of(p) << ": " << wrong << " wrong elements of " << std::string(what) << ", the first "
                                        << got << ", expected " << wanted);
}

struct Filled {
  Memory input, weights, bias, scale, residual, slope, weights_zero_point, residual_gradient, output, argmax;
  naive::Data data;

  explicit Filled(const polyconv_problem &p, uint64_t seed)
      : input(p, POLYCONV_TENSOR_INPUT),
        weights(p, POLYCONV_TENSOR_WEIGHTS),
        bias(p, POLYCONV_TENSOR_BIAS),
        scale(p, POLYCONV_TENSOR_SCALE),
        residual(p, POLYCONV_TENSOR_RESIDUAL),
        slope(p, POLYCONV_TENSOR_SLOPE),
        weights_zero_point(p, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT),
        residual_gradient(p, POLYCONV_TENSOR_RESIDUAL_GRADIENT),
        output(p, POLYCONV_TENSOR_OUTPUT),
        argmax(p, POLYCONV_TENSOR_ARGMAX) {
    polyconv_test::RandomProblem random(seed);
    const auto range = [&](Memory &m, double reach) {
      const int32_t type = m.tensor.type;
      const bool integer = type >= POLYCONV_S32;
      const double zero = type == POLYCONV_U8 ? 128 : type == POLYCONV_U16 ? 30000 : 0;
      return m.fill(random, integer ? zero - reach : -1, integer ? zero + reach : 1, integer);
    };
    data.input = range(input, 100);
    data.weights = range(weights, 100);
    data.bias = range(bias, 1000);
    data.scale = range(scale, 0);
    data.residual = range(residual, 100);
    data.slope = range(slope, 0);
    data.weights_zero_point = range(weights_zero_point, 100);
    if (p.direction != POLYCONV_FORWARD) data.output = range(output, 1);
  }

  bool run(const polyconv_problem &p) {
    polyconv_options options;
    polyconv_options_init(&options);
    options.kernel = "reference/*";
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    options.threads = 1;
    const bool saves = p.direction == POLYCONV_FORWARD && p.epilogue.pool.kind == POLYCONV_POOL_MAX;
    options.save = saves ? POLYCONV_SAVE_ARGMAX : POLYCONV_SAVE_NONE;
    polyconv_buffers buffers;
    polyconv_buffers_init(&buffers);
    static int64_t nothing;                        // an empty batch has pointers too
    const auto pointer = [](Memory &m) -> void * { // of element 0, before which those of negative strides lie
      if (m.bytes.empty()) return &nothing;
      return m.bytes.data() + m.tensor.offset * static_cast<int64_t>(polyconv_type_size(m.tensor.type));
    };
    buffers.input = pointer(input);
    buffers.weights[0] = pointer(weights);
    buffers.bias[0] = pointer(bias);
    buffers.scale[0] = pointer(scale);
    buffers.residual[0] = pointer(residual);
    buffers.slope[0] = pointer(slope);
    buffers.weights_zero_point[0] = pointer(weights_zero_point);
    buffers.residual_gradient[0] = pointer(residual_gradient);
    buffers.output = pointer(output);
    buffers.saved[0] = pointer(argmax);
    return polyconv_convolve(nullptr, &p, 1, &options, &buffers) == POLYCONV_SUCCESS;
  }
};

// What a gradient's problem has beside the sums: those of the bias and the residual, from the gradient of the values;
// then that becomes the gradient of the sums, stored in its type.
void check_beside_sums(const polyconv_problem &p, const Filled &filled, naive::Data &data) {
  if (p.epilogue.has_bias)
    compare("bias", p, filled.bias.tensor.type, filled.bias.values(), naive::bias_gradient(p, data.output));
  if (p.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) {
    Values expected = data.output;
    for (double &v : expected) v *= static_cast<double>(p.epilogue.residual_scale);
    compare("residual's gradient", p, p.output_type, filled.residual_gradient.values(), expected);
  }
  const auto outputs = static_cast<size_t>(naive::shape_of(p).outputs);
  for (size_t i = 0; i < data.output.size() && p.epilogue.has_scale; ++i) {
    double stored = 0;
    store_as(&stored, p.output_type, 0, data.output[i] * data.scale[i / outputs % data.scale.size()]);
    data.output[i] = load_as<double>(&stored, p.output_type, 0);
  }
}

void check_reference(const polyconv_problem &p, uint64_t seed) {
  Filled filled(p, seed);
  REQUIRE_MESSAGE(filled.run(p), token_of(p) << ": " << std::string(polyconv_last_error()));
  naive::Data &data = filled.data;
  if (p.epilogue.residual_from == POLYCONV_RESIDUAL_INPUT) data.residual = data.input;
  if (p.direction != POLYCONV_FORWARD) check_beside_sums(p, filled, data);
  naive::sums(p, data);
  if (p.direction == POLYCONV_BACKWARD_DATA)
    return compare("input", p, p.input_type, filled.input.values(), data.input);
  if (p.direction == POLYCONV_BACKWARD_WEIGHTS)
    return compare("weights", p, p.weights_type, filled.weights.values(), data.weights);
  const int32_t type = p.output_type;
  const double low = type == POLYCONV_S8 ? -128 : type == POLYCONV_S32 ? -2147483648.0 : 0;
  const double high = type == POLYCONV_S8    ? 127
                      : type == POLYCONV_U8  ? 255
                      : type == POLYCONV_U16 ? 65535
                                             : 2147483647.0;
  if (p.input_type >= POLYCONV_S32 && p.weights_type >= POLYCONV_S32)
    naive::epilogue<float>(p, data, low, high);
  else
    naive::epilogue<double>(p, data, low, high);
  compare("output", p, type, filled.output.values(), data.output);
  if (p.epilogue.pool.kind == POLYCONV_POOL_MAX && p.input_type >= POLYCONV_S8 && p.weights_type >= POLYCONV_S8)
    compare("argmax", p, POLYCONV_S32, filled.argmax.values(), data.saved);
}

// POLYCONV_REFERENCE_CUT=8: one problem in eight, for an emulator (tests/cross).
uint64_t cut() {
  return static_cast<uint64_t>(polyconv_test::cut_from("POLYCONV_REFERENCE_CUT"));
}

} // namespace

TEST_CASE("the reference computes every conformance case as the definition does") {
  uint64_t seed = 0;
  for (const conformance::TestCase &test : conformance::all_cases())
    if (test.problems.size() == 1 && ++seed % cut() == 0) check_reference(test.problems[0], seed);
}

TEST_CASE("the reference computes random problems as the definition does") {
  conformance::TameProblem random(20240607);
  for (uint64_t i = 0; i < 1500 / cut(); ++i) check_reference(random.next(), i);
}

// The cases above are finite, and every other kernel is held against the reference: what it loses, nobody misses.
TEST_CASE("NaN passes every activation, and infinities end where the activation takes them") {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
  struct Row {
    const char *activation;
    double of_inf, of_minus_inf; // NaN: left to the implementation
  };
  const Row rows[] = {{"relu", kInf, 0},        {"clip6", 6, 0},        {"lrelu0.5", kInf, -kInf},
                      {"tanh", 1, -1},          {"sigmoid", 1, 0},      {"gelu", kInf, kNaN},
                      {"silu", kInf, kNaN},     {"hswish", kInf, kNaN}, {"elu0.5", kInf, -0.5},
                      {"gelutanh", kInf, kNaN}, {"prelu", kInf, kNaN},  {"maxpool2", kInf, -kInf}};
  for (const Row &row : rows)
    for (const char *type : {"f64", "f32", "f16"}) {
      const std::string token = std::string("fwd:n1,c1,k1,i4x4,f1x1:") + type + ":" + row.activation;
      INFO(token);
      polyconv_problem problem;
      polyconv_problem_init(&problem);
      REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &problem) == POLYCONV_SUCCESS,
                      std::string(polyconv_last_error()));
      for (const auto &pair : {std::pair{kNaN, kNaN}, {kInf, row.of_inf}, {-kInf, row.of_minus_inf}}) {
        const double value = pair.first, expected = pair.second; // names that C++17 lets a lambda capture
        Filled filled(problem, 1);
        store_as(filled.weights.data(), filled.weights.tensor.type, 0, 1.0);
        filled.input.each([&](int64_t at) { store_as(filled.input.data(), filled.input.tensor.type, at, value); });
        REQUIRE(filled.run(problem));
        for (const double found : filled.output.values()) {
          if (std::isnan(value)) CHECK(std::isnan(found));
          if (std::isinf(expected)) CHECK(found == expected);
          if (std::isfinite(expected)) CHECK(found == doctest::Approx(expected));
        }
      }
    }
}
