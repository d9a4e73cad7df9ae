// plan.hpp - the host's side of cuda-tensor/octets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "octets/octets.hpp"

namespace polyconv::cuda::octets {

// Configs: the output rows that a block takes, at least: its share of all, if that is more.
inline constexpr int kConfigCount = 4;
inline constexpr int kLeastRows[kConfigCount] = {8, 16, 32, 64};
inline constexpr const char *kConfigNames[kConfigCount] = {"rows8", "rows16", "rows32", "rows64"};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::octets
