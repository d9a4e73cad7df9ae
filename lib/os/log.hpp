// log.hpp - one line to whoever listens: the caller's callback, or stderr where POLYCONV_LOG asks for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/printf.hpp>

#include <cstdint>

namespace polyconv {

// Whether anybody does at a level, for lines that are dear to make.
bool listens(int32_t level) noexcept;

// `level` is a POLYCONV_LOG_*; cheap when nobody listens.
POLYCONV_PRINTF(2, 3) void log(int32_t level, const char *format, ...);

} // namespace polyconv
