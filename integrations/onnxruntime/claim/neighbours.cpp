// neighbours.cpp - see neighbours.hpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/neighbours.hpp"

namespace polyconv_ort {

Neighbours::Neighbours(const Api &api, const std::vector<Node> &nodes, const std::set<size_t> &used)
    : api_(api), nodes_(nodes), used_(used) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    position_[nodes[i].id()] = i;
    for (size_t k = 0; nodes[i].output(k); ++k) producer_[nodes[i].output(k).name()] = i;
  }
}

const Node *Neighbours::free(const OrtNode *raw) const {
  size_t id = 0;
  require(api_, api_.Node_GetId(raw, &id));
  auto found = position_.find(id);
  if (found == position_.end() || used_.count(id)) return nullptr;
  const Node &node = nodes_[found->second];
  return node.is_taken() ? nullptr : &node;
}

const Node *Neighbours::reader(const Value &value) const {
  if (value.is_output()) return nullptr;
  const auto consumers = value.consumers();
  return consumers.size() == 1 ? free(consumers[0]) : nullptr;
}

const Node *Neighbours::reader(const Value &value, const char *type) const {
  const Node *node = reader(value);
  return node && node->type() == type ? node : nullptr;
}

const Node *Neighbours::writer(const Value &value) const {
  auto found = producer_.find(value.name());
  if (found == producer_.end() || value.is_output() || value.consumers().size() != 1) return nullptr;
  return free(nodes_[found->second].get());
}

std::vector<const Node *> Neighbours::two_readers(const Value &value) const {
  if (value.is_output()) return {};
  const auto consumers = value.consumers();
  if (consumers.size() != 2) return {};
  const Node *a = free(consumers[0]), *b = free(consumers[1]);
  return a && b ? std::vector<const Node *>{a, b} : std::vector<const Node *>();
}

} // namespace polyconv_ort
