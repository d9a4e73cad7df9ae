// lenet_instances.cu - instances of lenet.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "images/lenet.cuh"

namespace polyconv::cuda::lenet {

Kernel find(int32_t type) {
  return type == POLYCONV_F16 ? fuse_lenet<__half> : fuse_lenet<__nv_bfloat16>;
}

} // namespace polyconv::cuda::lenet
