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

} // namespace conformance
