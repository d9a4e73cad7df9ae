// bare_launch.hpp - one launch of a kernel that does nothing, with 256 or 4000 bytes of parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

void launch_bare(bool large_parameters, cudaStream_t stream);
