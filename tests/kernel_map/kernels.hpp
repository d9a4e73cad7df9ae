// kernels.hpp - the kernels that the source has, and where a reader finds each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

struct Kernel {
  std::string plug_in, name; // "cuda-tensor", "wgmma"; those that the CPU's plug-ins share belong to "threads"
  std::string file;          // from the root of the source
  std::string parts;         // the folder of what it is made of, where that is a folder of its own
  std::string page;          // of docs/performance that begins with its name; empty where none does
};

// Those of every kernels.inc of backends/cpu and backends/cuda, in its order; a line POLYCONV_ADJOINT(wgmma) is the
// kernel wgmma_data, in the file of wgmma. Throws std::runtime_error where a listed kernel has no file of its name.
std::vector<Kernel> read_kernels(const std::string &root);
