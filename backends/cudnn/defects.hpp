// defects.hpp - what engines do that none of cuDNN's notes tells: found by the conformance suite, every engine run by
// itself (docs/performance/cudnn.md). Numbers are those of cuDNN 9.19.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph.hpp"

namespace polyconv::cudnn {

struct Defects {
  bool wrong_sums;      // rounded to f16 on their way, of other elements, or 0 where they are infinite
  bool unsteady;        // other bits in every run, or by what its workspace held
  bool transforms;      // or is as one: a NaN reaches results that do not depend on it
  bool hardly_compiles; // takes more than 13 s where it is compiled at all, and hundreds of times as long to run
};

Defects defects_of(int64_t engine, const polyconv_layer &layer, Order order);

inline bool tolerated(const Defects &defects, const Rules &rules) {
  return !defects.wrong_sums && !defects.hardly_compiles && (!defects.unsteady || rules.nondeterministic) &&
         (!defects.transforms || rules.transforms);
}

} // namespace polyconv::cudnn
