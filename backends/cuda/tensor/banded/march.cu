// march.cu - the forms of cuda-tensor/banded that march.
// SPDX-License-Identifier: Apache-2.0
#include "banded/march.cuh"

namespace polyconv::cuda::banded {
namespace {

// taps, step, rows, planes, words, tiles, pixels
using Image3 = FormType<3, 1, 2, 1, 2, 1, false>;
using Image7 = FormType<7, 1, 2, 1, 2, 1, false>;
using Pixels7 = FormType<7, 2, 1, 1, 4, 2, true>;
using Pixels3 = FormType<3, 2, 1, 1, 2, 4, true>;

#define POLYCONV_BANDED(F)                                                            \
  march_variant<__half, F>(Way::kMarch), march_variant<__half, F>(Way::kMarchSingly), \
      march_variant<__nv_bfloat16, F>(Way::kMarch), march_variant<__nv_bfloat16, F>(Way::kMarchSingly)

const Variant kVariants[] = {POLYCONV_BANDED(Image3), POLYCONV_BANDED(Image7), POLYCONV_BANDED(Pixels7),
                             POLYCONV_BANDED(Pixels3)};

} // namespace

Variants march_variants() {
  return {kVariants, sizeof kVariants / sizeof kVariants[0]};
}

} // namespace polyconv::cuda::banded
