// aimed.hpp - random problems of the kinds that kernels are written for. Problems drawn over every field at once
// (tame.hpp) reach a kernel that wants 16-bit channels last in whole vectors about never: these do, and stray just
// over its limits as often.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdint>
#include <random>

#include "view.hpp"

namespace conformance {

class AimedProblem {
 public:
  explicit AimedProblem(uint64_t seed) : random_(seed) {}

  // Kind after kind; draws that are invalid or too large are drawn again.
  polyconv_problem next() {
    for (const int kind = kind_++ % kKinds;;) {
      const polyconv_problem p = draw(kind);
      double flops = 0;
      if (polyconv_problem_validate(&p, 1) == POLYCONV_SUCCESS &&
          polyconv_problem_flops(&p, &flops) == POLYCONV_SUCCESS && flops < kMostFlops)
        return p;
    }
  }

 private:
  static constexpr int kKinds = 10, kPatches = 9;
  static constexpr double kMostFlops = 1.2e7;

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  // What keeps most kernels away.
  bool strays(int percent) { return chance(tidy_ ? (percent + 7) / 8 : percent); }
  // Small numbers often, and the whole range.
  int64_t mostly_small(int64_t low, int64_t high) { return between(low, chance(50) ? high : (3 * low + high) / 4); }

  polyconv_problem draw(int kind) {
    polyconv_problem p;
    polyconv_problem_init(&p);
    p.direction = static_cast<int32_t>(between(POLYCONV_FORWARD, POLYCONV_BACKWARD_WEIGHTS));
    if (chance(40)) p.direction = POLYCONV_FORWARD;
    tidy_ = chance(60);
    p.batch = chance(50) ? 1 : between(2, 5);
    static const int32_t types[] = {POLYCONV_F16, POLYCONV_BF16, POLYCONV_F32};
    p.input_type = types[between(0, 2)];
    p.input_layout = POLYCONV_CHANNELS_LAST;
    for (int axis = 0; axis < 2; ++axis) {
      p.input_size[axis] = mostly_small(1, 60);
      p.kernel_size[axis] = 3;
    }
    switch (kind) {
      case 0: vectors(&p, 8); break;
      case 1: vectors(&p, 64); break;
      case 2: few_in(&p); break;
      case 3: few_out(&p); break;
      case 4: depthwise(&p); break;
      case 5: pointwise(&p); break;
      case 6: grouped(&p); break;
      case 7: batches(&p); break;
      case kPatches: patches(&p); break;
      default: image(&p); break;
    }
    p.weights_type = p.weights_type == POLYCONV_F32 && p.input_type < POLYCONV_S32 ? p.input_type : p.weights_type;
    p.output_type = p.input_type != POLYCONV_F32 && p.input_type < POLYCONV_S32 && strays(15)
                        ? static_cast<int32_t>(POLYCONV_F32)
                        : p.input_type;
    p.output_layout = strays(12) ? 1 - p.input_layout : p.input_layout;
    p.weights_layout = chance(50) ? p.input_layout : 1 - p.input_layout;
    draw_steps(&p);
    if (kind == kPatches) stand_apart(&p);
    if (chance(20)) draw_view(random_, POLYCONV_TENSOR_INPUT, &p);
    if (chance(20)) draw_view(random_, POLYCONV_TENSOR_OUTPUT, &p);
    if (p.direction == POLYCONV_FORWARD) draw_epilogue(&p);
    if (p.direction == POLYCONV_BACKWARD_WEIGHTS) p.epilogue.has_bias = chance(30);
    return p;
  }

