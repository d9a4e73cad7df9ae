// random_chain.hpp - random chains of 2 to 8 layers that fit each other: the shapes, types and epilogues that fused
// kernels are written for, and some that they are not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "cases.hpp"
#include "view.hpp"

namespace conformance {

class RandomChain {
 public:
  explicit RandomChain(uint64_t seed) : random_(seed) {}

  // Most draws are valid and small enough; those that are not are drawn again.
  std::vector<polyconv_problem> next() {
    for (;;) {
      const std::vector<polyconv_problem> chain = draw();
      const auto count = static_cast<int32_t>(chain.size());
      if (polyconv_problem_validate(chain.data(), count) == POLYCONV_SUCCESS && flops_of(chain) < 6e6) return chain;
    }
  }

 private:
  enum class Kind { kPlain, kImage, kSeparableBlock };

  int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  std::vector<polyconv_problem> draw() {
    const Kind kind = chance(40) ? Kind::kPlain : chance(60) ? Kind::kSeparableBlock : Kind::kImage;
    tidy_ = kind != Kind::kPlain && chance(70);
    const int64_t count = kind == Kind::kSeparableBlock ? between(2, 3)
                          : chance(50)                  ? 2
                                                        : between(3, chance(80) ? 4 : 8);
    std::vector<polyconv_problem> chain;
    for (int64_t i = 0; i < count; ++i) {
      polyconv_problem p;
      polyconv_problem_init(&p);
      if (i == 0)
        begin(&p, kind);
      else
        follow(chain.back(), &p);
      draw_convolution(&p, kind, i + 1 == count, i);
      draw_epilogue(&p, kind, chain);
      chain.push_back(p);
    }
    if (chance(15)) draw_view(random_, POLYCONV_TENSOR_INPUT, &chain.front());
    if (chance(15)) draw_view(random_, POLYCONV_TENSOR_OUTPUT, &chain.back());
    return chain;
  }

  void begin(polyconv_problem *p, Kind kind) {
    static const int32_t types[] = {POLYCONV_F32, POLYCONV_F32,  POLYCONV_F16,
                                    POLYCONV_F16, POLYCONV_BF16, POLYCONV_F64};
    const bool eight_bits = kind == Kind::kImage && chance(tidy_ ? 20 : 50);
    p->input_type = eight_bits             ? static_cast<int32_t>(POLYCONV_U8)
                    : kind == Kind::kImage ? static_cast<int32_t>(POLYCONV_F32)
                                           : types[between(0, 5)];
    p->spatial_dims = 2;
    p->batch = chance(60) ? 1 : 3;
    p->in_channels = kind == Kind::kImage            ? 1
                     : kind == Kind::kSeparableBlock ? 8 * between(1, 6)
                     : chance(70)                    ? between(1, 6)
                                                     : between(8, 40);
    p->input_layout = p->output_layout = kind == Kind::kSeparableBlock ? tidy_ || !chance(20) : chance(30);
    for (int axis = 0; axis < 2; ++axis) p->input_size[axis] = chance(60) ? between(3, 24) : between(25, 75);
  }

  static void follow(const polyconv_problem &before, polyconv_problem *p) {
    polyconv_tensor output;
    polyconv_problem_tensor(&before, POLYCONV_TENSOR_OUTPUT, &output, nullptr);
    p->input_type = before.output_type;
    p->spatial_dims = before.spatial_dims;
    p->batch = before.batch;
    p->in_channels = before.out_channels;
    p->input_layout = p->output_layout = before.output_layout;
    p->input_size[0] = output.size[3];
    p->input_size[1] = output.size[4];
  }

