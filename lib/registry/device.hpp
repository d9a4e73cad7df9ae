// device.hpp - devices by name: the CPU, always there, and those of the kinds that backends bring.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <string>
#include <vector>

// The opaque handle of polyconv.h.
struct polyconv_device {
  std::string name; // "cpu", "cuda:0"
  std::string kind; // "cpu", "cuda"
  int32_t index;
  const polyconv_device_table *table; // the CPU has one too, in device_cpu.cpp; functions may be NULL
};

namespace polyconv {

// The CPU as a device like any other (device_cpu.cpp). Functions that a CPU has no use for are NULL.
extern const polyconv_device_table cpu_device_table;

// All devices, the CPU first. A snapshot; later ones only append.
std::vector<const polyconv_device *> devices();

// The device called `name` (NULL: "cpu"). Throws Failure(INVALID_ARGUMENT or UNAVAILABLE).
const polyconv_device &find_device(const char *name);

// A handle that may be NULL for the CPU.
const polyconv_device &device_or_cpu(const polyconv_device *device);

} // namespace polyconv
