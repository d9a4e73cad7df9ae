// fake_runtime.hpp - the CUDA runtime of tests/cuda_host: one H100 that lies in the host's memory and runs no kernel.
// It counts what the plug-ins ask of it, and remembers their launches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace fake_cuda {

struct Launch {
  std::string kernel; // mangled
  std::array<uint32_t, 3> grid, block;
  uint32_t cluster = 1;
  size_t shared_bytes = 0;
  bool together = false; // its blocks wait for each other
};

// So many multiprocessors run a launch whose blocks wait for each other: those of a part of the device.
void lend(int multiprocessors);

// Calls of the runtime so far, those of launches alone apart.
int64_t calls();

// The launches since it was last asked.
std::vector<Launch> take_launches();

// What of a launch an H100 would refuse; empty where nothing.
std::string refusal(const Launch &launch);

// One line.
std::string text_of(const Launch &launch);

} // namespace fake_cuda
