// depthwise_taps_data.cu - the gradient of data of depthwise layers, channels last, tap by tap, at any stride
// (depthwise_taps.cu).
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "taps/taps.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return shared::supports_taps(POLYCONV_BACKWARD_DATA, request, config, offer);
}

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_taps_data, shared::kTapNames, supports, shared::create_taps);

} // namespace polyconv::cuda
