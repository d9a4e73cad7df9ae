// assets.hpp - the files of assets/ as text, embedded by the build (cmake/embed.cmake).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::bench {

extern const char kPageTemplate[], kPageStyle[], kPageScript[], kPictureStyle[];

} // namespace polyconv::bench
