// device.hpp - what every CUDA plug-in carries: the device table and the probe. All plug-ins share the primary
// context and the driver's handles, so memory, streams and events of one serve all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cuda {

// Semantics of backend.h's polyconv_device_table.
const polyconv_device_table *device_table();

// SUCCESS where there is a GPU and a driver that is at least as new as this plug-in's runtime; otherwise UNAVAILABLE
// with the reason. Creates no context, and as a rule does not wake the driver.
polyconv_status probe(char *reason, size_t size);

// The CUDA version that the driver is for, as 13000, without waking it; 0 where there is none.
int driver_version();

// Whether the plug-in has code for a device; else rejects in words. `architectures` is what CMake stamped, "80 90a
// 120+": a plus also brings PTX, from which later devices compile.
bool has_code(const char *architectures, int device, sdk::Offer &offer);

} // namespace polyconv::cuda
