// depthwise_planes_data.cu - the gradient of data of depthwise layers, channels first, tap by tap, at any stride
// (depthwise_planes.cu).
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "taps/planes.hpp"

namespace polyconv::cuda {
namespace {

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  return shared::supports_planes(POLYCONV_BACKWARD_DATA, request, config, offer);
}

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_planes_data, shared::kPlaneNames, supports, shared::create_planes);

} // namespace polyconv::cuda
