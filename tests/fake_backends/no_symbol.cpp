// no_symbol.cpp - a shared library that is called like a backend and is none.
// SPDX-License-Identifier: Apache-2.0
extern "C" __attribute__((visibility("default"))) int polyconv_fake_unrelated();

int polyconv_fake_unrelated() {
  return 0;
}
