// check.cpp - holds every kernel of the backend against the reference: exact, random, with NaN; poisoned and guarded.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cstdio>

int main() {
  const char *const tokens[] = {"fwd:n2,c6,k4,g2,i9x7,f3x3,s2,p1:bias+relu", "fwd:n1,c3,k5,i8x8x8,f3x3x3,p2,d2:scale",
                                "fwd:n3,c4,k4,g4,i33,f5,p2:pad=reflect:nhwc",
                                "fwd:n1,c2,k3,i12x12,f2x4,p1/2:bias+residual"};
  int wrong = 0, checked = 0;
  for (const std::string &kernel : polyconv::check::kernel_names()) {
    if (kernel.rfind("outside/", 0) != 0) continue;
    for (const char *token : tokens) {
      polyconv_options options;
      polyconv_options_init(&options);
      options.kernel = kernel.c_str();
      const polyconv::check::Result result = polyconv::check::Case(token).run_all(nullptr, options);
      std::printf("%-24s %-44s %s %s\n", kernel.c_str(), token, verdict_name(result.verdict), result.sentence.c_str());
      wrong += !result.good();
      ++checked;
    }
  }
  if (checked == 0) std::printf("the backend was not found: is its folder in POLYCONV_BACKEND_PATH?\n");
  return wrong == 0 && checked > 0 ? 0 : 1;
}
