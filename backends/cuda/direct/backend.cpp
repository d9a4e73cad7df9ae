// backend.cpp - the cuda-direct backend: one thread an output, for every problem; and the pooling and converting steps
// that plans of the other CUDA backends are completed with.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/backend.hpp"

POLYCONV_DEFINE_CUDA_BACKEND()
