// backend.cpp - the cuda-tensor backend: convolution as a matrix product on the matrix units.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
