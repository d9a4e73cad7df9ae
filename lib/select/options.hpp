// options.hpp - the caller's options, copied and validated once: what selection, plan and run need of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

#include <string>

namespace polyconv {

struct Options {
  polyconv_options
      values;         // in this library's version of the struct; its strings are the members below, not the pointers
  std::string kernel; // the glob list in force: options.kernel, else POLYCONV_KERNEL, else ""
  const char *kernel_from; // which of the two it is, for messages
  std::string grouping;    // likewise a copy; "" where any grouping may be taken
  polyconv_policy policy;  // as kernels see them
};

// Copies `options` (NULL: the defaults; its struct_size may be of an older or newer caller) for a device. Throws
// Failure(INVALID_ARGUMENT) naming field, value and expectation.
Options read_options(const polyconv_options *options, const polyconv_device &device);

// The words for a POLYCONV_MATH_* ("strict"), POLYCONV_OP_* ("convolve"); "?" for anything else.
const char *math_name(int32_t math);
const char *op_name(int32_t op);

} // namespace polyconv
