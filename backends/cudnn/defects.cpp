// defects.cpp - see defects.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "defects.hpp"

#include <algorithm>
#include <polyconv/sdk/formula.hpp>

namespace polyconv::cudnn {

Defects defects_of(int64_t engine, const polyconv_layer &l, Order order) {
  constexpr int64_t kUnrolled = 32; // channels of a group
  const bool half = l.input.type == POLYCONV_F16 || l.input.type == POLYCONV_BF16;
  const bool forward = l.direction == POLYCONV_FORWARD, data = l.direction == POLYCONV_BACKWARD_DATA;
  const bool weights = l.direction == POLYCONV_BACKWARD_WEIGHTS;
  const bool strided = sdk::formula_stride(l, 0) > 1 || sdk::formula_stride(l, 1) > 1 || sdk::formula_stride(l, 2) > 1;
  const bool uneven = !std::equal(l.pad_begin, l.pad_begin + 3, l.pad_end);
  Defects found = {};
  found.wrong_sums =
      (engine == 2 && data && half) || (engine == 1 && weights && uneven) || (engine == 47 && forward && half);
  found.unsteady = engine == 50 && data && uneven;
  found.transforms = (engine == 17 && weights) || (engine == 19 && weights && half) ||
                     ((engine == 40 || engine == 43 || engine == 57) && data && strided) ||
                     (engine == 72 && forward && order == Order::ChannelsFirst);
  found.hardly_compiles = engine == 80 && l.weights.size[1] > kUnrolled;
  return found;
}

} // namespace polyconv::cudnn
