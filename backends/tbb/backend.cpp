// backend.cpp - the tbb backend: the shared CPU kernels under oneTBB's threads.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include "cpu/kernels.hpp"

POLYCONV_DEFINE_BACKEND({"tbb", POLYCONV_BACKEND_VERSION, "cpu", polyconv::cpu::kernels(), polyconv::cpu::probe})
