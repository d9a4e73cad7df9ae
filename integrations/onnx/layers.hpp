// layers.hpp - the convolutions of a graph as the layers of polyconv_onnx_reader.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_LAYERS_HPP
#define POLYCONV_ONNX_LAYERS_HPP

#include <deque>
#include <memory>

#include "polyconv_onnx_reader.h"
#include "shapes.hpp"

namespace polyconv_onnx {

struct Layer { // what a polyconv_onnx_layer points to
  std::string name, within, operation, reason, input, output, residual;
  std::vector<char> weights, bias, weights_zero_point;
  std::vector<float> scale;
  polyconv_onnx_layer shown = {};
};

// Reads all layers; `sizes` are those that the caller gives. Throws Malformed, and std::invalid_argument for a size
// that cannot be.
std::deque<Layer> read_layers(Graph &, const polyconv_onnx_size *sizes, int32_t count);

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_LAYERS_HPP
