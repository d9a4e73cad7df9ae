// backend.cpp - the cuda-shuffle backend: rows in registers, horizontal neighbours by warp shuffle.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
