// polyconv_hpp.cpp - the example of polyconv.hpp: a layer with bias and relu, run twice.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.hpp>

#include <cstdio>

int main() {
  std::vector<float> input(64 * 56 * 56, 1.0f), output(64 * 56 * 56, -1.0f), raw_weights(64 * 64 * 9, 1.0f), bias(64);
  for (int k = 0; k < 64; ++k) bias[static_cast<size_t>(k)] = k < 32 ? 1.0f : -1e6f;
  // part layer
  polyconv::Plan plan(polyconv::Problem("fwd:n1,c64,k64,i56x56,f3x3,p1:bias+relu"));
  polyconv::Weights weights(plan, 0, raw_weights.data());
  polyconv::Workspace workspace(plan);
  polyconv::Buffers buffers;
  buffers.input = input.data(), buffers.output = output.data(), buffers.bias[0] = bias.data();
  buffers.packed[0] = weights.get();
  plan.run(buffers, workspace);
  // end layer
  plan.run(buffers, workspace);
  for (int k = 0; k < 64; ++k)
    for (int h = 0; h < 56; ++h)
      for (int w = 0; w < 56; ++w) {
        const int taps = (h % 55 == 0 ? 2 : 3) * (w % 55 == 0 ? 2 : 3);
        const float expected = k < 32 ? 64.0f * static_cast<float>(taps) + 1 : 0.0f;
        const float got = output[static_cast<size_t>((k * 56 + h) * 56 + w)];
        if (got != expected) return std::printf("%d, %d, %d: %g instead of %g\n", k, h, w, got, expected), 1;
      }
}
