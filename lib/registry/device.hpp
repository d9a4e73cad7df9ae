// device.hpp - devices by name: the CPU, always there, and those of the kinds that backends bring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"

#include <vector>

namespace polyconv {

// The CPU as a device like any other (registry/device_cpu.cpp). Functions that a CPU has no use for are NULL.
extern const polyconv_device_table cpu_device_table;

// All devices, the CPU first. A snapshot; later ones only append.
std::vector<const polyconv_device *> devices();

} // namespace polyconv
