// windows_5.cu - cuda-shared/windows_data for filters of 5x5.
// SPDX-License-Identifier: Apache-2.0
#include "windows/windows.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_WINDOWS(5)

} // namespace polyconv::cuda::shared
