// backend.cpp - the cuda-chain backend: consecutive layers in one kernel, so that nothing between them reaches memory.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
