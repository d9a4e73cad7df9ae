// random_problem.hpp - random valid problems over every field, for property tests. Canonical: ignored fields hold
// their defaults, so that two equal problems are equal field by field.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace polyconv_test {

class RandomProblem {
 public:
  explicit RandomProblem(uint64_t seed) : random_(seed) {}

  // Most draws are valid; those that are not are drawn again.
  polyconv_problem next() {
    for (;;) {
      const polyconv_problem problem = draw();
      if (polyconv_problem_validate(&problem, 1) == POLYCONV_SUCCESS) return problem;
    }
  }

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  // Any finite float or double, in its bits: denormals and huge numbers too.
  template <class Real, class Bits>
  Real any_real() {
    for (;;) {
      const Bits bits = static_cast<Bits>(random_());
      Real value;
      std::memcpy(&value, &bits, sizeof value);
      if (value - value == 0) return value;
    }
  }

 private:
  polyconv_problem draw() {
    polyconv_problem p;
    polyconv_problem_init(&p);
    p.spatial_dims = static_cast<int32_t>(between(1, 3));
    p.transposed = chance(30);
    p.flip = chance(20);
    p.separable = chance(10);
    draw_types(&p);
    draw_sizes(&p);
    p.pad_mode = static_cast<int32_t>(between(POLYCONV_PAD_ZERO, POLYCONV_PAD_CIRCULAR));
    if (p.pad_mode == POLYCONV_PAD_CONSTANT) draw_pad_value(&p);
    p.input_layout = static_cast<int32_t>(between(0, 1));
    p.weights_layout = static_cast<int32_t>(between(0, 1));
    p.output_layout = chance(70) ? p.input_layout : 1 - p.input_layout;
    if (chance(15)) draw_strides(p, &p.has_input_strides, p.input_strides);
    if (chance(15)) draw_strides(p, &p.has_weights_strides, p.weights_strides);
    if (p.has_weights_strides != 0 && p.direction != POLYCONV_BACKWARD_WEIGHTS && chance(50)) p.weights_strides[0] = 0;
    if (chance(15)) draw_strides(p, &p.has_output_strides, p.output_strides);
    if (p.direction == POLYCONV_FORWARD) draw_epilogue(&p);
    if (p.direction == POLYCONV_BACKWARD_WEIGHTS) p.epilogue.has_bias = chance(50);
    if (p.direction != POLYCONV_FORWARD) draw_gradient_epilogue(&p.epilogue);
    return p;
  }

  void draw_types(polyconv_problem *p) {
    struct Row {
      int32_t input, weights, output;
    };
    static const Row rows[] = {
        {POLYCONV_F64, POLYCONV_F64, POLYCONV_F64},    {POLYCONV_F32, POLYCONV_F32, POLYCONV_F32},
        {POLYCONV_F16, POLYCONV_F16, POLYCONV_F16},    {POLYCONV_F16, POLYCONV_F16, POLYCONV_F32},
        {POLYCONV_BF16, POLYCONV_BF16, POLYCONV_BF16}, {POLYCONV_BF16, POLYCONV_BF16, POLYCONV_F32},
        {POLYCONV_S8, POLYCONV_S8, POLYCONV_S32},      {POLYCONV_U8, POLYCONV_S8, POLYCONV_U8},
        {POLYCONV_U8, POLYCONV_U8, POLYCONV_S8},       {POLYCONV_S8, POLYCONV_U8, POLYCONV_F32},
        {POLYCONV_U8, POLYCONV_F32, POLYCONV_U8},      {POLYCONV_U8, POLYCONV_F32, POLYCONV_F32},
        {POLYCONV_U16, POLYCONV_F32, POLYCONV_U16},    {POLYCONV_U16, POLYCONV_F32, POLYCONV_U8},
    };
    const Row row = rows[between(0, 13)];
    p->input_type = row.input;
    p->weights_type = row.weights;
    p->output_type = row.output;
    const bool integers = row.input >= POLYCONV_S32;
    if (!integers) p->direction = static_cast<int32_t>(between(POLYCONV_FORWARD, POLYCONV_BACKWARD_WEIGHTS));
    if (integers && row.weights != POLYCONV_F32 && chance(60)) {
      p->input_zero_point = static_cast<int32_t>(row.input == POLYCONV_U8 ? between(0, 255) : between(-128, 127));
      p->weights_zero_point = static_cast<int32_t>(row.weights == POLYCONV_U8 ? between(0, 255) : between(-128, 127));
      p->has_weights_zero_points = chance(30);
      if (p->has_weights_zero_points != 0) p->weights_zero_point = 0;
    }
    const bool half = row.input == POLYCONV_F16 || row.input == POLYCONV_BF16;
    if (half && p->direction == POLYCONV_BACKWARD_WEIGHTS && chance(40)) p->weights_type = POLYCONV_F32;
  }

  void draw_sizes(polyconv_problem *p) {
    p->batch = between(0, 4);
    p->groups = chance(60) ? 1 : between(2, 5);
    p->in_channels = p->groups * between(1, 6);
    p->out_channels = p->groups * between(1, 6);
    const bool same = chance(50); // in all axes, so that the token may shorten
    for (int i = 0; i < p->spatial_dims; ++i) {
      const int from = same && i > 0 ? i - 1 : i;
      p->input_size[i] = between(1, 40);
      p->kernel_size[i] = between(1, 7);
      p->stride[i] = from < i ? p->stride[from] : between(1, 4);
      p->dilation[i] = from < i ? p->dilation[from] : chance(60) ? 1 : between(2, 4);
      p->pad_begin[i] = from < i ? p->pad_begin[from] : between(0, 5);
      p->pad_end[i] = from < i ? p->pad_end[from] : chance(60) ? p->pad_begin[i] : between(0, 5);
      if (p->transposed != 0 && chance(40))
        p->output_padding[i] = between(0, std::max(p->stride[i], p->dilation[i]) - 1);
    }
  }

