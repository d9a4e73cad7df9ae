// steps_gradient.cpp - gradients of activation, pooling, scale and residual, against slopes by quotients of
// differences.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "polyconv/sdk/epilogue.hpp"
#include "polyconv/sdk/tensor.hpp"
#include "step_run.hpp"

namespace conformance {
namespace {

using namespace polyconv::sdk;

struct GradientCase {
  int32_t activation, pool, save, type;
  bool channels_last;
  int32_t count_include_pad;
  bool scaled; // with a scale, and so with the gradients of a bias and a residual
};

constexpr uint64_t kTraits[] = {POLYCONV_TRAIT_ELU, POLYCONV_TRAIT_GELU_TANH, POLYCONV_TRAIT_PRELU};
constexpr double kResidualScale = -1.5;

// One of each channel.
double slope_of(int64_t channel) {
  return 0.25 * static_cast<double>(channel) - 0.5;
}
double scale_of(int64_t channel) {
  return 0.5 * static_cast<double>(channel) - 0.5;
}

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> cases;
  for (int32_t type = POLYCONV_F64; type <= POLYCONV_BF16; ++type)
    for (const bool last : {false, true}) {
      for (int32_t act = POLYCONV_ACT_NONE; act <= POLYCONV_ACT_PRELU; ++act)
        for (const int32_t pool : {POLYCONV_POOL_NONE, POLYCONV_POOL_MAX, POLYCONV_POOL_AVERAGE})
          cases.push_back({act, pool, POLYCONV_SAVE_PRE_ACTIVATION, type, last, act % 2, act % 5 == 1});
      cases.push_back({POLYCONV_ACT_NONE, POLYCONV_POOL_MAX, POLYCONV_SAVE_ARGMAX, type, last, 0, false});
      cases.push_back({POLYCONV_ACT_NONE, POLYCONV_POOL_AVERAGE, POLYCONV_SAVE_NONE, type, last, 1, false});
      cases.push_back({POLYCONV_ACT_NONE, POLYCONV_POOL_NONE, POLYCONV_SAVE_NONE, type, last, 0, true});
    }
  return cases;
}

polyconv_layer gradient_layer(const GradientCase &c) {
  const int64_t size[5] = {2, 5, 3, 8, 9};
  const bool pools = c.pool != POLYCONV_POOL_NONE, argmax = c.save == POLYCONV_SAVE_ARGMAX;
  const int32_t real = c.type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  polyconv_layer l = step_layer(tensor(c.type, pools ? kPooled : size, c.channels_last, 2),
                                tensor(c.type, size, c.channels_last, 1), real);
  l.output = l.result;
  l.save = c.save;
  l.saved = tensor(argmax ? POLYCONV_S32 : real, argmax ? kPooled : size, c.channels_last, 1);
  l.epilogue.activation = c.activation;
  l.epilogue.activation_alpha = c.activation == POLYCONV_ACT_CLIPPED_RELU ? 2.0f : -0.25f;
  if (pools) l.epilogue.pool = sample_pool(c.pool, c.count_include_pad);
  if (c.activation > POLYCONV_ACT_HARD_SWISH) l.traits |= kTraits[c.activation - POLYCONV_ACT_ELU];
  l.bias_type = real;
  if (!c.scaled) return l;
  l.traits |= POLYCONV_TRAIT_GRADIENT_SCALE | POLYCONV_TRAIT_GRADIENT_RESIDUAL;
  l.epilogue.has_scale = l.epilogue.has_bias = 1;
  l.epilogue.residual_from = POLYCONV_RESIDUAL_BUFFER;
  l.epilogue.residual_scale = static_cast<float>(kResidualScale);
  l.residual = tensor(c.type, size, !c.channels_last, 2);
  return l;
}

// What the step reads besides, and room for what it writes.
Besides besides_of(const polyconv_layer &l) {
  const int32_t real = l.sum_type;
  const size_t channels = static_cast<size_t>(l.result.size[1]), bytes = channels * polyconv_type_size(real);
  Besides b;
  b.saved.assign(l.save == POLYCONV_SAVE_NONE ? 0 : bytes_of(l.saved), kPoison);
  b.slope.resize(bytes), b.scale.resize(bytes), b.bias.assign(bytes, kPoison);
  for (int64_t k = 0; k < l.result.size[1]; ++k) {
    store_as(b.slope.data(), real, k, slope_of(k));
    store_as(b.scale.data(), real, k, scale_of(k));
  }
  if (l.epilogue.residual_from != POLYCONV_RESIDUAL_NONE) b.residual_gradient.assign(bytes_of(l.residual), kPoison);
  return b;
}

// Pre-activations with many equals, none at a kink, so that a quotient of differences tells the slope.
std::vector<double> pre_activations(const polyconv_tensor &t) {
  std::vector<double> values;
  uint32_t state = 54321;
  for_places(t, [&](int64_t, int64_t, int64_t, int64_t, int64_t) {
    state = state * 1664525u + 1013904223u;
    values.push_back((static_cast<double>(static_cast<int>(state >> 28)) - 9) / 2 + 0.25);
  });
  return values;
}

double alpha_at(const polyconv_epilogue &e, int64_t channel) {
  return e.activation == POLYCONV_ACT_PRELU ? slope_of(channel) : static_cast<double>(e.activation_alpha);
}

double slope_at(double v, const polyconv_epilogue &e, int64_t channel) {
  constexpr double kStep = 1e-5;
  const double alpha = alpha_at(e, channel);
  return (activate(v + kStep, e, alpha) - activate(v - kStep, e, alpha)) / (2 * kStep);
}

// Scatters what every pooled result received, by the definition, up to the values before activation; fills `places`
// with the first maxima.
std::vector<double> expected_gradient(const polyconv_layer &l, const std::vector<double> &v,
                                      const std::vector<unsigned char> &given, std::vector<unsigned char> *places) {
  const polyconv_pool &p = l.epilogue.pool;
  const bool pools = p.kind != POLYCONV_POOL_NONE;
  const polyconv_tensor dense = tensor(POLYCONV_F64, l.result.size, false, 1);
  std::vector<double> sums(v.size(), 0);
  for_places(l.input, [&](int64_t n, int64_t k, int64_t od, int64_t oh, int64_t ow) {
    const double g = load_as<double>(given.data(), l.input.type, at(l.input, n, k, od, oh, ow));
    std::vector<size_t> inside;
    int64_t best = -1;
    size_t winner = 0;
    for (int64_t i = 0; i < (pools ? p.window[0] * p.window[1] * p.window[2] : 1); ++i) {
      const int64_t d = pools ? od * p.stride[0] - p.pad_begin[0] + i / (p.window[1] * p.window[2]) : od;
      const int64_t h = pools ? oh * p.stride[1] - p.pad_begin[1] + i / p.window[2] % p.window[1] : oh;
      const int64_t w = pools ? ow * p.stride[2] - p.pad_begin[2] + i % p.window[2] : ow;
      if (d < 0 || d >= dense.size[2] || h < 0 || h >= dense.size[3] || w < 0 || w >= dense.size[4]) continue;
      inside.push_back(static_cast<size_t>(at(dense, n, k, d, h, w)));
      const double alpha = alpha_at(l.epilogue, k);
      if (best >= 0 && activate(v[inside.back()], l.epilogue, alpha) <= activate(v[winner], l.epilogue, alpha))
        continue;
      best = i;
      winner = inside.back();
    }
    if (places) store_as(places->data(), POLYCONV_S32, at(l.saved, n, k, od, oh, ow), static_cast<double>(best));
    const double all = static_cast<double>(p.window[0] * p.window[1] * p.window[2]);
    if (p.kind == POLYCONV_POOL_AVERAGE)
      for (size_t i : inside) sums[i] += g / (p.count_include_pad ? all : static_cast<double>(inside.size()));
    else
      sums[winner] += g;
  });
  size_t next = 0;
  for_places(dense, [&](int64_t, int64_t k, int64_t, int64_t, int64_t) {
    sums[next] *= slope_at(v[next], l.epilogue, k);
    ++next;
  });
  return sums;
}

// Elements of the step's results that are not what `expected`, the gradient before activation, says.
int wrong_elements(const polyconv_layer &l, const std::vector<double> &expected,
                   const std::vector<unsigned char> &output, const Besides &besides) {
  constexpr double kUnits[] = {0, 1e-8, 4e-6, 0x1p-10, 0x1p-7};
  const double unit = kUnits[l.result.type];
  int wrong = 0;
  const auto judge = [&](double found, double r, double magnitude) {
    wrong += !(std::fabs(found - r) <= unit * magnitude + 1e-6);
  };
  std::vector<double> bias(static_cast<size_t>(l.result.size[1])), magnitudes = bias;
  size_t next = 0;
  for_places(l.result, [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t w) {
    const double g = expected[next++], r = l.epilogue.has_scale ? g * scale_of(k) : g;
    judge(load_as<double>(output.data(), l.result.type, at(l.result, n, k, d, h, w)), r, std::fabs(r));
    bias[static_cast<size_t>(k)] += g, magnitudes[static_cast<size_t>(k)] += std::fabs(g);
    if (besides.residual_gradient.empty()) return;
    const double residual = g * kResidualScale;
    judge(load_as<double>(besides.residual_gradient.data(), l.residual.type, at(l.residual, n, k, d, h, w)), residual,
          std::fabs(residual));
  });
  for (size_t k = 0; k < bias.size() && l.epilogue.has_bias; ++k)
    judge(load_as<double>(besides.bias.data(), l.bias_type, static_cast<int64_t>(k)), bias[k], magnitudes[k]);
  return wrong;
}

} // namespace

