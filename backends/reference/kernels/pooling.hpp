// pooling.hpp - the pooling of the reference: by the convolve kernel on the values it left in its workspace, and by
// the pool kernel as a step of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/parallel.hpp>

namespace polyconv::reference {

// Pools `values`, described by `source`, as l.epilogue says, into l.result at `result`; fills l.saved at `argmax`
// where l.save asks for it.
void pool(const polyconv_layer &l, const polyconv_tensor &source, const void *values, void *result, void *argmax,
          const sdk::Parallel &parallel);

} // namespace polyconv::reference
