// astray.cpp - the library that a backend of windows_test needs.
// SPDX-License-Identifier: Apache-2.0
extern "C" __declspec(dllexport) int polyconv_astray() {
  return 1;
}
