// convolution.hpp - one layer as oneDNN's convolution, and the implementations that oneDNN has for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tensors.hpp"

namespace polyconv::onednn {

// One implementation, described but not made.
struct Implementation {
  PrimitiveDesc description;
  std::string name; // as oneDNN calls it: "brgconv:avx512_core"

  // How it wants a tensor; `which` is dnnl_query_src_md and its like.
  const_dnnl_memory_desc_t wants(dnnl_query_t which, int index = 0) const {
    return library().primitive_desc_query_md(description.get(), which, index);
  }
};

// What every primitive here is made with: its scratch memory comes from us. `layer` (may be NULL) brings an activation.
Attributes attributes(const polyconv_layer *layer);

// In oneDNN's own order of preference, for the orders of input and output; none where there is none.
// Sums and products are those of the types: no Winograd, no f32 products rounded to anything less.
std::vector<Implementation> implementations(const polyconv_layer &layer, Order input, Order output);

} // namespace polyconv::onednn
