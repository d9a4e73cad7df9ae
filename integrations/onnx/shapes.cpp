// shapes.cpp - shape inference for what stands between convolutions. Operators that are not here have the shape that
// the file tells, where it does.
//
// Source: ONNX's operator documentation.
//
// SPDX-License-Identifier: Apache-2.0
#include "shapes.hpp"

#include <algorithm>
#include <cmath>

namespace polyconv_onnx {
namespace {

using Shape = std::optional<Sizes>;

constexpr int64_t kMost = POLYCONV_MAX_ELEMENTS; // of a size, which keeps sums and products of two inside 64 bits

const std::set<std::string> &unary() {
  static const std::set<std::string> types = {"Relu",
                                              "Clip",
                                              "LeakyRelu",
                                              "Elu",
                                              "Selu",
                                              "Celu",
                                              "Sigmoid",
                                              "HardSigmoid",
                                              "HardSwish",
                                              "Tanh",
                                              "Gelu",
                                              "Mish",
                                              "Softplus",
                                              "Erf",
                                              "Exp",
                                              "Sqrt",
                                              "Abs",
                                              "Neg",
                                              "Identity",
                                              "Dropout",
                                              "Softmax",
                                              "Cast",
                                              "ThresholdedRelu",
                                              "Softsign",
                                              "InstanceNormalization",
                                              "LRN",
                                              "Floor",
                                              "Ceil",
                                              "Round",
                                              "Reciprocal",
                                              "Log",
                                              "BatchNormalization",
                                              "LogSoftmax",
                                              "Swish",
                                              "com.microsoft:Gelu",
                                              "com.microsoft:QuickGelu",
                                              "LayerNormalization",
                                              "QuantizeLinear",
                                              "DequantizeLinear",
                                              "GroupNormalization"};
  return types;
}

const std::set<std::string> &elementwise() {
  static const std::set<std::string> types = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean", "PRelu"};
  return types;
}

class Inference {
 public:
  Inference(const Scope &scope, const Node &node) : scope_(scope), node_(node) {}

  Shape infer() const {
    const std::string &type = node_.type;
    if (type == "Conv" || type == "ConvTranspose" || type == "ConvInteger" || type == "com.microsoft:FusedConv")
      return convolved(1);
    if (type == "QLinearConv") return convolved(3);
    if (unary().count(type)) return shape(0);
    if (elementwise().count(type)) return broadcast();
    if (type == "MaxPool" || type == "AveragePool" || type == "LpPool") return pooled();
    if (type == "GlobalAveragePool" || type == "GlobalMaxPool") return pooled_globally();
    if (type == "Concat") return joined();
    if (type == "Pad") return padded();
    if (type == "Resize" || type == "Upsample") return resized();
    if (type == "Transpose") return transposed();
    if (type == "Reshape") return reshaped();
    if (type == "Unsqueeze") return unsqueezed();
    if (type == "Squeeze") return squeezed();
    if (type == "Slice") return sliced();
    if (type == "SpaceToDepth" || type == "DepthToSpace") return folded(type == "SpaceToDepth");
    return {};
  }

 private:
  Shape shape(size_t input) const {
    const Sizes *found = scope_.shape(node_.input(input));
    if (!found) return {};
    return *found;
  }

  // A constant operand; nothing where it is none, or its data are elsewhere.
  std::optional<std::vector<double>> constant(size_t input) const {
    const Tensor *found = scope_.constant(node_.input(input));
    if (!found || !found->present()) return {};
    return found->values();
  }

  // Those too large for a size have none of theirs, or become as large as sizes are.
  std::optional<Sizes> integers(size_t input, bool clamped = false) const {
    const auto values = constant(input);
    if (!values) return {};
    Sizes result;
    for (double value : *values) {
      const auto most = static_cast<double>(kMost);
      if (std::isnan(value) || (!clamped && std::fabs(value) > most)) return {};
      result.push_back(static_cast<int64_t>(std::clamp(value, -most, most)));
    }
    return result;
  }

  Shape convolved(size_t weights_input) const {
    const Shape input = shape(0), weights = shape(weights_input);
    if (!input || !weights) return {};
    std::string reason;
    const Geometry geometry = geometry_of(node_, weights->size(), reason);
    if (!reason.empty()) return {};
    try {
      return output_sizes(convolution(geometry, *input, *weights));
    } catch (const std::runtime_error &) { // polyconv's sentence: layers.cpp tells it of this node
      return {};
    } catch (const std::invalid_argument &) {
      return {};
    }
  }

