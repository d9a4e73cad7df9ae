// glob_test.cpp - the patterns of options.kernel. The function is internal, so its source is compiled in here.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "../../lib/base/glob.cpp"

TEST_CASE("globs match whole names") {
  struct Case {
    const char *globs, *name;
    bool matches;
  };
  const Case cases[] = {
      {"openmp/gemm@avx2", "openmp/gemm@avx2", true},
      {"openmp/gemm", "openmp/gemm@avx2", false},
      {"openmp/*", "openmp/gemm@avx2", true},
      {"openmp/*", "tbb/gemm@avx2", false},
      {"*", "", true},
      {"*", "anything/at@all", true},
      {"", "", true},
      {"", "a", false},
      {"?", "", false},
      {"?", "ab", false},
      {"*/gemm@*", "tbb/gemm@avx512", true},
      {"*/gemm@*", "tbb/gemm1x1@avx512", false},
      {"*a*b*", "xxaxxbxx", true},
      {"*a*b*", "xxbxxaxx", false},
      {"a*b", "ab", true},
      {"a**b", "axb", true},
      {"a*bc", "abcbc", true},
      {"*@avx?", "openmp/direct@avx2", true},
      {"tbb/*,openmp/*", "openmp/gemm@x", true},
      {"tbb/*,openmp/*", "reference/direct@x", false},
      {" tbb/* , openmp/* ", "openmp/gemm@x", true},
      {"tbb/*,", "reference/direct@x", false},
      {"a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
  };
  for (const Case &one : cases) {
    CAPTURE(one.globs);
    CAPTURE(one.name);
    CHECK(polyconv::glob_match(one.globs, one.name) == one.matches);
  }
}
