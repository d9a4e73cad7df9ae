// shapes.hpp - the sizes of the tensors of a graph, as far as convolutions need them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_SHAPES_HPP
#define POLYCONV_ONNX_SHAPES_HPP

#include <optional>

#include "geometry.hpp"
#include "scope.hpp"

namespace polyconv_onnx {

// The sizes of a node's first output, from its inputs' and its constants; nothing where they are unknown or the
// operator is not one of those that stand between convolutions. Throws Malformed where the file contradicts itself.
std::optional<Sizes> output_shape(const Scope &, const Node &);

// The geometry of a convolution; `reason` is filled where the node has none.
Geometry geometry_of(const Node &, size_t rank, std::string &reason);

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_SHAPES_HPP
