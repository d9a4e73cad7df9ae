// cudnn.cpp - graphs as cudnn-frontend logs them (CUDNN_FRONTEND_LOG_INFO=1), one JSON object a line: nodes with the
// tags CONV_FPROP, CONV_DGRAD and CONV_WGRAD, and tensors with their sizes and strides. Of a graph the convolutions
// alone are taken.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "import/import.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

using Json = nlohmann::json;

namespace {

using Sizes = std::vector<int64_t>;

// What a tensor is called: its name, or a number.
std::string key_of(const Json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const Json &tensor_of(const Json &graph, const Json &node, const char *side, const char *role) {
  const Json &tensors = graph.at("tensors");
  const std::string key = key_of(node.at(side).at(role));
  if (tensors.is_object() && tensors.contains(key)) return tensors.at(key);
  for (const Json &tensor : tensors) // or a list of tensors with names and numbers
    if (key_of(tensor.value("name", Json(""))) == key || key_of(tensor.value("uid", Json(0))) == key) return tensor;
  throw Error(kUsage, "its tensor " + key + " is not there");
}

std::string type_of(const Json &graph, const Json &tensor) {
  static const std::map<std::string, std::string> kTypes = {
      {"FLOAT", "f32"}, {"HALF", "f16"}, {"BFLOAT16", "bf16"}, {"DOUBLE", "f64"}, {"INT8", "s8"}};
  Json type = tensor.value("data_type", Json());
  if (!type.is_string() || type == "NOT_SET")
    type = graph.value("context", Json::object()).value("io_data_type", Json("FLOAT"));
  const auto found = kTypes.find(type.is_string() ? type.get<std::string>() : "");
  if (found == kTypes.end()) throw Error(kUsage, "its type " + type.dump() + " is none of polyconv's");
  return found->second;
}

// Whole numbers of 64 bits, each of them: the JSON library would cut a fraction off and wrap what is greater.
Sizes numbers_of(const Json &values, const std::string &field) {
  if (!values.is_array()) throw Error(kUsage, "its " + field + " is no list of numbers");
  Sizes numbers;
  for (const Json &value : values) {
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}))
      throw Error(kUsage, "its " + field + " has " + value.dump() + "; expected whole numbers of 64 bits");
    numbers.push_back(value.get<int64_t>());
  }
  return numbers;
}

Sizes sizes_of(const Json &tensor, const char *role) {
  Sizes sizes = numbers_of(tensor.value("dim", Json::array()), std::string("size of ") + role);
  if (sizes.size() < 3 || sizes.size() > 5) throw Error(kUsage, std::string("the sizes of ") + role + " are not told");
  return sizes;
}

// The sizes of the forward layer's input and weights, from what a node of each way has.
Layer layer_of(const Json &graph, const Json &node, const std::string &tag) {
  const bool data = tag == "CONV_DGRAD", weights = tag == "CONV_WGRAD";
  const Json &x = data ? tensor_of(graph, node, "outputs", "DX") : tensor_of(graph, node, "inputs", "X");
  const Json &w = weights ? tensor_of(graph, node, "outputs", "DW") : tensor_of(graph, node, "inputs", "W");
  const Sizes input = sizes_of(x, data ? "DX" : "X"), kernel = sizes_of(w, weights ? "DW" : "W");
  Layer layer;
  layer.direction = data ? "bwd_d" : weights ? "bwd_w" : "fwd";
  layer.batch = input[0], layer.in_channels = input[1], layer.out_channels = kernel[0];
  layer.groups = kernel[1] > 0 ? input[1] / kernel[1] : 1;
  layer.input.assign(input.begin() + 2, input.end()), layer.kernel.assign(kernel.begin() + 2, kernel.end());
  layer.stride = numbers_of(node.at("stride"), "stride"), layer.dilation = numbers_of(node.at("dilation"), "dilation");
  layer.pad_begin = numbers_of(node.at("pre_padding"), "pre_padding"),
  layer.pad_end = numbers_of(node.at("post_padding"), "post_padding");
  if (layer.kernel.size() != layer.input.size() || layer.stride.size() != layer.input.size() ||
      layer.dilation.size() != layer.input.size() || layer.pad_begin.size() != layer.input.size() ||
      layer.pad_end.size() != layer.input.size())
    throw Error(kUsage, "its tensors, strides, dilations and paddings have different numbers of axes");
  const Json &known = data ? tensor_of(graph, node, "inputs", "DY") : x;
  const Sizes strides = numbers_of(known.value("stride", Json::array()), "tensor's stride");
  layer.channels_last = strides.size() > 2 && strides[1] == 1 && strides.back() != 1;
  layer.types = type_of(graph, known);
  return layer;
}

} // namespace

bool read_cudnn(const std::string &line, const std::string &where, Collector &collector) {
  if (line.find("\"nodes\"") == std::string::npos || line.find("\"tensors\"") == std::string::npos) return false;
  try {
    const Json graph = Json::parse(line.substr(std::min(line.find('{'), line.size())));
    for (const Json &node : graph.at("nodes")) {
      const std::string tag = node.value("tag", "");
      if (tag != "CONV_FPROP" && tag != "CONV_DGRAD" && tag != "CONV_WGRAD") continue;
      try {
        Layer layer = layer_of(graph, node, tag);
        std::string token = token_of(layer);
        if (node.value("math_mode", "") == "CONVOLUTION") token += ":flip";
        const std::string name = node.value("name", "");
        collector.add(token, name.find_first_not_of("0123456789") == std::string::npos ? "" : name, where);
      } catch (const std::exception &failure) { // of one node; the JSON library's or our own
        collector.warn(
            std::string("left out: ").append(where).append(": ").append(tag).append(": ").append(failure.what()));
      }
    }
  } catch (const Json::parse_error &) {
    collector.warn("left out: " + where + ": a graph whose JSON is cut off");
  } catch (const Json::exception &failure) {
    collector.warn("left out: " + where + ": a graph that is none of cudnn-frontend: " + failure.what());
  }
  return true;
}

} // namespace polyconv::bench
