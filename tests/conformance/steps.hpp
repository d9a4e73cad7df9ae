// steps.hpp - the kernels that only pool, convert or go back through activation and pooling, asked through the plug-in
// ABI itself: no problem of the public API can name them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <string>

namespace conformance {

// Checks every pooling, conversion and gradient of pooling that the kernel ("backend/kernel@config") of a backend takes
// against plain loops, and returns how many those were.
int check_steps(const polyconv_backend_info &backend, const std::string &kernel);

// Why the last call of a plug-in failed that check_steps has asked: from then on it tells that, and no longer the
// library, which then knows no reason.
std::string said_to_steps();

} // namespace conformance
