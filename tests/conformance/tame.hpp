// tame.hpp - random problems over every field (random_problem.hpp), with numbers that a computation can be judged by
// and memory that a test can have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random_problem.hpp"

namespace conformance {

class TameProblem {
 public:
  explicit TameProblem(uint64_t seed) : random_(seed) {}

  polyconv_problem next() {
    for (;;) {
      polyconv_problem p = random_.next();
      tame(&p);
      double flops = 0;
      const bool valid = polyconv_problem_validate(&p, 1) == POLYCONV_SUCCESS;
      if (valid && polyconv_problem_flops(&p, &flops) == POLYCONV_SUCCESS && flops < 4e6) return p;
    }
  }

 private:
  void tame(polyconv_problem *p) {
    polyconv_epilogue &e = p->epilogue;
    for (int axis = 0; axis < p->spatial_dims; ++axis)
      if (p->spatial_dims > 1) p->input_size[axis] = 1 + p->input_size[axis] % (p->spatial_dims == 3 ? 7 : 21);
    if (p->pad_mode == POLYCONV_PAD_CONSTANT && p->input_type < POLYCONV_S32)
      p->pad_value = static_cast<double>(random_.between(-8, 8)) / 4;
    if (e.residual_from != POLYCONV_RESIDUAL_NONE) e.residual_scale = static_cast<float>(random_.between(-4, 4)) / 2;
    if (e.activation == POLYCONV_ACT_LEAKY_RELU || e.activation == POLYCONV_ACT_ELU) e.activation_alpha = 0.125f;
    if (p->output_type >= POLYCONV_S32) e.out_scale = random_.chance(50) ? 1.0f : 0.3f;
    p->has_input_strides = p->has_output_strides = 0;
    const bool one_filter = p->has_weights_strides != 0 && p->weights_strides[0] == 0;
    if (!one_filter) p->has_weights_strides = 0;
    if (one_filter) dense_filter(p);
  }

  // The dense strides of one filter, the same for every output channel.
  static void dense_filter(polyconv_problem *p) {
    int64_t stride = 1;
    for (int axis = p->spatial_dims; axis >= 0; --axis) {
      p->weights_strides[1 + axis] = stride;
      stride *= axis > 0 ? p->kernel_size[axis - 1] : 1;
    }
  }

  polyconv_test::RandomProblem random_;
};

} // namespace conformance
