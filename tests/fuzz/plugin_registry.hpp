// plugin_registry.hpp - the one backend that the library sees while an input is tried; NULL between inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "registry/registry.hpp"

namespace polyconv_fuzz {

extern const polyconv::Backend *listed;

} // namespace polyconv_fuzz
