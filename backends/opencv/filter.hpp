// filter.hpp - one image filter by cv::filter2D.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::opencv {

// Up to this many taps filter2D sums directly, beyond it multiplies spectra (OpenCV's dft_filter_size with SSE3).
inline constexpr int64_t kDirectTaps = 129;

// Whether filter2D computes this layer, the number of taps left aside.
bool takes_filter(const polyconv_request &request, sdk::Offer &offer);

std::unique_ptr<sdk::Instance> make_filter(const polyconv_request &request, int32_t config);

} // namespace polyconv::opencv
