// operators.cpp - finds elementwise operators, which follow each other in one pass over memory, means over all pixels,
// concatenations of channels, and enlargements by whole factors.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/operators.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

namespace polyconv_ort {

float constant_float(const Api &api, const Value &value, float absent) {
  if (!value) return absent;
  const OrtValue *tensor = value.constant();
  if (!tensor) return std::numeric_limits<float>::quiet_NaN();
  const Shape shape = shape_of(api, tensor);
  if (!is_float(shape.type) || elements_of(shape.sizes) != 1) return std::numeric_limits<float>::quiet_NaN();
  return float_at(shape.type, data_of(api, tensor), 0);
}

bool is_vector(const Api &api, const Value &value) {
  const OrtValue *tensor = value.constant();
  if (!tensor) return false;
  const Shape shape = shape_of(api, tensor);
  return is_float(shape.type) &&
         std::count_if(shape.sizes.begin(), shape.sizes.end(), [](int64_t size) { return size != 1; }) <= 1;
}

namespace {

constexpr int64_t kMostTimes = 1024; // a factor of an enlargement

class Reader {
 public:
  Reader(const Api &api, const std::vector<Node> &nodes, std::set<size_t> used, bool half)
      : api_(api), nodes_(nodes), used_(std::move(used)), half_(half) {
    for (size_t i = 0; i < nodes.size(); ++i) position_[nodes[i].id()] = i;
  }

  std::vector<Operator> read() {
    std::vector<Operator> result;
    for (const Node &node : nodes_) {
      if (!is_free(node) || node.outputs() != 1) continue;
      Operator made;
      if (!begin(made, node)) continue;
      made.nodes.push_back(node), made.output = node.output(0);
      if (rank(made.output) != rank(made.inputs[0])) continue;
      if (made.kind == Operator::Kind::kElementwise) follow(made);
      for (const Node &part : made.nodes) {
        used_.insert(part.id());
        made.text += (made.text.empty() ? "" : "+") + part.type();
      }
      result.push_back(std::move(made));
    }
    return result;
  }

 private:
  bool is_free(const Node &node) const { return used_.count(node.id()) == 0 && !node.is_taken(); }

  // How many axes a tensor has; 0: it is none that operators take.
  size_t rank(const Value &value) const {
    if (!value || value.constant()) return 0;
    const Shape shape = value.shape();
    const size_t axes = shape.sizes.size();
    const bool type = shape.type == kFloat || (half_ && shape.type == kHalf);
    return shape.ranked && type && axes >= 3 && axes <= 5 ? axes : 0;
  }

  bool begin(Operator &made, const Node &node) const {
    const Value first = node.input(0);
    if (node.type() == "GlobalAveragePool" || node.type() == "ReduceMean") {
      made.kind = Operator::Kind::kAverage, made.inputs = {first};
      return rank(first) != 0 && (node.type() == "GlobalAveragePool" || is_over_pixels(node));
    }
    if (node.type() == "Concat") return concat(made, node);
    if (node.type() == "Resize") return enlarge(made, node);
    for (const Value &start : {first, node.input(1)}) { // of a sum with a constant the other may come second
      if (rank(start) == 0) continue;
      made.inputs = {start}, made.stages.clear();
      if (stage(made, node, start, true)) return true;
    }
    return false;
  }

  // Whatever follows in the same pass: what one node alone reads, and nothing that would make the tensor larger.
  void follow(Operator &made) const {
    while (made.stages.size() < kMostStages && !made.output.is_output()) {
      const auto consumers = made.output.consumers();
      if (consumers.size() != 1) return;
      size_t id = 0;
      require(api_, api_.Node_GetId(consumers[0], &id));
      auto found = position_.find(id);
      if (found == position_.end()) return;
      const Node &node = nodes_[found->second];
      if (!is_free(node) || node.outputs() != 1 || rank(node.output(0)) != rank(made.output)) return;
      if (!stage(made, node, made.output, false)) return;
      made.nodes.push_back(node), made.output = node.output(0);
    }
  }

  // Adds what a node does to `value`. Another tensor may come in where the operator begins; later it must be one that
  // is there, so that no stage works on more numbers than it needs.
  bool stage(Operator &made, const Node &node, const Value &value, bool begins) const {
    const std::string &type = node.type(), ours = value.name();
    Stage added;
    if (node.input(0).name() == ours && unary(node, added)) {
      made.stages.push_back(added);
      return true;
    }
    static const std::map<std::string, Stage::Kind> kinds = {{"Add", Stage::Kind::kSum},
                                                             {"Sub", Stage::Kind::kDifference},
                                                             {"Mul", Stage::Kind::kProduct},
                                                             {"Div", Stage::Kind::kQuotient}};
    auto kind = kinds.find(type);
    if (kind == kinds.end()) return false;
    const bool first = node.input(0).name() == ours;
    if (!first && (type == "Sub" || type == "Div")) return false;
    const Value other = node.input(first ? 1 : 0);
    if (!other || (!begins && other.name() == ours)) return false;
    added.kind = kind->second;
    if (other.constant()) {
      if (!is_vector(api_, other) || shape_of(api_, other.constant()).sizes.size() > rank(value)) return false;
      added.constant = other;
    } else {
      auto known = std::find_if(made.inputs.begin(), made.inputs.end(),
                                [&](const Value &input) { return input.name() == other.name(); });
      if (known == made.inputs.end() && (!begins || rank(other) != rank(value))) return false;
      added.operand = static_cast<int>(known - made.inputs.begin());
      if (known == made.inputs.end()) made.inputs.push_back(other);
    }
    made.stages.push_back(added);
    return true;
  }

