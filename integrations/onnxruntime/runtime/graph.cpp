// graph.cpp - reads the runtime's graph through its C functions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph.hpp"

#include <cstring>
#include <memory>

#include <polyconv/sdk/half.hpp>

namespace polyconv_ort {

void require(const Api &api, OrtStatus *status) {
  if (!status) return;
  const std::string sentence = api.GetErrorMessage(status);
  api.ReleaseStatus(status);
  throw Error(kFail, sentence);
}

namespace {

// Type and sizes.
Shape read_sizes(const Api &api, const OrtTensorTypeAndShapeInfo *info) {
  Shape shape;
  size_t rank = 0;
  require(api, api.GetTensorElementType(info, &shape.type));
  require(api, api.GetDimensionsCount(info, &rank));
  shape.ranked = true;
  shape.sizes.resize(rank);
  if (rank) require(api, api.GetDimensions(info, shape.sizes.data(), rank));
  return shape;
}

// Likewise, and what sizes that are not known are called.
Shape read_shape(const Api &api, const OrtTensorTypeAndShapeInfo *info) {
  Shape shape = read_sizes(api, info);
  const size_t rank = shape.sizes.size();
  std::vector<const char *> names(rank, nullptr);
  if (rank) require(api, api.GetSymbolicDimensions(info, names.data(), rank));
  for (const char *name : names) shape.names.emplace_back(name ? name : "");
  return shape;
}

} // namespace

size_t size_of(int type) {
  if (type == kFloat || type == kInt32) return 4;
  if (type == kHalf) return 2;
  if (type == kUint8 || type == kInt8) return 1;
  throw Error(kFail, "polyconv: a tensor has element type " + std::to_string(type) +
                         ", expected float, float16, int32, int8 or uint8");
}

float float_at(int type, const void *data, int64_t i) {
  if (type == kFloat) return static_cast<const float *>(data)[i];
  return polyconv::sdk::to_float(static_cast<const polyconv::sdk::f16 *>(data)[i]);
}

std::string text_of(const std::vector<int64_t> &sizes) {
  std::string text;
  for (int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

Shape shape_of(const Api &api, const OrtValue *value) {
  OrtTensorTypeAndShapeInfo *info = nullptr;
  require(api, api.GetTensorTypeAndShape(value, &info));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api.ReleaseTensorTypeAndShapeInfo)> released(
      info, api.ReleaseTensorTypeAndShapeInfo);
  return read_sizes(api, info);
}

const void *data_of(const Api &api, const OrtValue *value) {
  void *data = nullptr;
  require(api, api.GetTensorMutableData(const_cast<OrtValue *>(value), &data)); // which reads as well as it writes
  return data;
}

std::string Value::name() const {
  const char *name = nullptr;
  require(*api_, api_->GetValueInfoName(info_, &name));
  return name ? name : "";
}

Shape Value::shape() const {
  const OrtTypeInfo *type = nullptr;
  require(*api_, api_->GetValueInfoTypeInfo(info_, &type));
  if (!type) return {};
  const OrtTensorTypeAndShapeInfo *tensor = nullptr;
  require(*api_, api_->CastTypeInfoToTensorInfo(type, &tensor));
  if (!tensor) return {};
  return read_shape(*api_, tensor);
}

bool Value::is_output() const {
  bool answer = false;
  require(*api_, api_->ValueInfo_IsGraphOutput(info_, &answer));
  return answer;
}

const OrtValue *Value::constant() const {
  if (!info_) return nullptr;
  bool is_constant = false;
  require(*api_, api_->ValueInfo_IsConstantInitializer(info_, &is_constant));
  const OrtValue *value = nullptr;
  if (is_constant) require(*api_, api_->ValueInfo_GetInitializerValue(info_, &value));
  return value;
}

std::vector<const OrtNode *> Value::consumers() const {
  size_t count = 0;
  require(*api_, api_->ValueInfo_GetValueNumConsumers(info_, &count));
  std::vector<const OrtNode *> nodes(count);
  std::vector<int64_t> indices(count);
  if (count) require(*api_, api_->ValueInfo_GetValueConsumers(info_, nodes.data(), indices.data(), count));
  return nodes;
}

Node::Node(const Api *api, const OrtNode *node) : api_(api), node_(node) {
  const char *type = nullptr, *domain = nullptr;
  require(*api, api->Node_GetId(node, &id_));
  require(*api, api->Node_GetOperatorType(node, &type));
  require(*api, api->Node_GetDomain(node, &domain));
  if (domain && *domain && std::strcmp(domain, "ai.onnx") != 0) type_ = std::string(domain) + ":";
  type_ += type ? type : "";
  size_t count = 0;
  require(*api, api->Node_GetNumInputs(node, &count));
  std::vector<const OrtValueInfo *> values(count);
  if (count) require(*api, api->Node_GetInputs(node, values.data(), count));
  for (auto value : values) inputs_.emplace_back(api, value);
  require(*api, api->Node_GetNumOutputs(node, &count));
  values.assign(count, nullptr);
  if (count) require(*api, api->Node_GetOutputs(node, values.data(), count));
  for (auto value : values) outputs_.emplace_back(api, value);
}

std::string Node::name() const {
  const char *name = nullptr;
  require(*api_, api_->Node_GetName(node_, &name));
  return name ? name : "";
}

bool Node::is_taken() const {
  const char *name = nullptr;
  require(*api_, api_->Node_GetEpName(node_, &name));
  return name && *name;
}

size_t Node::outputs() const {
  size_t count = 0;
  for (const Value &output : outputs_) count += output ? 1 : 0;
  return count;
}

std::vector<Value> Node::read() const {
  std::vector<Value> result = inputs_;
  size_t count = 0;
  require(*api_, api_->Node_GetNumImplicitInputs(node_, &count));
  std::vector<const OrtValueInfo *> values(count);
  if (count) require(*api_, api_->Node_GetImplicitInputs(node_, values.data(), count));
  for (auto value : values) result.emplace_back(api_, value);
  return result;
}

bool Node::read(const char *name, int type, std::vector<char> &bytes) const {
  const OrtOpAttr *attribute = nullptr;
  if (OrtStatus *absent =
          api_->Node_GetAttributeByName(node_, name, &attribute)) { // 1.24 calls it an error, later ones do not
    api_->ReleaseStatus(absent);
    return false;
  }
  if (!attribute) return false;
  size_t needed = 0;
  bytes.assign(256, 0);
  OrtStatus *status = api_->ReadOpAttr(attribute, type, bytes.data(), bytes.size(), &needed);
  if (status && needed > bytes.size()) { // the first answer says how much there is
    api_->ReleaseStatus(status);
    bytes.assign(needed, 0);
    status = api_->ReadOpAttr(attribute, type, bytes.data(), bytes.size(), &needed);
  }
  require(*api_, status);
  bytes.resize(needed);
  return true;
}

int64_t Node::attribute(const char *name, int64_t absent) const {
  std::vector<char> bytes;
  if (!read(name, kAttributeInt, bytes) || bytes.size() < sizeof absent) return absent;
  std::memcpy(&absent, bytes.data(), sizeof absent);
  return absent;
}

float Node::attribute(const char *name, float absent) const {
  std::vector<char> bytes;
  if (!read(name, kAttributeFloat, bytes) || bytes.size() < sizeof absent) return absent;
  std::memcpy(&absent, bytes.data(), sizeof absent);
  return absent;
}

std::string Node::attribute(const char *name, const std::string &absent) const {
  std::vector<char> bytes;
  if (!read(name, kAttributeString, bytes)) return absent;
  return std::string(bytes.data(), strnlen(bytes.data(), bytes.size())); // some releases count a NUL at the end
}

std::vector<int64_t> Node::attribute(const char *name, const std::vector<int64_t> &absent) const {
  std::vector<char> bytes;
  if (!read(name, kAttributeInts, bytes)) return absent;
  std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(int64_t));
  return values;
}

std::vector<Node> nodes_of(const Api &api, const OrtGraph *graph) {
  size_t count = 0;
  require(api, api.Graph_GetNumNodes(graph, &count));
  std::vector<const OrtNode *> raw(count);
  if (count) require(api, api.Graph_GetNodes(graph, raw.data(), count));
  std::vector<Node> nodes;
  nodes.reserve(count);
  for (auto node : raw) nodes.emplace_back(&api, node);
  return nodes;
}

} // namespace polyconv_ort
