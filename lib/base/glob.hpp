// glob.hpp - the patterns of options.kernel, POLYCONV_KERNEL and POLYCONV_BACKEND_SKIP.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv {

// Whether `name` matches the glob list: commas between globs, in which '*' is any text and '?' any letter.
bool glob_match(const char *globs, const char *name);

} // namespace polyconv