int check_gradients(const Kernel &kernel, const std::string &name) {
  int taken = 0;
  for (const GradientCase &c : gradient_cases()) {
    const polyconv_layer l = gradient_layer(c);
    if (!takes_step(kernel, POLYCONV_OP_GRADIENT, l)) continue;
    const std::vector<unsigned char> given = numbers(l.input, false);
    const std::vector<double> v = pre_activations(l.result);
    const bool argmax = c.save == POLYCONV_SAVE_ARGMAX;
    std::vector<unsigned char> output(bytes_of(l.result), kPoison);
    Besides besides = besides_of(l);
    const std::vector<double> expected = expected_gradient(l, v, given, argmax ? &besides.saved : nullptr);
    size_t next = 0;
    if (c.save == POLYCONV_SAVE_PRE_ACTIVATION)
      for_places(l.result, [&](int64_t n, int64_t k, int64_t d, int64_t h, int64_t w) {
        store_as(besides.saved.data(), l.saved.type, at(l.saved, n, k, d, h, w), v[next++]);
      });
    const std::vector<unsigned char> before = besides.saved;
    run_step(kernel, POLYCONV_OP_GRADIENT, l, given, output, besides);
    ++taken;
    const int wrong = (besides.saved != before) + wrong_elements(l, expected, output, besides);
    CHECK_MESSAGE(wrong == 0, name << ", gradient of activation " << c.activation << " and pooling " << c.pool << " in "
                                   << std::string(polyconv_type_name(c.type)) << ", saved " << c.save << ": " << wrong
                                   << " wrong elements");
  }
  return taken;
}

} // namespace conformance
