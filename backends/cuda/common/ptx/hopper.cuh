// hopper.cuh - all instructions of compute capability 9.0 that a block needs for itself. Only for code of 90a;
// cluster.cuh has those between blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/barrier.cuh"
#include "common/ptx/grid.cuh"
#include "common/ptx/mma.cuh"
#include "common/ptx/numbers.cuh"
#include "common/ptx/shared.cuh"
#include "common/ptx/tma.cuh"
#include "common/ptx/wgmma.cuh"
