// for_each.hpp - how the reference deals its loops out to threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/parallel.hpp>

#include "finish.hpp"

namespace polyconv::reference {

// Runs body(i) for every i in [0, total), in a few pieces for each thread so that none waits long for the last.
template <class Body>
void for_each(const sdk::Parallel &parallel, int64_t total, const Body &body) {
  if (total == 0) return;
  const int64_t pieces = total < parallel.threads() * int64_t{8} ? total : parallel.threads() * int64_t{8};
  parallel(pieces, [&](int64_t piece) {
    const sdk::Share share = sdk::share(total, pieces, piece);
    for (int64_t i = share.begin; i < share.end; ++i) body(i);
  });
}

// Runs body(place) for the first place of every row of a tensor.
template <class Body>
void for_each_row(const sdk::Parallel &parallel, const polyconv_tensor &t, const Body &body) {
  for_each(parallel, t.size[0] * t.size[1] * t.size[2] * t.size[3], [&](int64_t row) {
    const int64_t plane = row / t.size[3], volume = plane / t.size[2];
    body(Place{volume / t.size[1], volume % t.size[1], plane % t.size[2], row % t.size[3], 0});
  });
}

} // namespace polyconv::reference
