// backend.cpp - the openmp backend: the shared CPU kernels under OpenMP's threads.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include "cpu/kernels.hpp"

POLYCONV_DEFINE_BACKEND({"openmp", POLYCONV_BACKEND_VERSION, "cpu", polyconv::cpu::kernels(), polyconv::cpu::probe})
