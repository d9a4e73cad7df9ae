// small.cu - filters of 1 x 1 to 7 x 7.
// SPDX-License-Identifier: Apache-2.0
#include "march.cuh"

namespace polyconv::cuda::shuffle {

LaunchFunction find_small(int64_t n, int32_t type) {
  switch (n) {
    case 1: return by_type<1>(type);
    case 2: return by_type<2>(type);
    case 3: return by_type<3>(type);
    case 4: return by_type<4>(type);
    case 5: return by_type<5>(type);
    case 6: return by_type<6>(type);
    case 7: return by_type<7>(type);
    default: return nullptr;
  }
}

} // namespace polyconv::cuda::shuffle
