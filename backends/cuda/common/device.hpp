// device.hpp - what every CUDA plug-in carries: the device table and the probe. All plug-ins share the primary
// context and the driver's handles, so memory, streams and events of one serve all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

namespace polyconv::cuda {

// Semantics of backend.h's polyconv_device_table.
const polyconv_device_table *device_table();

// SUCCESS where a driver answers that is at least as new as this plug-in's runtime, and a device exists that the
// plug-in has code for; otherwise UNAVAILABLE with the reason. `architectures` is what CMake stamped, "80 90a 120+": a
// plus also brings PTX, from which later devices compile. Creates no context.
polyconv_status probe(const char *architectures, char *reason, size_t size);

} // namespace polyconv::cuda
