// geometry.hpp - ONNX's sizes and padding in polyconv's terms.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_GEOMETRY_HPP
#define POLYCONV_ONNX_GEOMETRY_HPP

#include <polyconv/polyconv.hpp>

#include <string>
#include <vector>

namespace polyconv_onnx {

// The attributes of a convolution, each of one number an axis (pads: two).
struct Geometry {
  bool transposed = false;
  int64_t groups = 1;
  std::vector<int64_t> strides, dilations, pads, output_padding, output_shape;
  std::string auto_pad = "NOTSET";
};

struct Window { // of a pooling that follows
  int32_t kind = POLYCONV_POOL_NONE;
  std::vector<int64_t> size, strides, dilations, pads;
  bool ceil = false, count_include_pad = false;
};

// Reads a node's attributes, of a convolution whose weights have this rank; `transposed` is set already. Returns why
// it cannot be one, "" where it can. A node is whatever has `attribute(name, value where it is absent)`.
template <class Node>
std::string read_geometry(const Node &node, size_t rank, Geometry &geometry) {
  if (rank < 3 || rank > 5) return "its weights do not say that there are 1 to 3 spatial axes";
  const size_t axes = rank - 2;
  geometry.groups = node.attribute("group", int64_t{1});
  if (geometry.groups < 1) return "its group is " + std::to_string(geometry.groups) + ", expected at least 1";
  geometry.strides = node.attribute("strides", std::vector<int64_t>(axes, 1));
  geometry.dilations = node.attribute("dilations", std::vector<int64_t>(axes, 1));
  geometry.pads = node.attribute("pads", std::vector<int64_t>(2 * axes, 0));
  geometry.auto_pad = node.attribute("auto_pad", std::string("NOTSET"));
  if (geometry.transposed) {
    std::vector<int64_t> &shape = geometry.output_shape;
    geometry.output_padding = node.attribute("output_padding", std::vector<int64_t>(axes, 0));
    shape = node.attribute("output_shape", std::vector<int64_t>());
    if (shape.size() == axes + 2) shape.erase(shape.begin(), shape.begin() + 2);
    if (geometry.output_padding.size() != axes || (!shape.empty() && shape.size() != axes))
      return "output_padding or output_shape has another number of axes than the weights";
  }
  if (geometry.strides.size() != axes || geometry.dilations.size() != axes || geometry.pads.size() != 2 * axes)
    return "strides, dilations or pads have another number of axes than the weights";
  return "";
}

// The convolution over an input of these sizes with weights of these: everything but types, epilogue and zero points.
// Throws std::invalid_argument where the tensors do not fit each other.
polyconv::Problem convolution(const Geometry &, const std::vector<int64_t> &input, const std::vector<int64_t> &weights);

// The pooling that follows, into the epilogue.
void add_pool(const Window &, polyconv::Problem &);

// The sizes of the result, batch and channels first.
std::vector<int64_t> output_sizes(const polyconv::Problem &);

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_GEOMETRY_HPP
