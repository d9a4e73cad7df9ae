// wants_astray.cpp - what makes the backend need astray.cpp's library: it is called while the backend is loaded.
// SPDX-License-Identifier: Apache-2.0
extern "C" __declspec(dllimport) int polyconv_astray();

namespace {
[[maybe_unused]] const int asked = polyconv_astray();
}
