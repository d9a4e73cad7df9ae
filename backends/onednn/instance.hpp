// instance.hpp - which layers oneDNN takes, and a plan's part of one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <polyconv/sdk/kernel.hpp>

#include "choice.hpp"

namespace polyconv::onednn {

bool supports(const polyconv_request &request, sdk::Offer &offer);

// Chooses a way (choice.hpp) and keeps it. `config` names it in the log.
std::unique_ptr<sdk::Instance> make_instance(const polyconv_request &request, Layout layout, const char *config);

} // namespace polyconv::onednn
