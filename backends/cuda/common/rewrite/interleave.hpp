// interleave.hpp - the results of a strided gradient's parts, laid densely side by side in the workspace, into place.
// Kernels store dense results fast, every other pixel one element after the other; a copy is quicker than that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/backend.h>

#include <cstdint>

namespace polyconv::cuda {

inline constexpr int64_t kMostInterleaved = 8; // parts

// Whether the parts of a BACKWARD_DATA layer take this way: several, channels last, in whole vectors.
bool interleaves(const polyconv_layer &layer);

// Microseconds.
double interleave_us(const polyconv_layer &layer);

// What becomes of a result that no part has: zeros, or what lies there, where a residual may lie in place.
enum class Rest { kZeros, kStays };

// parts[number]: pixels of adjoint_part `number`, dense, channels last; NULL for none.
void interleave(const polyconv_layer &layer, const void *const (&parts)[kMostInterleaved], Rest rest, void *result,
                cudaStream_t stream);

} // namespace polyconv::cuda
