// backend.cpp - the cuda-shared backend: input tiles with their halo in shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