  void draw_pad_value(polyconv_problem *p) {
    switch (p->input_type) {
      case POLYCONV_F64: p->pad_value = any_real<double, uint64_t>(); break;
      case POLYCONV_F32: p->pad_value = static_cast<double>(any_real<float, uint32_t>()); break;
      case POLYCONV_S8: p->pad_value = static_cast<double>(between(-128, 127)); break;
      case POLYCONV_U8: p->pad_value = static_cast<double>(between(0, 255)); break;
      case POLYCONV_U16: p->pad_value = static_cast<double>(between(0, 65535)); break;
      default: p->pad_value = static_cast<double>(between(-1000, 1000)) / 7; break;
    }
  }

  // Random order of axes, each stepping over all smaller ones by some margin: never overlapping.
  void draw_strides(const polyconv_problem &p, int32_t *has, int64_t (&strides)[5]) {
    int order[5] = {0, 1, 2, 3, 4};
    const int count = 2 + p.spatial_dims;
    std::shuffle(order, order + count, random_);
    int64_t reach = 1;
    for (int i = 0; i < count; ++i) {
      strides[order[i]] = reach + between(0, 3);
      reach = strides[order[i]] * 400; // beyond any size drawn above
    }
    *has = 1;
  }

  // What needs nothing saved.
  void draw_gradient_epilogue(polyconv_epilogue *e) {
    e->has_scale = chance(20);
    if (!chance(20)) return;
    e->residual_from = POLYCONV_RESIDUAL_BUFFER;
    if (chance(50)) e->residual_scale = any_real<float, uint32_t>();
  }

  void draw_epilogue(polyconv_problem *p) {
    polyconv_epilogue &e = p->epilogue;
    const bool integers = p->output_type >= POLYCONV_S32;
    e.has_scale = chance(30);
    e.has_bias = chance(50);
    if (chance(30)) e.residual_from = POLYCONV_RESIDUAL_BUFFER;
    if (e.residual_from != POLYCONV_RESIDUAL_NONE && chance(50)) e.residual_scale = any_real<float, uint32_t>();
    const int64_t low = p->output_type == POLYCONV_S8 ? -128 : p->output_type == POLYCONV_S32 ? -1000000 : 0;
    const int64_t high = p->output_type == POLYCONV_S8 ? 127 : p->output_type == POLYCONV_S32 ? 1000000 : 255;
    if (integers && e.residual_from != POLYCONV_RESIDUAL_NONE && chance(50))
      e.residual_zero_point = static_cast<int32_t>(between(low, high));
    if (integers && chance(50)) e.out_scale = std::max(1e-38f, std::min(1e38f, std::abs(any_real<float, uint32_t>())));
    if (integers && chance(50)) e.out_zero_point = static_cast<int32_t>(between(low, high));
    if (chance(60)) e.activation = static_cast<int32_t>(between(POLYCONV_ACT_RELU, POLYCONV_ACT_PRELU));
    if (e.activation == POLYCONV_ACT_CLIPPED_RELU) e.activation_alpha = static_cast<float>(between(1, 1000)) / 7;
    if (e.activation == POLYCONV_ACT_LEAKY_RELU || e.activation == POLYCONV_ACT_ELU)
      e.activation_alpha = any_real<float, uint32_t>();
    if (chance(35)) draw_pool(p, &e.pool);
  }

  void draw_pool(polyconv_problem *p, polyconv_pool *pool) {
    p->pool_ceil = chance(25);
    pool->kind = static_cast<int32_t>(between(POLYCONV_POOL_MAX, POLYCONV_POOL_AVERAGE));
    if (pool->kind == POLYCONV_POOL_AVERAGE) pool->count_include_pad = chance(50);
    for (int i = 0; i < p->spatial_dims; ++i) {
      if (chance(10)) p->pool_dilation[i] = between(2, 3);
      pool->window[i] = between(1, 4);
      pool->stride[i] = chance(50) ? pool->window[i] : between(1, 4);
      pool->pad_begin[i] = between(0, pool->window[i] - 1);
      pool->pad_end[i] = chance(50) ? pool->pad_begin[i] : between(0, pool->window[i] - 1);
    }
  }

  std::mt19937_64 random_;
};

// Field by field, floats by their bits (so that -0 differs from 0); the struct's padding is not looked at.
inline bool equal(const polyconv_problem &a, const polyconv_problem &b) {
  constexpr size_t hole = offsetof(polyconv_problem, weights_zero_point) + sizeof(int32_t);
  constexpr size_t resume = offsetof(polyconv_problem, input_strides);
  const auto bytes = [](const polyconv_problem &p) { return reinterpret_cast<const char *>(&p); };
  return std::memcmp(bytes(a), bytes(b), hole) == 0 &&
         std::memcmp(bytes(a) + resume, bytes(b) + resume, sizeof a - resume) == 0;
}

} // namespace polyconv_test
