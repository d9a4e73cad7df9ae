// key.hpp - under which words the tuning database knows a problem on a device, and a kernel's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"

#include <string>

namespace polyconv {

// The key of a problem under the question's options; "" where the database has no say: a chain, invariant results,
// a caller's own threads, or POLYCONV_TUNING=off; and where nothing would be found or kept.
std::string tuning_key(const Question &question, const std::string &token, size_t layers);

// What tells one build of a candidate's kernels from another: the version of each kernel that takes part, the
// convolving one's first, joined by '+'.
std::string version_of(const Candidate &candidate);

// Of one kernel: the hash of its sources, which the build has set; the plug-in's build id where it has not.
std::string version_of(const KernelEntry &entry);

} // namespace polyconv
