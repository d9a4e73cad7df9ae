// shells.hpp - the files of shells/ as text, embedded by the build (cmake/embed.cmake). Each asks `polyconv-bench
// complete` for what may stand there, so that no list is kept twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::bench {

extern const char kBashCompletion[], kZshCompletion[], kFishCompletion[];

} // namespace polyconv::bench
