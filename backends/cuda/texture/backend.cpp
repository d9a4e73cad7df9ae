// backend.cpp - the cuda-texture backend: the input is read through texture objects, which polyconv_bind makes.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
