// backend.cpp - the cuda-constant backend: weights in the constant bank, where a multiply-add reads them for nothing.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
