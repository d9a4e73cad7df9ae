// check_hpp.cpp - the example of sdk/check.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>

#include <cstdio>

int main() {
  using namespace polyconv::check;
  const polyconv_device *device = nullptr;
  polyconv_options options;
  polyconv_options_init(&options);
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  // part check
  Case layer("fwd:n1,c8,k8,i9x9,f3x3,p1:relu");
  options.kernel = "reference/*";                          // or yours: "mine/gemm@64x64"
  Result result = layer.run(Mode::Exact, device, options); // good(), or a sentence that says what is wrong
  // end check
  if (!result.good()) return std::printf("%s\n", result.sentence.c_str()), 1;
}
