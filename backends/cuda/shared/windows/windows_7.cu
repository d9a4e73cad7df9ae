// windows_7.cu - cuda-shared/windows_data for filters of 7x7.
// SPDX-License-Identifier: Apache-2.0
#include "windows/windows.cuh"

namespace polyconv::cuda::shared {

POLYCONV_SHARED_WINDOWS(7)

} // namespace polyconv::cuda::shared
