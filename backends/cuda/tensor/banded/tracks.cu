// tracks.cu - the instances of cuda-tensor/banded that take tracks: up to 16 channels, compute capability 9.0.
// SPDX-License-Identifier: Apache-2.0
#include "banded/tracks.cuh"

namespace polyconv::cuda::banded {
namespace {

// Products of a part of a row of taps, filters of a group, parts.
#define POLYCONV_TRACKS(T)                                                                      \
  track_variant<T, 2, 16, 1>(), track_variant<T, 2, 24, 1>(), track_variant<T, 4, 16, 1>(),     \
      track_variant<T, 4, 24, 1>(), track_variant<T, 6, 16, 1>(), track_variant<T, 6, 24, 1>(), \
      track_variant<T, 4, 24, 2>()

const Variant kVariants[] = {POLYCONV_TRACKS(__half),          POLYCONV_TRACKS(__nv_bfloat16),
                             track_variant<float, 2, 24, 1>(), track_variant<float, 4, 24, 1>(),
                             track_variant<float, 6, 24, 1>(), track_variant<float, 4, 24, 2>(),
                             track_variant<float, 6, 24, 2>()};

} // namespace

Variants track_variants() {
  return {kVariants, sizeof kVariants / sizeof kVariants[0]};
}

} // namespace polyconv::cuda::banded
