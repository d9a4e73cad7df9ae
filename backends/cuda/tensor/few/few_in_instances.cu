// few_in_instances.cu - the instances of cuda-tensor/few_in.
// SPDX-License-Identifier: Apache-2.0
#include "few/few_in.cuh"

namespace polyconv::cuda::few_in {
namespace {

// Steps of depth, tiles of filters: as many as registers hold.
#define POLYCONV_FEW_IN(T, type)                                                                               \
  variant<T, type, 3, 1>(), variant<T, type, 3, 2>(), variant<T, type, 3, 4>(), variant<T, type, 5, 4>(),      \
      variant<T, type, 7, 1>(), variant<T, type, 7, 2>(), variant<T, type, 9, 2>(), variant<T, type, 13, 1>(), \
      variant<T, type, 13, 2>(), variant<T, type, 21, 1>()

const Variant kVariants[] = {POLYCONV_FEW_IN(__half, POLYCONV_F16),
                             POLYCONV_FEW_IN(__nv_bfloat16, POLYCONV_BF16),
                             variant<float, POLYCONV_F32, 3, 4>(),
                             variant<float, POLYCONV_F32, 5, 4>(),
                             variant<float, POLYCONV_F32, 7, 2>(),
                             variant<float, POLYCONV_F32, 9, 2>(),
                             variant<float, POLYCONV_F32, 13, 2>(),
                             variant<float, POLYCONV_F32, 21, 1>(),
                             emulated_variant<3, 2>(),
                             emulated_variant<5, 1>()};

} // namespace

Variants variants() {
  return {kVariants, sizeof kVariants / sizeof *kVariants};
}

} // namespace polyconv::cuda::few_in
