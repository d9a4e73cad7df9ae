// taps_f16.cu - depthwise layers tap by tap, f16.
// SPDX-License-Identifier: Apache-2.0
#include "taps/taps.cuh"

namespace polyconv::cuda::shared {

TapsLaunch find_taps_f16(int channels, bool plain) {
  return find_taps<__half>(channels, plain);
}

} // namespace polyconv::cuda::shared
