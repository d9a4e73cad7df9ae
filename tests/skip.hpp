// skip.hpp - how a test case says that it could not run here. When every case of an executable skips, it exits 77
// and CTest reports it as skipped; when only some do, their reasons are printed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv_test {

// Call once, then return from the test case.
void skip(const std::string &reason);

} // namespace polyconv_test
