// checks.hpp - what must hold of every valid problem, whatever it came from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace polyconv_fuzz {

inline void require(bool holds, const char *what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s; last error: %s\n", what, polyconv_last_error());
  std::abort();
}

inline std::string format(const polyconv_problem &problem) {
  size_t needed = 0;
  require(polyconv_problem_format(&problem, nullptr, 0, &needed) == POLYCONV_SUCCESS, "a valid problem has a token");
  std::string token(needed, '\0');
  require(polyconv_problem_format(&problem, &token[0], token.size(), nullptr) == POLYCONV_SUCCESS,
          "the token fits the length that was told");
  token.pop_back();
  return token;
}

// parse(format(problem)) is the same problem: it has the same token, and the same tensors.
inline void check_token(const polyconv_problem &problem) {
  const std::string token = format(problem);
  polyconv_problem again;
  require(polyconv_problem_parse(token.c_str(), &again) == POLYCONV_SUCCESS, "a canonical token parses");
  require(format(again) == token, "a canonical token is its own canonical token");
  for (int32_t which = POLYCONV_TENSOR_INPUT; which <= POLYCONV_TENSOR_RESIDUAL_GRADIENT; ++which) {
    int64_t bytes = 0, bytes_again = 0;
    const polyconv_status status = polyconv_problem_tensor(&problem, which, nullptr, &bytes);
    require(status == polyconv_problem_tensor(&again, which, nullptr, &bytes_again), "both have the tensor or none");
    require(bytes == bytes_again && bytes >= 0, "a tensor's bytes are the same, and none are negative");
  }
}

} // namespace polyconv_fuzz
