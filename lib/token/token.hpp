// token.hpp - a problem as one word, the same in logs, tuning keys, files and command lines: docs/problem-token.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "problem/problem.hpp"

#include <string>
#include <vector>

namespace polyconv {

// Throws Failure(INVALID_ARGUMENT).
polyconv_problem parse_token(const std::string &token);
std::string format_token(const polyconv_problem &problem);

// "fwd:...", of a chain its layers joined by " > ".
std::string token_of(const std::vector<Layer> &layers);

// The part of a problem that its packed weights depend on, as a token: equal strings, interchangeable weights.
std::string weights_token(const polyconv_problem &problem, bool raw);

} // namespace polyconv
