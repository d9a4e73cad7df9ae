// windows_4.cu - cuda-shared/windows_data for filters of 4x4.
// SPDX-License-Identifier: Apache-2.0
#include "windows/windows.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_WINDOWS(4)

} // namespace polyconv::cuda::shared
