// newer_abi.cpp - a backend of the next major: its only entry symbol is one that this library does not know.
// SPDX-License-Identifier: Apache-2.0
extern "C" __attribute__((visibility("default"))) int polyconv_backend_query_v2();

int polyconv_backend_query_v2() {
  return 0;
}
