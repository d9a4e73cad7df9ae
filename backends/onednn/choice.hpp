// choice.hpp - which way to run a layer: oneDNN's own first choice, or the fastest of all where there is time to
// measure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "way.hpp"

namespace polyconv::onednn {

// Whose order the activations are in while oneDNN works.
enum class Layout {
  Auto,  // either: measured where there is time, else Plain where the caller's channels come last
  Plain, // the caller's
  Any    // the implementation's, with reorders in every run where that is another one
};

// What a way may take; a request's offer has promised it.
struct Limits {
  int64_t workspace_bytes, packed_bytes;
};

struct Choice {
  std::shared_ptr<const Way> way;
  double us, reorders_us; // 0 where nothing was measured
  int measured;           // ways, of which it was the fastest
  bool cut_short;         // there was no time for all
};

// Whether implementations let a NaN reach results that do not read it: pairs of summed channels take in a neighbour.
bool spreads_nan(const polyconv_layer &layer);

// Throws sdk::Error(UNSUPPORTED) where oneDNN has no implementation within the limits. policy.tuning_ms is the time to
// measure in, on memory that is freed again.
Choice choose(const polyconv_layer &layer, Layout layout, const Limits &limits, const polyconv_policy &policy);

} // namespace polyconv::onednn
