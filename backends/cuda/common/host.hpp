// host.hpp - what the host side of nearly every kernel uses: questions to a layer, the choice of a config, numbers and
// types, the instance that a plan keeps, its launch, and the definition of the kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/device/launch.hpp"
#include "common/instance.hpp"
#include "common/kernel.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "common/types.hpp"
