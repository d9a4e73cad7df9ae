// staged.cu - filters of 1 x 1 to 7 x 7, through shared memory.
// SPDX-License-Identifier: Apache-2.0
#include "march.cuh"

namespace polyconv::cuda::shuffle {

LaunchFunction find_staged(int64_t n, int32_t type) {
  switch (n) {
    case 1: return by_type<1, 1, Results::kAll>(type);
    case 2: return by_type<2, 1, Results::kAll>(type);
    case 3: return by_type<3, 1, Results::kAll>(type);
    case 4: return by_type<4, 1, Results::kAll>(type);
    case 5: return by_type<5, 1, Results::kAll>(type);
    case 6: return by_type<6, 1, Results::kAll>(type);
    case 7: return by_type<7, 1, Results::kAll>(type);
    default: return nullptr;
  }
}

} // namespace polyconv::cuda::shuffle
