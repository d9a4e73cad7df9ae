// zero_points.cuh - the zero points of weights as a kernel argument: one for all, or one for each channel of the
// result.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"

namespace polyconv::cuda::direct {

class WeightsZeroPoints {
 public:
  WeightsZeroPoints(const polyconv_layer &l, const polyconv_arguments &a)
      : of_channels_((l.traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS) != 0 ? a.weights_zero_point[0] : nullptr),
        type_(l.weights.type),
        of_all_(l.weights_zero_point) {}

  __device__ int32_t of(int64_t channel) const {
    if (!of_channels_) return of_all_;
    return type_ == POLYCONV_S8 ? static_cast<const int8_t *>(of_channels_)[channel]
                                : static_cast<const uint8_t *>(of_channels_)[channel];
  }

 private:
  const void *of_channels_; // of the weights' type; NULL where of_all_ holds
  int32_t type_, of_all_;
};

} // namespace polyconv::cuda::direct
