// layout.cuh - packed weights as the instruction's first operand, 16 filters x 16 of the depth twice: a lane's eight
// values of each lie side by side, so that a warp reads them as they are in 16 bytes a lane.
//
// The depth within a block of 32 is dealt out so that a lane's part of x, the second operand of both, is eight
// neighbours too: lane % 4 has depths 8 (lane % 4) on, of which each product takes four.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::cuda::tensor {

struct VectorOperand {
  // Element i: of product i / 256, lane i / 8 % 32; registers of two values, those of filters 0 to 7 and 8 to 15 in
  // turn.
  __device__ static int32_t filter(int32_t i) { return i / 8 % 32 / 4 + i / 2 % 2 * 8; }
  __device__ static int32_t depth(int32_t i) { return i / 8 % 4 * 8 + i / 256 * 4 + i / 4 % 2 * 2 + i % 2; }
};

} // namespace polyconv::cuda::tensor
