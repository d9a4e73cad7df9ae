// taps_f32.cu - depthwise layers tap by tap, f32.
// SPDX-License-Identifier: Apache-2.0
#include "taps/taps.cuh"

namespace polyconv::cuda::shared {

TapsLaunch find_taps_f32(int channels, bool plain) {
  return find_taps<float>(channels, plain);
}

} // namespace polyconv::cuda::shared