  Shape broadcast() const {
    Sizes result;
    for (size_t i = 0; i < node_.inputs.size(); ++i) {
      const Shape next = shape(i);
      if (!next) return {};
      if (next->size() > result.size()) result.insert(result.begin(), next->size() - result.size(), 1);
      const size_t before = result.size() - next->size();
      for (size_t k = 0; k < next->size(); ++k) {
        int64_t &size = result[before + k];
        if (size != (*next)[k] && size != 1 && (*next)[k] != 1) return {};
        if (size == 1) size = (*next)[k];
      }
    }
    return result;
  }

  Shape pooled() const {
    Shape result = shape(0);
    if (!result || result->size() < 3) return {};
    const size_t axes = result->size() - 2;
    const Sizes window = node_.attribute("kernel_shape", Sizes()), ones(axes, 1), none(2 * axes, 0);
    const Sizes stride = node_.attribute("strides", ones), dilation = node_.attribute("dilations", ones);
    const Sizes pads = node_.attribute("pads", none);
    const std::string automatic = node_.attribute("auto_pad", std::string("NOTSET"));
    const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
    const bool ceil = node_.attribute("ceil_mode", int64_t{0}) != 0;
    if (window.size() != axes || stride.size() != axes || dilation.size() != axes || pads.size() != 2 * axes) return {};
    for (size_t i = 0; i < axes; ++i) {
      int64_t &size = (*result)[i + 2];
      for (int64_t number : {window[i], stride[i], dilation[i]})
        if (number < 1 || number > (INT64_C(1) << 24)) return {};
      if (std::max(std::abs(pads[i]), std::abs(pads[axes + i])) > (INT64_C(1) << 24)) return {};
      if (same) {
        size = (size + stride[i] - 1) / stride[i];
        continue;
      }
      const int64_t before = automatic == "NOTSET" ? pads[i] : 0, after = automatic == "NOTSET" ? pads[axes + i] : 0;
      const int64_t room = size + before + after - (dilation[i] * (window[i] - 1) + 1);
      if (room < 0) return {};
      const int64_t most = size + before; // where the last window may not begin
      size = (room + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
      if (ceil && (size - 1) * stride[i] >= most) --size;
    }
    return result;
  }

  Shape pooled_globally() const {
    Shape result = shape(0);
    if (result && result->size() >= 2) std::fill(result->begin() + 2, result->end(), 1);
    return result;
  }

  Shape joined() const {
    Shape result = shape(0);
    if (!result) return {};
    const auto rank = static_cast<int64_t>(result->size());
    int64_t axis = node_.attribute("axis", int64_t{0});
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {};
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      const Shape next = shape(i);
      if (!next || next->size() != result->size()) return {};
      (*result)[axis] += (*next)[axis];
      if ((*result)[axis] > kMost) return {};
    }
    return result;
  }

  Shape padded() const {
    Shape result = shape(0);
    const auto given = node_.inputs.size() > 1 ? integers(1) : node_.attribute("pads", Sizes());
    if (!result || !given || given->size() != 2 * result->size() || !node_.input(3).empty()) return {};
    for (size_t i = 0; i < result->size(); ++i) {
      int64_t &size = (*result)[i];
      const int64_t before = (*given)[i], after = (*given)[result->size() + i];
      if (std::max(std::abs(before), std::abs(after)) > kMost / 4) return {};
      size = std::max<int64_t>(0, size + before + after);
      if (size > kMost) return {};
    }
    return result;
  }

  Shape resized() const {
    const Shape input = shape(0);
    if (!input || node_.find("axes")) return {};
    const bool old = node_.type == "Upsample" || node_.inputs.size() == 2; // input, scales
    if (auto sizes = old ? std::nullopt : integers(3); sizes && sizes->size() == input->size()) return sizes;
    const auto scales = constant(old ? 1 : 2);
    if (!scales || scales->size() != input->size()) return {};
    Sizes result;
    for (size_t i = 0; i < input->size(); ++i) {
      const double size = std::floor(static_cast<double>((*input)[i]) * (*scales)[i]);
      if (!(size >= 0 && size <= static_cast<double>(kMost))) return {};
      result.push_back(static_cast<int64_t>(size));
    }
    return result;
  }

