// sheet.cu - the forms of cuda-tensor/banded that take sheets: several filters, channels first.
// SPDX-License-Identifier: Apache-2.0
#include "banded/sheet.cuh"

namespace polyconv::cuda::banded {
namespace {

// taps, step, rows, planes, words, tiles, pixels
using One3 = FormType<3, 1, 2, 1, 1, 2, false>;
using One5 = FormType<5, 1, 2, 1, 1, 2, false>;
using One7 = FormType<7, 1, 2, 1, 1, 1, false>;
using Three7 = FormType<7, 1, 2, 1, 1, 3, false>;
using Planes3 = FormType<3, 1, 1, 4, 1, 1, false>;
using Planes7 = FormType<7, 1, 1, 4, 1, 1, false>;

#define POLYCONV_BANDED(F)                                                            \
  sheet_variant<__half, F>(Way::kSheet), sheet_variant<__half, F>(Way::kSheetSingly), \
      sheet_variant<__nv_bfloat16, F>(Way::kSheet), sheet_variant<__nv_bfloat16, F>(Way::kSheetSingly)

const Variant kVariants[] = {POLYCONV_BANDED(One3),   POLYCONV_BANDED(One5),    POLYCONV_BANDED(One7),
                             POLYCONV_BANDED(Three7), POLYCONV_BANDED(Planes3), POLYCONV_BANDED(Planes7)};

} // namespace

Variants sheet_variants() {
  return {kVariants, sizeof kVariants / sizeof kVariants[0]};
}

} // namespace polyconv::cuda::banded
