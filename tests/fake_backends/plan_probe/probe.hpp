// probe.hpp - the kernels of plan_probe: each right in what it computes and peculiar in one thing that selection or
// planning must get right. They are taken only when named, so that a test picks the ones that compete.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../fake_direct.hpp"

#include <vector>

namespace probe {

using namespace fake;

// An f32 forward layer with bias, residual, activation and a saved pre-activation, on plain pointers.
struct Operands {
  const float *input, *bias, *residual;
  float *output, *saved;
};

inline Operands operands(const polyconv_arguments &a, int layer) {
  return {static_cast<const float *>(a.input), static_cast<const float *>(a.bias[layer]),
          static_cast<const float *>(a.residual[layer]), static_cast<float *>(a.output),
          static_cast<float *>(a.saved[layer])};
}

template <class Weight>
void compute(const polyconv_layer &l, const Weight &weight, const Operands &x) {
  polyconv_layer linear = l;
  linear.epilogue.activation = POLYCONV_ACT_NONE;
  const int64_t(&size)[5] = l.output.size;
  int64_t o[5];
  for (o[0] = 0; o[0] < size[0]; ++o[0])
    for (o[1] = 0; o[1] < size[1]; ++o[1])
      for (o[2] = 0; o[2] < size[2]; ++o[2])
        for (o[3] = 0; o[3] < size[3]; ++o[3])
          for (o[4] = 0; o[4] < size[4]; ++o[4]) {
            float v = output_at(linear, x.input, weight, x.bias, o);
            if (l.epilogue.residual_from != POLYCONV_RESIDUAL_NONE)
              v += l.epilogue.residual_scale * x.residual[at(l.residual, o[0], o[1], o[2], o[3], o[4])];
            if (l.save == POLYCONV_SAVE_PRE_ACTIVATION) x.saved[at(l.saved, o[0], o[1], o[2], o[3], o[4])] = v;
            x.output[at(l.result, o[0], o[1], o[2], o[3], o[4])] = activate(v, l.epilogue);
          }
}

// Whether `compute` can: everything but pooling, which it hints at.
inline bool computable(const polyconv_layer &layer, Offer &offer) {
  polyconv_layer plain = layer;
  plain.epilogue.residual_from = POLYCONV_RESIDUAL_NONE;
  plain.save = POLYCONV_SAVE_NONE;
  return takes(plain, offer);
}

extern const std::vector<const Kernel *> takers, helpers, liars;

} // namespace probe
