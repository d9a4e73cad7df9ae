// first_layer_test.cpp - the first layer of a network reads three planes and writes pixels: `direct` loads every second
// number of a plane, one by one, which its estimate must tell, and `dense` is faster.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.hpp>

#include <string>

#include "missing.hpp"
#include "skip.hpp"

namespace {

std::string kernel_of(const char *token, int threads) {
  polyconv::Options options;
  options.threads = threads;
  const polyconv::Plan plan({polyconv::Problem(token)}, options);
  return plan.info().kernel;
}

} // namespace

TEST_CASE("the first layer of a network is computed by dense") {
  if (polyconv_test::missing("threads")) return;
  const char *const layer = "fwd:n1,c3,k32,i256x256,f3x3,s2,p1:nchw-nhwc:bias+relu";
  const std::string kernel = kernel_of(layer, 1);
  if (kernel.find("@avx512") == std::string::npos && kernel.find("@avx2") == std::string::npos)
    return polyconv_test::skip("fitted on AVX2 and AVX-512 alone");
  for (const int threads : {1, 2}) CHECK(kernel_of(layer, threads).rfind("threads/dense", 0) == 0);
}