  bool unary(const Node &node, Stage &stage) const {
    const std::string &type = node.type();
    const float infinity = std::numeric_limits<float>::infinity();
    if (type == "Relu") {
      stage.kind = Stage::Kind::kClamp, stage.alpha = 0, stage.beta = infinity;
    } else if (type == "Clip") {
      stage.kind = Stage::Kind::kClamp;
      stage.alpha = constant_float(api_, node.input(1), node.attribute("min", -infinity));
      stage.beta = constant_float(api_, node.input(2), node.attribute("max", infinity));
      return !std::isnan(stage.alpha) && !std::isnan(stage.beta);
    } else if (type == "HardSigmoid") {
      stage.kind = Stage::Kind::kHardSigmoid;
      stage.alpha = node.attribute("alpha", 0.2f), stage.beta = node.attribute("beta", 0.5f);
    } else if (type == "HardSwish") {
      stage.kind = Stage::Kind::kHardSwish;
    } else if (type == "LeakyRelu") {
      stage.kind = Stage::Kind::kLeakyRelu, stage.alpha = node.attribute("alpha", 0.01f);
    } else {
      return false;
    }
    return true;
  }

  std::vector<int64_t> constant_ints(const Value &value) const {
    const OrtValue *tensor = value.constant();
    if (!tensor || shape_of(api_, tensor).type != kInt64 || shape_of(api_, tensor).sizes.size() != 1) return {};
    const auto *data = static_cast<const int64_t *>(data_of(api_, tensor));
    return {data, data + shape_of(api_, tensor).sizes[0]};
  }

  // A ReduceMean over all axes but batch and channels, which stay as axes of 1.
  bool is_over_pixels(const Node &node) const {
    if (node.attribute("keepdims", int64_t{1}) != 1) return false;
    std::vector<int64_t> axes =
        node.input(1) ? constant_ints(node.input(1)) : node.attribute("axes", std::vector<int64_t>());
    const auto all = static_cast<int64_t>(rank(node.input(0)));
    for (int64_t &axis : axes)
      if (axis < 0) axis += all;
    std::sort(axes.begin(), axes.end());
    if (static_cast<int64_t>(axes.size()) != all - 2) return false;
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != static_cast<int64_t>(i) + 2) return false;
    return true;
  }

  bool concat(Operator &made, const Node &node) const {
    made.kind = Operator::Kind::kConcat;
    for (size_t i = 0; node.input(i); ++i) made.inputs.push_back(node.input(i));
    const size_t axes = rank(node.input(0));
    const int64_t axis = node.attribute("axis", int64_t{0});
    return axes != 0 && (axis == 1 || axis == 1 - static_cast<int64_t>(axes)) &&
           std::all_of(made.inputs.begin(), made.inputs.end(), [&](const Value &input) { return rank(input) == axes; });
  }

  // A Resize that takes the nearest pixel, by whole factors, so that each pixel is repeated as often as its neighbours.
  bool enlarge(Operator &made, const Node &node) const {
    made.kind = Operator::Kind::kEnlarge, made.inputs = {node.input(0)};
    const size_t axes = rank(node.input(0));
    const std::string mode = node.attribute("mode", std::string("nearest"));
    const std::string places = node.attribute("coordinate_transformation_mode", std::string("half_pixel"));
    const std::string nearest = node.attribute("nearest_mode", std::string("round_prefer_floor"));
    const bool is_centred = (places == "half_pixel" || places == "pytorch_half_pixel") &&
                            (nearest == "round_prefer_floor" || nearest == "round_prefer_ceil");
    if (axes == 0 || mode != "nearest" || !(is_centred || (places == "asymmetric" && nearest == "floor"))) return false;
    if (node.input(3) || !node.attribute("axes", std::vector<int64_t>()).empty()) return false;
    const OrtValue *scales = node.input(2).constant();
    if (!scales) return false;
    const Shape shape = shape_of(api_, scales);
    if (shape.type != kFloat || shape.sizes.size() != 1 || shape.sizes[0] != static_cast<int64_t>(axes)) return false;
    const auto *scale = static_cast<const float *>(data_of(api_, scales));
    for (size_t i = 0; i < axes; ++i) {
      if (!(scale[i] >= 1 && scale[i] <= kMostTimes) || scale[i] != std::floor(scale[i])) return false;
      if (i < 2 && scale[i] != 1) return false;
      if (i >= 2) made.factors.push_back(static_cast<int64_t>(scale[i]));
    }
    return true;
  }

  const Api &api_;
  const std::vector<Node> &nodes_;
  std::set<size_t> used_;
  bool half_;
  std::map<size_t, size_t> position_;
};

} // namespace

std::vector<Operator> operators(const Api &api, const std::vector<Node> &nodes, const std::set<size_t> &used,
                                bool half) {
  return Reader(api, nodes, used, half).read();
}

} // namespace polyconv_ort