  void draw_convolution(polyconv_problem *p, Kind kind, bool last, int64_t index) {
    const bool image = p->input_type == POLYCONV_U8;
    p->weights_type = image ? static_cast<int32_t>(POLYCONV_F32) : p->input_type;
    p->output_type = image && chance(15) ? static_cast<int32_t>(POLYCONV_F32) : p->input_type;
    if (last && chance(tidy_ ? 0 : 15) && (p->input_type == POLYCONV_F16 || p->input_type == POLYCONV_BF16))
      p->output_type = POLYCONV_F32;
    // Blocks are pointwise and depthwise by turns, beginning with either.
    if (kind == Kind::kSeparableBlock && index == 0) pointwise_ = chance(50);
    const bool pointwise = kind == Kind::kSeparableBlock ? pointwise_ : chance(15);
    const bool depthwise = kind == Kind::kSeparableBlock ? !pointwise : kind == Kind::kPlain && chance(8);
    pointwise_ = !pointwise;
    p->groups = depthwise ? p->in_channels : 1;
    p->out_channels = depthwise || kind == Kind::kImage ? p->in_channels : chance(60) ? between(1, 8) : between(9, 48);
    if (kind == Kind::kSeparableBlock && pointwise) p->out_channels = 8 * between(1, 12);
    const int64_t odd = kind == Kind::kImage ? 3 + 2 * between(0, 2) : 3;
    const int64_t size = pointwise ? 1 : tidy_ ? odd : chance(60) ? 3 : between(2, 6);
    const bool shrinks = chance(20);
    if (tidy_) return draw_tidy(p, size, kind == Kind::kSeparableBlock && !pointwise && shrinks ? 2 : 1);
    for (int axis = 0; axis < 2; ++axis) {
      p->kernel_size[axis] = pointwise || chance(85) ? size : between(1, 5);
      p->stride[axis] = shrinks && !(pointwise && chance(70)) ? between(1, 3) : 1;
      p->dilation[axis] = chance(92) ? 1 : 2;
      const int64_t same = p->dilation[axis] * (p->kernel_size[axis] - 1) / 2;
      p->pad_begin[axis] = chance(75) ? same : between(0, 3);
      p->pad_end[axis] = chance(85) ? p->pad_begin[axis] : between(0, 3);
    }
    if (chance(kind == Kind::kImage ? 60 : 12))
      p->pad_mode = static_cast<int32_t>(between(POLYCONV_PAD_ZERO, POLYCONV_PAD_CIRCULAR));
    if (p->pad_mode == POLYCONV_PAD_CONSTANT)
      p->pad_value = static_cast<double>(image ? between(0, 9) : between(-3, 3));
    p->flip = chance(10);
    p->weights_layout = chance(20);
  }

  // As networks and image pipelines have them: many kernels take those alone.
  void draw_tidy(polyconv_problem *p, int64_t size, int64_t stride) {
    for (int axis = 0; axis < 2; ++axis) {
      p->kernel_size[axis] = size, p->stride[axis] = stride;
      p->pad_begin[axis] = p->pad_end[axis] = size == 1 || chance(80) ? size / 2 : between(0, size - 1);
      if (size > 1 && chance(15)) p->pad_end[axis] = between(0, size - 1);
    }
    p->weights_layout = chance(20);
  }

  void draw_epilogue(polyconv_problem *p, Kind kind, const std::vector<polyconv_problem> &before) {
    polyconv_epilogue &e = p->epilogue;
    e.has_bias = chance(kind == Kind::kImage ? 30 : 80);
    e.has_scale = !tidy_ && chance(5);
    if (chance(60))
      e.activation = static_cast<int32_t>(
          between(POLYCONV_ACT_RELU, chance(tidy_ ? 60 : 85)                  ? int64_t{POLYCONV_ACT_RELU}
                                     : tidy_ && kind == Kind::kSeparableBlock ? int64_t{POLYCONV_ACT_CLIPPED_RELU}
                                                                              : int64_t{POLYCONV_ACT_PRELU}));
    if (e.activation == POLYCONV_ACT_CLIPPED_RELU) e.activation_alpha = 6;
    if (e.activation == POLYCONV_ACT_LEAKY_RELU || e.activation == POLYCONV_ACT_ELU) e.activation_alpha = 0.125f;
    if (kind == Kind::kPlain && chance(20)) {
      e.pool.kind = chance(75) ? static_cast<int32_t>(POLYCONV_POOL_MAX) : static_cast<int32_t>(POLYCONV_POOL_AVERAGE);
      for (int axis = 0; axis < 2; ++axis) {
        e.pool.window[axis] = chance(80) ? 2 : 3;
        e.pool.stride[axis] = chance(80) ? e.pool.window[axis] : between(1, 2);
      }
    }
    if (!chance(kind == Kind::kSeparableBlock ? 40 : 12)) return;
    // From the first place that fits, else from nowhere.
    const int64_t places = static_cast<int64_t>(before.size()) + 2;
    for (int64_t i = between(0, places - 1), tries = 0; tries < places; ++tries, i = (i + 1) % places) {
      e.residual_from = i == 0            ? static_cast<int32_t>(POLYCONV_RESIDUAL_INPUT)
                        : i == places - 1 ? static_cast<int32_t>(POLYCONV_RESIDUAL_BUFFER)
                                          : static_cast<int32_t>(POLYCONV_RESIDUAL_LAYER + i - 1);
      std::vector<polyconv_problem> chain = before;
      chain.push_back(*p);
      if (polyconv_problem_validate(chain.data(), static_cast<int32_t>(chain.size())) == POLYCONV_SUCCESS) return;
    }
    e.residual_from = POLYCONV_RESIDUAL_NONE;
  }

  std::mt19937_64 random_;
  bool pointwise_ = false, tidy_ = false;
};

} // namespace conformance
