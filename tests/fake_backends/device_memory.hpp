// device_memory.hpp - the machine behind the fake device: memory that the host cannot read, and streams that do nothing
// until somebody waits, so that a forgotten copy, a host pointer or a missing synchronisation gives a wrong answer here
// and not first on a GPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <functional>

namespace fake {

inline constexpr int kDeviceCount = 2;

// Memory, streams, events and graphs.
extern const polyconv_device_table device_table;

// Where `bytes` of a pointer really lie, for work on the device; throws polyconv::sdk::Error where they are the host's
// or another device's.
void *resolve(int device, const void *pointer, size_t bytes, const char *name);

// Appends work to a stream, or to the graph that is being captured from it. Throws for an unknown stream.
void enqueue(int device, void *stream, std::function<void()> work);

// Counts one kernel run in the device's description.
void count_run(int device);

} // namespace fake
