// interleave.hpp - the results of a strided gradient's parts, laid densely side by side in the workspace, into place.
// Where columns lie side by side, kernels store dense rows by whole vectors but every other column one by one; a copy
// is quicker than that. And zeros, where no tap reaches. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/adjoint_kernel.hpp>

namespace polyconv::cpu {

// Dense results, channels first, by adjoint_part's number; NULL where there are no taps, for zeros.
struct PartResults {
  const char *of[sdk::kMostAdjointParts];
};

// Whether the parts of a BACKWARD_DATA layer take this way.
bool interleaves(const polyconv_layer &layer);

// Lines along W [first, last) of the layer's result, counted N, C, D, H from the outermost.
void interleave(const polyconv_layer &layer, const PartResults &parts, char *result, int64_t first, int64_t last);

// Lines along W [first, last), counted N, D, H, of all channels of a part's result become zeros; the part begins at
// `result`.
void zero_lines(const polyconv_tensor &part, char *result, int64_t first, int64_t last);

} // namespace polyconv::cpu
