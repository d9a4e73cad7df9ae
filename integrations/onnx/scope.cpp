// scope.cpp - see scope.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "scope.hpp"

#include <polyconv/polyconv.h>

#include <algorithm>

namespace polyconv_onnx {
namespace {

bool is_known(const Value &value) {
  return value.ranked && std::all_of(value.sizes.begin(), value.sizes.end(),
                                     [](int64_t size) { return size >= 0 && size <= POLYCONV_MAX_ELEMENTS; });
}

} // namespace

Scope::Scope(const Graph &graph, const Scope *outer) : graph_(graph), outer_(outer) {
  for (const auto &[name, tensor] : graph.constants) {
    (void)tensor.elements(); // no size that cannot be goes further
    own_.insert(name), shapes_[name] = tensor.sizes, types_[name] = tensor.type;
  }
  for (const auto &[name, value] : graph.inputs) {
    own_.insert(name), types_.insert({name, value.type});
    if (is_known(value)) shapes_[name] = value.sizes;
  }
  for (const Node &node : graph.nodes) own_.insert(node.outputs.begin(), node.outputs.end());
  for (const auto &[name, value] : graph.told)
    if (own_.count(name) != 0) types_.insert({name, value.type});
}

const Scope *Scope::of(const std::string &value) const {
  const Scope *scope = this;
  while (scope && scope->own_.count(value) == 0) scope = scope->outer_;
  return scope;
}

const Sizes *Scope::shape(const std::string &value) const {
  const Scope *scope = of(value);
  if (!scope) return nullptr;
  auto found = scope->shapes_.find(value);
  return found == scope->shapes_.end() ? nullptr : &found->second;
}

const Tensor *Scope::constant(const std::string &value) const {
  const Scope *scope = of(value);
  if (!scope) return nullptr;
  auto found = scope->graph_.constants.find(value);
  return found == scope->graph_.constants.end() ? nullptr : &found->second;
}

const Value *Scope::value(const std::string &name) const {
  const Scope *scope = of(name);
  if (!scope) return nullptr;
  for (const auto *values : {&scope->graph_.inputs, &scope->graph_.told}) {
    auto found = values->find(name);
    if (found != values->end()) return &found->second;
  }
  return nullptr;
}

const Sizes *Scope::told(const std::string &value) const {
  auto found = graph_.told.find(value);
  return found == graph_.told.end() || !is_known(found->second) ? nullptr : &found->second.sizes;
}

int64_t Scope::type(const std::string &value) const {
  const Scope *scope = of(value);
  if (!scope) return kUnknown;
  auto found = scope->types_.find(value);
  return found == scope->types_.end() ? int64_t{kUnknown} : found->second;
}

void Scope::set_shape(const std::string &value, Sizes sizes) {
  shapes_[value] = std::move(sizes);
}

void Scope::set_type(const std::string &value, int64_t type) {
  int64_t &known = types_.try_emplace(value, kUnknown).first->second;
  if (known == kUnknown) known = type;
}

void Scope::hand_in(const std::string &input, const Sizes *sizes, int64_t type) {
  if (sizes) shapes_.try_emplace(input, *sizes);
  set_type(input, type);
}

} // namespace polyconv_onnx
