// large.cu - filters of 8 x 8 to 15 x 15, either way.
// SPDX-License-Identifier: Apache-2.0
#include "march.cuh"

namespace polyconv::cuda::shuffle {

LaunchFunction find_large(int64_t n, int32_t type) {
  switch (n) {
    case 8: return by_type<8, 1, Results::kAll>(type);
    case 9: return by_type<9, 1, Results::kAll>(type);
    case 10: return by_type<10, 1, Results::kAll>(type);
    case 11: return by_type<11, 1, Results::kAll>(type);
    case 12: return by_type<12, 1, Results::kAll>(type);
    case 13: return by_type<13, 1, Results::kAll>(type);
    case 14: return by_type<14, 1, Results::kAll>(type);
    case 15: return by_type<15, 1, Results::kAll>(type);
    default: return nullptr;
  }
}

} // namespace polyconv::cuda::shuffle