  Shape transposed() const {
    const Shape input = shape(0);
    if (!input) return {};
    Sizes order = node_.attribute("perm", Sizes());
    if (order.empty())
      for (size_t i = input->size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
    Sizes result;
    for (int64_t from : order) {
      if (from < 0 || from >= static_cast<int64_t>(input->size())) return {};
      result.push_back((*input)[from]);
    }
    return result;
  }

  Shape reshaped() const {
    const Shape input = shape(0);
    auto wanted = integers(1);
    if (!input || !wanted || node_.attribute("allowzero", int64_t{0})) return {};
    int64_t whole = product(*input), rest = 1, open = -1;
    for (size_t i = 0; i < wanted->size(); ++i) {
      int64_t &size = (*wanted)[i];
      if (size == 0) size = i < input->size() ? (*input)[i] : 0;
      if (size < -1 || (size == -1 && open >= 0)) return {};
      if (size == -1)
        open = static_cast<int64_t>(i);
      else if (size > 0 && rest > kMost / size)
        return {};
      else
        rest *= size;
    }
    if (open >= 0 && (whole < 0 || rest == 0 || whole % rest != 0)) return {};
    if (open >= 0) (*wanted)[open] = whole / rest;
    return wanted;
  }

  // The axes that a node names, in an operand or, in old models, an attribute.
  std::optional<Sizes> named_axes() const {
    return node_.inputs.size() > 1 ? integers(1) : node_.attribute("axes", Sizes());
  }

  // Likewise in order and each once, of so many; nothing where one is none of them.
  std::optional<std::set<int64_t>> axes(int64_t rank) const {
    const std::optional<Sizes> given = named_axes();
    if (!given) return {};
    std::set<int64_t> result;
    for (int64_t axis : *given)
      if (axis < -rank || axis >= rank || !result.insert(axis < 0 ? axis + rank : axis).second) return {};
    return result;
  }

  Shape unsqueezed() const {
    Shape result = shape(0);
    const std::optional<Sizes> named = named_axes();
    if (!result || !named) return {};
    const auto added = axes(static_cast<int64_t>(result->size() + named->size()));
    if (!added) return {};
    for (int64_t axis : *added) result->insert(result->begin() + axis, 1);
    return result;
  }

  Shape squeezed() const {
    const Shape input = shape(0);
    const bool all = node_.inputs.size() < 2 && !node_.find("axes");
    const auto gone = input ? axes(static_cast<int64_t>(input->size())) : std::nullopt;
    if (!gone) return {};
    Sizes result;
    for (size_t i = 0; i < input->size(); ++i) {
      const bool named = gone->count(static_cast<int64_t>(i)) != 0;
      if (named && (*input)[i] != 1) return {};
      if (!named && !(all && (*input)[i] == 1)) result.push_back((*input)[i]);
    }
    return result;
  }

  // Starts, ends, axes and steps are constants; numbers beyond all sizes mean the end.
  Shape sliced() const {
    Shape result = shape(0);
    if (!result || node_.inputs.size() < 3) return {};
    const auto begins = integers(1, true), ends = integers(2, true);
    if (!begins || !ends || begins->size() != ends->size()) return {};
    Sizes all, ones(begins->size(), 1);
    for (size_t i = 0; i < begins->size(); ++i) all.push_back(static_cast<int64_t>(i));
    const std::optional<Sizes> named = node_.input(3).empty() ? all : integers(3);
    const std::optional<Sizes> steps = node_.input(4).empty() ? ones : integers(4);
    if (!named || !steps || named->size() != begins->size() || steps->size() != begins->size()) return {};
    const auto rank = static_cast<int64_t>(result->size());
    for (size_t i = 0; i < begins->size(); ++i) {
      const int64_t axis = (*named)[i] < 0 ? (*named)[i] + rank : (*named)[i], step = (*steps)[i];
      if (axis < 0 || axis >= rank || step == 0) return {};
      int64_t &size = (*result)[axis];
      const int64_t first = step > 0 ? 0 : -1, last = step > 0 ? size : size - 1; // of an end; a begin is inside
      auto place = [&](int64_t at, int64_t least) {
        return std::clamp(at < 0 ? at + size : at, least, std::max(least, last));
      };
      const int64_t from = place((*begins)[i], 0), to = place((*ends)[i], first);
      size = std::max<int64_t>(0, step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step);
    }
    return result;
  }

  static int64_t product(const Sizes &sizes) { // -1 where it is too large
    int64_t result = 1;
    for (int64_t size : sizes) {
      if (size > 0 && result > kMost / size) return -1;
      result *= size;
    }
    return result;
  }

  Shape folded(bool deeper) const {
    Shape result = shape(0);
    const int64_t block = node_.attribute("blocksize", int64_t{0});
    if (!result || result->size() != 4 || block < 1 || block > 128) return {};
    Sizes &sizes = *result;
    if (deeper) {
      sizes[1] *= block * block, sizes[2] /= block, sizes[3] /= block;
    } else {
      sizes[1] /= block * block, sizes[2] *= block, sizes[3] *= block;
    }
    for (int64_t size : sizes)
      if (size > kMost) return {};
    return result;
  }

  const Scope &scope_;
  const Node &node_;
};

} // namespace

std::optional<Sizes> output_shape(const Scope &scope, const Node &node) {
  return Inference(scope, node).infer();
}

Geometry geometry_of(const Node &node, size_t rank, std::string &reason) {
  Geometry geometry;
  geometry.transposed = node.type == "ConvTranspose";
  reason = read_geometry(node, rank, geometry);
  return geometry;
}

} // namespace polyconv_onnx
