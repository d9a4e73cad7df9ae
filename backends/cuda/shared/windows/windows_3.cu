// windows_3.cu - cuda-shared/windows_data for filters of 3x3.
// SPDX-License-Identifier: Apache-2.0
#include "windows/windows.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_WINDOWS(3)

} // namespace polyconv::cuda::shared
