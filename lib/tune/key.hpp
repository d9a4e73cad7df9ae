// key.hpp - under which words the tuning database knows a problem on a device, and a kernel's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "select/select.hpp"

#include <string>

namespace polyconv {

// The key of a problem under the question's options; "" where the database has no say: a chain, invariant results,
// a caller's own threads, or POLYCONV_TUNING=off; and where nothing would be found or kept.
std::string tuning_key(const Question &question, const std::string &token, size_t layers);

// What tells one build of a candidate's kernels from another: the versions of those that take part, the convolving
// kernel's first, each once, joined by '+'.
std::string version_of(const Candidate &candidate);

// A kernel's own version, which its build has made: a hash of its sources, "/", and one of compiler and flags. Where it
// has none, that of the plug-in that its code lies in: the build id, a hash of the file's contents, or the backend's
// own where the platform has none.
std::string version_of(const KernelEntry &entry);

// Of a version what its sources are, without what compiled them.
std::string sources_in(const std::string &version);

} // namespace polyconv
