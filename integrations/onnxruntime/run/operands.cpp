// operands.cpp - copies constants once, and finds the others in each run.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/operands.hpp"

#include <cstring>

namespace polyconv_ort {
View input_view(const Api &api, const OrtKernelContext *context, size_t index) {
  const OrtValue *tensor = nullptr;
  require(api, api.KernelContext_GetInput(context, index, &tensor));
  if (!tensor) throw Error(kFail, "polyconv: input " + std::to_string(index) + " of the fused node is missing");
  Shape shape = shape_of(api, tensor);
  View view;
  view.type = shape.type, view.sizes = std::move(shape.sizes);
  view.data = data_of(api, tensor);
  return view;
}

Operand::Operand(const Api &api, const Value &value, const Inputs &inputs) : exists_(static_cast<bool>(value)) {
  if (!exists_) return;
  if (const OrtValue *tensor = value.constant()) {
    constant_ = true;
    const Shape shape = shape_of(api, tensor);
    view_.type = shape.type, view_.sizes = shape.sizes;
    bytes_.resize(static_cast<size_t>(view_.elements()) * size_of(view_.type));
    if (!bytes_.empty()) std::memcpy(bytes_.data(), data_of(api, tensor), bytes_.size());
    return;
  }
  auto found = inputs.find(value.name());
  if (found == inputs.end()) throw Error(kFail, "polyconv: the fused node has no input " + value.name());
  index_ = found->second;
}

View Operand::view(const Api &api, const OrtKernelContext *context) const {
  if (!exists_) return {};
  if (constant_) {
    View view = view_;
    view.data = bytes_.data();
    return view;
  }
  return input_view(api, context, index_);
}

} // namespace polyconv_ort
