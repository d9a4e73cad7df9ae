// key.hpp - what a choice of an engine depends on, as the text by which a file of kept choices is searched (kept.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph.hpp"

namespace polyconv::cudnn {

// The GPU, cuDNN's version, the rules, the limit of workspace and the layer.
std::string key_of(const polyconv_layer &layer, const Rules &rules, int64_t workspace_limit, int device);

} // namespace polyconv::cudnn
