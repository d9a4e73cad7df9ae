// built_in_test.cpp - several backends in one program, as a static build links them: each is there under its own name,
// computes with its own threads (both have a make_parallel), and nothing is looked for in folders.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.hpp>

#include <cstdio>
#include <string>

int main() {
  int wrong = 0;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    polyconv::require(polyconv_backend_get(i, &info));
    if (!info.available || info.path != std::string("built in: ") + info.name) {
      std::printf("%s from '%s': %s\n", info.name, info.path, info.reason);
      ++wrong;
      continue;
    }
    // A 2 x 2 box over 16 channels, in two threads, by this backend alone.
    const polyconv::Problem problem("fwd:c16,k8,i9x9,f2x2");
    polyconv::Options options;
    const std::string mine = std::string(info.name) + "/*";
    options.kernel = mine.c_str();
    options.threads = 2;
    options.fallback = POLYCONV_FALLBACK_ALLOW;
    const polyconv::Plan plan(problem, options);
    std::vector<float> input(16 * 81), raw(8 * 16 * 4, 1.0f), output(8 * 64);
    for (size_t e = 0; e < input.size(); ++e) input[e] = static_cast<float>(e % 81);
    const polyconv::Weights weights(plan, 0, raw.data());
    const polyconv::Workspace workspace(plan);
    polyconv::Buffers buffers;
    buffers.input = input.data(), buffers.output = output.data(), buffers.packed[0] = weights.get();
    plan.run(buffers, workspace);
    for (size_t e = 0; e < output.size(); ++e) {
      const size_t corner = e % 64 / 8 * 9 + e % 8;
      if (output[e] != 16.0f * static_cast<float>(4 * corner + 20)) ++wrong;
    }
    std::printf("%s: %s\n", info.name, plan.info().kernel);
  }
  if (polyconv_backend_count() < 1) std::puts("no backends"), ++wrong;
  return wrong != 0;
}
