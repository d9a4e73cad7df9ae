// instance.hpp - what both kernels of this backend share: which problems they take, and the plan's part of one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <polyconv/sdk/kernel.hpp>

#include "graph.hpp"

namespace polyconv::cudnn {

// Every direction, zero padding, floats, nothing after the sums. Fills the offer for a kernel that works in math mode
// `math`.
bool supports(const polyconv_request &request, int32_t math, sdk::Offer &offer);

// Chooses an engine under the rules (choice.hpp) and keeps it. `kernel` names the kernel in the log.
std::unique_ptr<sdk::Instance> make_instance(const polyconv_request &request, const Rules &rules, const char *kernel);

inline constexpr const char *kConfigs[] = {"auto"};

} // namespace polyconv::cudnn
