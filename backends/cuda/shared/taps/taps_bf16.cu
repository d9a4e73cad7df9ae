// taps_bf16.cu - depthwise layers tap by tap, bf16.
// SPDX-License-Identifier: Apache-2.0
#include "taps/taps.cuh"

namespace polyconv::cuda::shared {

TapsLaunch find_taps_bf16(int channels, bool plain) {
  return find_taps<__nv_bfloat16>(channels, plain);
}

} // namespace polyconv::cuda::shared
