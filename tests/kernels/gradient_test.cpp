// gradient_test.cpp - the gradients of whole layers, activation and pooling included, against quotients of differences
// of their forward runs in double: on every backend that takes both; and what is refused.
//
// ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "skip.hpp"

namespace {

using polyconv::Buffers;
using polyconv::Device;
using polyconv::Options;
using polyconv::Plan;
using polyconv::Problem;
using Doubles = std::vector<double>;

struct Tensors {
  Doubles input, weights, bias, output, scale, slope, residual;
  std::vector<char> saved;
};

Options options_for(const std::string &kernel, int32_t save) {
  Options o;
  o.kernel = kernel.c_str();
  o.fallback = POLYCONV_FALLBACK_ALLOW;
  o.save = save;
  return o;
}

Problem in_direction(const std::string &token, int32_t direction) {
  Problem p(token);
  p.direction = direction;
  if (direction == POLYCONV_BACKWARD_DATA) p.epilogue.has_bias = 0;
  return p;
}

// One direction on host pointers; polyconv_convolve copies to the device and back.
void run(const Problem &problem, const Options &options, const Device &device, Tensors *t) {
  Buffers buffers;
  buffers.input = t->input.data();
  buffers.output = t->output.data();
  buffers.weights[0] = t->weights.data();
  buffers.bias[0] = t->bias.data();
  buffers.scale[0] = t->scale.data();
  buffers.slope[0] = t->slope.data();
  buffers.saved[0] = t->saved.data();
  if (problem.direction == POLYCONV_FORWARD)
    buffers.residual[0] = t->residual.data();
  else
    buffers.residual_gradient[0] = t->residual.empty() ? nullptr : t->residual.data();
  polyconv::convolve(problem, buffers, options, device);
}

Doubles random(size_t count, std::mt19937 *generator) {
  Doubles values(count);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (double &v : values) v = uniform(*generator);
  return values;
}

size_t count_of(const Problem &p, int32_t which) {
  int64_t bytes = 0; // none where the problem has no such tensor
  return polyconv_problem_tensor(&p, which, nullptr, &bytes) == POLYCONV_SUCCESS ? static_cast<size_t>(bytes) / 8 : 0;
}

Tensors tensors_for(const Problem &p, int32_t save, std::mt19937 *generator) {
  Tensors t;
  t.input = random(count_of(p, POLYCONV_TENSOR_INPUT), generator);
  t.weights = random(count_of(p, POLYCONV_TENSOR_WEIGHTS), generator);
  t.bias = random(count_of(p, POLYCONV_TENSOR_BIAS), generator);
  t.scale = random(count_of(p, POLYCONV_TENSOR_SCALE), generator);
  t.slope = random(count_of(p, POLYCONV_TENSOR_SLOPE), generator);
  t.residual = random(count_of(p, POLYCONV_TENSOR_RESIDUAL), generator);
  t.output.resize(count_of(p, POLYCONV_TENSOR_OUTPUT));
  if (save != POLYCONV_SAVE_NONE)
    t.saved.resize(static_cast<size_t>(
        p.bytes(save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION)));
  return t;
}

// sum output * direction, whose gradient towards anything the backward passes give when they read `direction`.
double loss_of(const Problem &p, const Options &options, const Device &device, Tensors t, const Doubles &direction) {
  run(p, options, device, &t);
  double sum = 0;
  for (size_t i = 0; i < direction.size(); ++i) sum += t.output[i] * direction[i];
  return sum;
}

// Elements of `found` that differ from the quotients of differences; a few of them, spread.
int differences(const Doubles &found, Doubles Tensors::*member, const Tensors &start,
                const std::function<double(const Tensors &)> &loss) {
  constexpr double kStep = 1e-6;
  int wrong = 0;
  for (size_t i = 0; i < found.size(); i += 1 + found.size() / 12) {
    Tensors up = start, down = start;
    (up.*member)[i] += kStep;
    (down.*member)[i] -= kStep;
    const double quotient = (loss(up) - loss(down)) / (2 * kStep);
    wrong += !(std::fabs(found[i] - quotient) <= 1e-6 * (1 + std::fabs(quotient)));
  }
  return wrong;
}

bool check_layer(const std::string &token, int32_t save, const std::string &glob, const Device &device) {
  const Problem forward(token);
  std::mt19937 generator(5);
  Tensors t = tensors_for(forward, save, &generator);
  const Options options = options_for(glob, save), plain = options_for(glob, POLYCONV_SAVE_NONE);
  Doubles direction;
  Tensors start, data, weights;
  try {
    run(forward, options, device, &t);
    start = t;
    direction = random(t.output.size(), &generator);
    t.output = direction;
    data = weights = t;
    run(in_direction(token, POLYCONV_BACKWARD_DATA), options, device, &data);
    if (forward.epilogue.activation == POLYCONV_ACT_NONE) weights.residual.clear(); // nobody wants it
    run(in_direction(token, POLYCONV_BACKWARD_WEIGHTS), options, device, &weights);
  } catch (const polyconv::Error &error) {
    if (error.status() == POLYCONV_UNSUPPORTED) return false;
    throw;
  }
  const auto loss = [&](const Tensors &at) { return loss_of(forward, plain, device, at, direction); };
  CHECK(differences(data.input, &Tensors::input, start, loss) == 0);
  CHECK(differences(weights.weights, &Tensors::weights, start, loss) == 0);
  if (forward.epilogue.has_bias) CHECK(differences(weights.bias, &Tensors::bias, start, loss) == 0);
  CHECK(differences(data.residual, &Tensors::residual, start, loss) == 0);
  CHECK(differences(weights.residual, &Tensors::residual, start, loss) == 0);
  return true;
}

std::string refusal(const std::string &token, int32_t save) {
  Options options;
  options.save = save;
  try {
    const Plan plan(Problem(token), options);
  } catch (const polyconv::Error &error) {
    CHECK(error.status() == POLYCONV_INVALID_ARGUMENT);
    return error.what();
  }
  return "";
}

} // namespace