  // Channels in whole vectors, and now and then one more or less: matrix units.
  void vectors(polyconv_problem *p, int64_t unit) {
    const auto channels = [&] {
      return std::max<int64_t>(1, unit * between(1, unit == 8 ? 12 : 5) + (strays(20) ? between(-3, 3) : 0));
    };
    p->in_channels = channels(), p->out_channels = channels();
    draw_kernel(p, 1, 5);
  }
  // Images and first layers.
  void few_in(polyconv_problem *p) {
    p->in_channels = between(1, 9);
    p->out_channels = chance(50) ? 8 * between(1, 12) : between(1, 70);
    if (chance(60)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 1, 11);
  }
  // Last layers.
  void few_out(polyconv_problem *p) {
    p->in_channels = chance(50) ? 8 * between(1, 12) : between(1, 70);
    p->out_channels = between(1, 9);
    if (chance(60)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 1, 9);
  }
  void depthwise(polyconv_problem *p) {
    p->groups = p->in_channels = chance(50) ? 8 * between(1, 16) : between(1, 70);
    p->out_channels = p->in_channels * (chance(80) ? 1 : between(2, 4));
    if (chance(50)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 1, 9);
  }
  void pointwise(polyconv_problem *p) {
    p->in_channels = strays(50) ? between(1, 300) : 8 * mostly_small(1, 40);
    p->out_channels = strays(50) ? between(1, 300) : 8 * mostly_small(1, 40);
    if (chance(40)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    for (int axis = 0; axis < 2; ++axis) p->kernel_size[axis] = 1;
  }
  void grouped(polyconv_problem *p) {
    const int64_t channels = int64_t{8} << between(0, 2); // of a group; groups are 64 channels
    p->groups = tidy_ ? 64 / channels * between(1, 2) : between(2, 9);
    p->in_channels = p->groups * (tidy_ ? channels : strays(60) ? between(1, 20) : 4 * between(1, 8));
    p->out_channels = strays(50) ? p->groups * between(1, 40) : p->in_channels;
    if (chance(30)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 1, 5);
  }
  // Many small images of few channels.
  void batches(polyconv_problem *p) {
    p->batch = between(6, 20);
    p->in_channels = between(1, 8), p->out_channels = between(1, 24);
    if (chance(80)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 1, 7);
  }
  void image(polyconv_problem *p) {
    static const int32_t types[] = {POLYCONV_U8, POLYCONV_U16, POLYCONV_F32};
    p->input_type = types[between(0, 2)];
    if (p->input_type != POLYCONV_F32) p->direction = POLYCONV_FORWARD;
    p->in_channels = between(1, 4);
    p->groups = chance(70) ? p->in_channels : 1;
    p->out_channels = chance(70) ? p->in_channels : p->groups * between(1, 8);
    if (chance(60)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    p->pad_mode = static_cast<int32_t>(between(POLYCONV_PAD_ZERO, POLYCONV_PAD_CIRCULAR));
    if (p->pad_mode == POLYCONV_PAD_CONSTANT) p->pad_value = static_cast<double>(between(0, 3));
    p->separable = chance(30);
    draw_kernel(p, 1, 15);
  }

  // Windows that do not overlap: patch embeddings, 2 x 2 layers at stride 2 and their transposed layers.
  void patches(polyconv_problem *p) {
    p->in_channels = chance(30) ? between(1, 4) : strays(40) ? between(1, 40) : 8 * between(1, 8);
    p->out_channels = strays(40) ? between(1, 40) : 8 * between(1, 8);
    if (chance(30)) p->input_layout = POLYCONV_CHANNELS_FIRST;
    draw_kernel(p, 2, 8);
  }
  void stand_apart(polyconv_problem *p) {
    const bool one = chance(20);
    for (int axis = 0; axis < p->spatial_dims; ++axis) {
      const int64_t windows = one ? 1 : mostly_small(1, 6), taps = p->kernel_size[axis];
      p->stride[axis] = taps + (strays(15) ? 1 : 0), p->dilation[axis] = 1;
      p->pad_begin[axis] = p->pad_end[axis] = 0, p->output_padding[axis] = 0;
      const int64_t rest = strays(25) ? between(0, taps - 1) : 0;
      p->input_size[axis] = p->transposed != 0 ? windows : (windows - 1) * p->stride[axis] + taps + rest;
    }
  }

  void draw_kernel(polyconv_problem *p, int64_t low, int64_t high) {
    p->kernel_size[0] = chance(50) ? 3 : mostly_small(low, high);
    p->kernel_size[1] = chance(70) ? p->kernel_size[0] : mostly_small(low, high);
  }

  // Mostly what networks have: one step, the padding that keeps the size. Else anything, wider than the kernel too.
  void draw_steps(polyconv_problem *p) {
    const int64_t stride = chance(60) ? 1 : strays(40) ? between(3, 5) : 2;
    const int64_t dilation = strays(25) ? between(2, 4) : 1;
    const bool same = chance(tidy_ ? 75 : 45);
    for (int axis = 0; axis < 2; ++axis) {
      p->stride[axis] = strays(20) ? between(1, 5) : stride;
      p->dilation[axis] = strays(20) ? between(1, 4) : dilation;
      const int64_t reach = p->dilation[axis] * (p->kernel_size[axis] - 1);
      p->pad_begin[axis] = same ? reach / 2 : mostly_small(0, reach + 4);
      p->pad_end[axis] = chance(75) ? p->pad_begin[axis] : mostly_small(0, reach + 4);
    }
    if (chance(8)) reach_far(p, chance(50) ? 0 : 1);
    p->flip = strays(15);
    p->transposed = p->pad_mode == POLYCONV_PAD_ZERO && chance(12);
    for (int axis = 0; axis < 2 && p->transposed != 0; ++axis)
      p->output_padding[axis] = between(0, std::max(p->stride[axis], p->dilation[axis]) - 1);
    if (!strays(20)) return;
    // Another axis of depth: as one of two, or in front of them.
    p->spatial_dims = chance(50) ? 1 : 3;
    if (p->spatial_dims == 1) {
      for (auto *field : {p->input_size, p->kernel_size, p->stride, p->dilation}) field[1] = 1;
      for (auto *field : {p->pad_begin, p->pad_end, p->output_padding}) field[1] = 0;
    } else {
      p->input_size[2] = between(1, 9), p->kernel_size[2] = between(1, 3), p->stride[2] = between(1, 2);
      p->pad_begin[2] = between(0, 2), p->pad_end[2] = between(0, 2);
      if (chance(50)) p->kernel_size[0] = p->stride[0] = 1, p->pad_begin[0] = p->pad_end[0] = 0; // planes
    }
  }

  // An axis about as far as a TMA's corners, offsets and steps go: 128 pixels, 256 and 8.
  void reach_far(polyconv_problem *p, int axis) {
    switch (between(0, 3)) {
      case 0: p->stride[axis] = between(6, 10); break;
      case 1: p->dilation[axis] = between(10, 130); break;
      case 2: p->pad_begin[axis] = between(12, 132); break;
      default: p->pad_end[axis] = between(12, 132); break;
    }
    if (p->dilation[axis] > 9) p->pad_begin[axis] = p->dilation[axis] * (p->kernel_size[axis] - 1) / 2;
    if (p->dilation[axis] > 9) p->pad_end[axis] = p->pad_begin[axis] + between(0, 2);
  }

  void draw_epilogue(polyconv_problem *p) {
    polyconv_epilogue &e = p->epilogue;
    e.has_scale = strays(15);
    e.has_bias = chance(60);
    if (chance(25)) {
      e.residual_from = POLYCONV_RESIDUAL_BUFFER;
      e.residual_scale = chance(70) ? 1.0f : static_cast<float>(between(-4, 4)) / 2;
    }
    if (chance(60))
      e.activation = static_cast<int32_t>(between(POLYCONV_ACT_RELU, strays(50)   ? int64_t{POLYCONV_ACT_PRELU}
                                                                     : chance(50) ? int64_t{POLYCONV_ACT_CLIPPED_RELU}
                                                                                  : int64_t{POLYCONV_ACT_RELU}));
    if (e.activation == POLYCONV_ACT_CLIPPED_RELU) e.activation_alpha = 6;
    if (e.activation == POLYCONV_ACT_LEAKY_RELU || e.activation == POLYCONV_ACT_ELU) e.activation_alpha = 0.125f;
    if (p->input_type >= POLYCONV_S32 || !strays(20)) return;
    e.pool.kind = static_cast<int32_t>(between(POLYCONV_POOL_MAX, POLYCONV_POOL_AVERAGE));
    for (int axis = 0; axis < p->spatial_dims; ++axis) e.pool.window[axis] = e.pool.stride[axis] = between(2, 3);
  }

  std::mt19937_64 random_;
  int kind_ = 0;
  bool tidy_ = false; // a problem that many kernels take
};

} // namespace conformance
