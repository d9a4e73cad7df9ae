// kernel_version.hpp - what tells two builds of one kernel apart: the tuning database believes a time only of the
// version that it was taken of. polyconv_add_backend generates the source of this list, where its folder has a
// kernels.inc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace polyconv::sdk {

struct KernelVersion {
  const char *kernel;
  const char *version; // a hash of the kernel's sources, of the compiler and its flags
};

extern const KernelVersion kernel_versions[]; // up to one without a kernel

} // namespace polyconv::sdk
