// plan.hpp - the geometry of large filters over planes by FFT, decided at plan time and read by every pass.
//
// The plane is cut into squares of results; each takes a tile of `size` x `size` inputs, larger by the filter less one,
// whose transform is multiplied by the filter's and transformed back; results that wrapped around are dropped
// (overlap-save). The filter is real, so two tiles are one complex transform: one its real part, the other its
// imaginary part.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/axis.hpp"
#include "cpu/common/epilogue.hpp"
#include "cpu/common/grid.hpp"

namespace polyconv::cpu {

struct FftPlan {
  polyconv_tensor input;
  Epilogue epilogue;
  Axis axis[3];
  double pad_value;
  const float *roots; // cos and -sin of 2 pi i / size, i < size, as pairs

  int64_t size, log2, step;  // of a tile; results of a tile along each axis
  int64_t pitch, square;     // elements between rows, so that a column's do not share cache sets; of a part of a tile
  int64_t channels, filters; // planes of an image, filters of a plane
  int64_t planes;            // of the batch
  int64_t rows, columns;     // tiles of a plane
  int64_t pairs;             // pairs of tiles of the batch, each of one plane
  int64_t tasks, scratch_bytes;
  double estimate_us;
};

POLYCONV_ISA_FUNCTION(void, fft_task, const FftPlan &plan, const LayerRun &run, const ItemShare &share)
// The spectrum, in place, of a filter whose real parts are the first half of `spectrum`.
POLYCONV_ISA_FUNCTION(void, fft_spectrum, const FftPlan &plan, float *spectrum)

} // namespace polyconv::cpu
