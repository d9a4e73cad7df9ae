// conv.cpp - oneDNN's direct convolutions, in the caller's layout or in their own with reorders before and after, which
// count. Weights are packed once. Floor: that of the problem; which implementation comes how near is oneDNN's matter.
// SPDX-License-Identifier: Apache-2.0
#include "instance.hpp"

namespace polyconv::onednn {
namespace {

constexpr const char *kConfigs[] = {"auto", "plain", "any"}; // as Layout's values

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  return onednn::supports(request, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return make_instance(request, static_cast<Layout>(config), kConfigs[config]);
}

} // namespace

extern const sdk::Kernel kernel_conv;
const sdk::Kernel kernel_conv = {"conv", POLYCONV_KERNEL_NEEDS_BIND | POLYCONV_KERNEL_VARIANT, kConfigs, 3, supports,
                                 create};

} // namespace polyconv::onednn
