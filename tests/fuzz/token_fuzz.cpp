// token_fuzz.cpp - any text as a problem's token: refused with a sentence, or a valid problem whose canonical token
// reads back as itself.
// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"
#include "checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string token = polyconv_fuzz::Bytes(data, size).rest();
  polyconv_problem problem;
  if (polyconv_problem_parse(token.c_str(), &problem) != POLYCONV_SUCCESS) {
    polyconv_fuzz::require(polyconv_last_error()[0] != '\0', "a refused token gets a sentence");
    return 0;
  }
  polyconv_fuzz::require(polyconv_problem_validate(&problem, 1) == POLYCONV_SUCCESS, "what parses is valid");
  polyconv_fuzz::check_token(problem);
  return 0;
}
