// kernels.hpp - the kernels of kernels.inc and the probe, as a backend wants them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <vector>

namespace polyconv::cpu {

#define POLYCONV_KERNEL(name) extern const sdk::Kernel kernel_##name;
#include "cpu/kernels.inc"
#undef POLYCONV_KERNEL

std::vector<const sdk::Kernel *> kernels();

// The backends' probe: always available, with the instruction set as a note (isa.cpp).
polyconv_status probe(char *reason, size_t size);

} // namespace polyconv::cpu
