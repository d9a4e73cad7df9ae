// instances.cu - the instances of cuda-tensor/octets.
// SPDX-License-Identifier: Apache-2.0
#include "octets/octets.cuh"

namespace polyconv::cuda::octets {
namespace {

#define POLYCONV_OCTETS(T)                                                                               \
  variant<T, 1, 8>(), variant<T, 2, 8>(), variant<T, 1, 14>(), variant<T, 2, 14>(), variant<T, 1, 17>(), \
      variant<T, 2, 17>()

const Variant kVariants[] = {POLYCONV_OCTETS(__half), POLYCONV_OCTETS(__nv_bfloat16)};

} // namespace

Variants variants() {
  return {kVariants, sizeof kVariants / sizeof kVariants[0]};
}

} // namespace polyconv::cuda::octets
