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

// Runs body(i) for every i in [0, total), in a few pieces for each thread so that none waits long for the last.
template <class Body>
void for_each(const sdk::Parallel &parallel, int64_t total, const Body &body) {
  const int64_t pieces = total < parallel.threads() * int64_t{8} ? total : parallel.threads() * int64_t{8};
  parallel(pieces, [&](int64_t piece) {
    const sdk::Share share = sdk::share(total, pieces, piece);
    for (int64_t i = share.begin; i < share.end; ++i) body(i);
  });
}

} // namespace polyconv::reference
