// chain.hpp - the kernels of chain.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

#include <vector>

namespace faulty {

// "chain_correct", and "chain_<defect>" for each defect.
extern const std::vector<const polyconv::sdk::Kernel *> chains;

} // namespace faulty
