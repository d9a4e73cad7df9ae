// fake_driver.cpp - the libcuda.so.1 of tests/cuda_host: a driver that says its version, which is all that the probe of
// a CUDA plug-in asks it.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

extern "C" int cuDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return 0;
}
