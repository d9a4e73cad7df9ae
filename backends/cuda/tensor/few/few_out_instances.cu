// few_out_instances.cu - the instances of cuda-tensor/few_out.
// SPDX-License-Identifier: Apache-2.0
#include "few/few_out.cuh"

namespace polyconv::cuda::few_out {
namespace {

#define POLYCONV_FEW_OUT_TILES(T, type, tiles) variant<T, type, tiles, true>(), variant<T, type, tiles, false>()
#define POLYCONV_FEW_OUT(T, type)                                                                             \
  POLYCONV_FEW_OUT_TILES(T, type, 1), POLYCONV_FEW_OUT_TILES(T, type, 2), POLYCONV_FEW_OUT_TILES(T, type, 3), \
      POLYCONV_FEW_OUT_TILES(T, type, 4), POLYCONV_FEW_OUT_TILES(T, type, 6)

const Variant kVariants[] = {POLYCONV_FEW_OUT(__half, POLYCONV_F16), POLYCONV_FEW_OUT(__nv_bfloat16, POLYCONV_BF16),
                             POLYCONV_FEW_OUT(float, POLYCONV_F32)};

} // namespace

Variants variants() {
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

} // namespace polyconv::cuda::few_out