TEST_CASE("the gradients of a layer are those of its forward run, on every backend") {
  const struct {
    const char *token;
    int32_t save;
  } layers[] = {
      {"fwd:n2,c2,k3,i7x8,f3x3,p1:f64:bias+relu", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i9x8,f3x3,p1:f64:bias+relu+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i9x8,f3x3,p1:f64:bias+maxpool2", POLYCONV_SAVE_ARGMAX},
      {"fwd:n1,c3,k4,i9x8,f3x3:nhwc:f64:bias+tanh+maxpool3s2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n1,c3,k4,i9x8,f3x3,s2,p1:nhwc:f64:bias+gelu+avgpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k2,i8x8,f3x3,p1:f64:bias+avgpool2", POLYCONV_SAVE_NONE},
      {"fwd:n2,c4,k4,g2,i12,f5,p2:f64:bias+silu+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n1,c2,k2,i4x5x6,f3x3x3,p1:f64:bias+hswish+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"tfwd:n1,c3,k2,i4x5,f3x3,s2,p1:f64:bias+sigmoid+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"tfwd:n1,c2,k2,i4x5,f3x3:f64:lrelu0.1", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n1,c2,k2,i6x6,f3x3,p1:f64:clip1+maxpool3s1p1", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i7x8,f3x3,p1:f64:bias+elu0.7", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i8x8,f3x3,p1:nhwc:f64:elu-0.3+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i7x8,f3x3,p1:f64:bias+gelutanh", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n1,c2,k3,i8x8,f3x3,p1:f64:gelutanh+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i7x8,f3x3,p1:f64:bias+prelu", POLYCONV_SAVE_PRE_ACTIVATION},
      {"tfwd:n1,c3,k4,i4x5,f3x3,s2,p1:nhwc:f64:prelu+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i7x8,f3x3,p1:f64:scale", POLYCONV_SAVE_NONE},
      {"fwd:n2,c4,k6,g2,i7x8,f3x3,p1:nhwc:f64:scale+bias", POLYCONV_SAVE_NONE},
      {"fwd:n2,c2,k3,i8x8,f3x3,p1:f64:scale+bias+residual+silu+avgpool2:rs=-0.5", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c2,k3,i8x8,f3x3,p1:nhwc:f64:residual+elu1+maxpool3s2:rs=2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"tfwd:n2,c3,k4,i4x5,f3x3,s2,p1:f64:scale+bias+residual", POLYCONV_SAVE_NONE},
      {"tfwd:n2,c4,k4,g2,i4x5,f3x3,s2,p1:f64:scale+bias+residual+tanh:rs=0.25", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n3,c4,k4,g4,i12,f5,p2:nhwc:f64:scale+bias+prelu+avgpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c3,k4,i9x8,f3x3,p1:f64:scale+bias+residual+maxpool2", POLYCONV_SAVE_ARGMAX},
      // every kind of layer of examples/lenet/nets
      {"fwd:n2,c1,k6,i28x28,f5x5,p2:f64:bias+relu", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c6,k16,i28x28,f4x4,s2:f64:bias+relu", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c8,k4,i13x13,f3x3:f64:bias+relu", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c4,k10,i11x11,f11x11:f64:bias", POLYCONV_SAVE_NONE},
      {"fwd:n2,c6,k16,i14x14,f5x5:f64:bias+relu+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n2,c84,k10,i1x1,f1x1:f64:bias", POLYCONV_SAVE_NONE},
      {"fwd:n1,c1,k4,i86x86,f7x7:f64:bias+relu+maxpool2", POLYCONV_SAVE_PRE_ACTIVATION},
      {"fwd:n1,c4,k16,i40x40,f7x7:f64:bias+relu+maxpool4", POLYCONV_SAVE_PRE_ACTIVATION},
  };
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    const polyconv_device *found = nullptr;
    if (!info.available || polyconv_device_find(info.device_kind, &found) != POLYCONV_SUCCESS) continue;
    const Device device(info.device_kind);
    int taken = 0;
    for (const auto &layer : layers) {
      CAPTURE(std::string(info.name));
      CAPTURE(std::string(layer.token));
      taken += check_layer(layer.token, layer.save, std::string(info.name) + "/*", device);
    }
    MESSAGE(std::string(info.name) << ": " << taken << " layers");
  }
}

TEST_CASE("a gradient says what the forward run must have saved") {
  CHECK(refusal("bwd_d:i9x9,f3:relu", POLYCONV_SAVE_NONE).find("options.save is 0; expected 2") != std::string::npos);
  CHECK(refusal("bwd_w:i9x9,f3:relu+maxpool2", POLYCONV_SAVE_ARGMAX).find("expected 2") != std::string::npos);
  CHECK(refusal("bwd_w:i9x9,f3:maxpool2", POLYCONV_SAVE_NONE).find("expected 1 (argmax) or 2") != std::string::npos);
  CHECK(refusal("bwd_w:i9x9,f3:avgpool2", POLYCONV_SAVE_ARGMAX).find("expected 0") != std::string::npos);
  CHECK(refusal("bwd_d:i9x9,f3", POLYCONV_SAVE_PRE_ACTIVATION).find("expected 0") != std::string::npos);
  CHECK(refusal("bwd_d:i9x9,f3:bias", POLYCONV_SAVE_NONE).find("has_bias") != std::string::npos);
}

TEST_CASE("an empty batch has gradients of zero") {
  for (const char *token : {"bwd_w:n0,c2,k3,i9x8,f3x3,p1:bias+relu+maxpool2",
                            "bwd_w:n0,c2,k3,i9x8,f3x3,p1:scale+bias+residual+prelu+maxpool2"}) {
    const Problem p(token);
    Options options;
    options.save = POLYCONV_SAVE_PRE_ACTIVATION;
    std::vector<float> weights(54, 7), bias(3, 7), vectors(3, 2);
    Buffers buffers;
    buffers.weights[0] = weights.data();
    buffers.bias[0] = bias.data();
    buffers.scale[0] = buffers.slope[0] = vectors.data();
    polyconv::convolve(p, buffers, options);
    CHECK(weights == std::vector<float>(54, 0));
    CHECK(bias == std::vector<float>(3, 0));
  }
}
