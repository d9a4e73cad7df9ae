// filter2d_dft.cpp - cv::filter2D where it multiplies spectra.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/tensor.hpp>

#include <cinttypes>

#include "filter.hpp"

namespace polyconv::opencv {
namespace {

constexpr const char *kConfigs[] = {"plain"};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!takes_filter(request, offer)) return false;
  offer.math = POLYCONV_MATH_FAST;
  const int64_t taps = sdk::taps(*request.layers[0]);
  return taps > kDirectTaps || offer.reject("takes more than %" PRId64 " taps, not %" PRId64, kDirectTaps, taps);
}

} // namespace

extern const sdk::Kernel kernel_filter2d_dft;
const sdk::Kernel kernel_filter2d_dft = {"filter2d_dft", POLYCONV_KERNEL_TRANSFORM, kConfigs, 1, supports, make_filter};

} // namespace polyconv::opencv
