// filter2d.cpp - cv::filter2D where it sums the taps directly.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/tensor.hpp>

#include <cinttypes>

#include "filter.hpp"

namespace polyconv::opencv {
namespace {

constexpr const char *kConfigs[] = {"plain"};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!takes_filter(request, offer)) return false;
  const int64_t taps = sdk::taps(*request.layers[0]);
  return taps <= kDirectTaps || offer.reject("sums up to %" PRId64 " taps, not %" PRId64, kDirectTaps, taps);
}

} // namespace

extern const sdk::Kernel kernel_filter2d;
const sdk::Kernel kernel_filter2d = {"filter2d", 0, kConfigs, 1, supports, make_filter};

} // namespace polyconv::opencv
