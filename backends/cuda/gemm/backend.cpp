// backend.cpp - the cuda-gemm backend: convolution as a matrix product, unfolded into memory first or gathered on the
// way into shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
