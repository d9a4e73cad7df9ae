// regions.cpp - layers and operators, here parts, get levels: a part's level is that of the parts whose results it
// reads, and one more where another node lies between. On a way out of a level and back into a part there is such a
// node, so that the part's level is a higher one: parts of one level that read each other form no cycle with the nodes
// around them.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/regions.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace polyconv_ort {
namespace {

struct Part {
  size_t index; // of the layers, or of the operators
  bool is_layer;
  bool joins; // it may be with others
  const std::vector<Node> *nodes;
  std::vector<Value> tensors; // that it reads and others may write
};

// Nothing but the input, the residual and the bias comes with each run.
bool can_join(const Recipe &recipe) {
  for (const Value *value : {&recipe.weights, &recipe.input_scale, &recipe.input_zero, &recipe.weights_scale,
                             &recipe.weights_zero, &recipe.output_scale, &recipe.output_zero})
    if (*value && !value->constant()) return false;
  return true;
}

class Levels {
 public:
  Levels(const std::vector<Node> &nodes, const std::vector<Part> &parts) : parts_(parts) {
    for (size_t i = 0; i < parts.size(); ++i)
      for (const Node &node : *parts[i].nodes) owner_[node.id()] = static_cast<int>(i);
    for (const Node &node : nodes) {
      auto owner = owner_.find(node.id());
      for (size_t k = 0; node.output(k); ++k)
        writer_[node.output(k).name()] = {&node, owner == owner_.end() ? -1 : owner->second};
    }
    for (const Node &node : nodes) level_of(node);
  }

  // Of each part the number of its group.
  std::vector<size_t> groups() const {
    std::vector<size_t> group(parts_.size());
    std::iota(group.begin(), group.end(), size_t{0});
    for (size_t i = 0; i < parts_.size(); ++i)
      for (const Value &value : parts_[i].tensors) {
        const int before = value ? owner(value.name()) : -1;
        if (before < 0 || !parts_[i].joins || !parts_[before].joins ||
            level_.at(static_cast<int>(i)) != level_.at(before))
          continue;
        const size_t from = group[before], to = group[i];
        std::replace(group.begin(), group.end(), from, to);
      }
    return group;
  }

 private:
  struct Writer {
    const Node *node;
    int part; // -1: a node that no part has
  };

  int owner(const std::string &value) const {
    auto found = writer_.find(value);
    return found == writer_.end() ? -1 : found->second.part;
  }

  // The level behind a value. Layers that stay alone count as other nodes.
  struct Behind {
    int level;
    bool joins;
  };
  Behind behind(const std::string &value) {
    auto found = writer_.find(value);
    if (found == writer_.end()) return {0, true};
    const int part = found->second.part;
    if (part < 0) return {others_.at(found->second.node->id()), false};
    return {level_.at(part), parts_[part].joins};
  }

  // Nodes come in topological order, but a part as a whole may read what comes after its first node: its level is found
  // when its last node has come.
  void level_of(const Node &node) {
    auto owner = owner_.find(node.id());
    if (owner == owner_.end()) {
      int level = 0;
      for (const Value &value : node.read())
        if (value) level = std::max(level, behind(value.name()).level);
      others_[node.id()] = level;
      return;
    }
    const int part = owner->second;
    if (++seen_[part] < parts_[part].nodes->size()) return;
    int level = 0;
    for (const Node &member : *parts_[part].nodes)
      for (const Value &value : member.read()) {
        if (!value || this->owner(value.name()) == part) continue;
        const Behind before = behind(value.name());
        const bool known = writer_.count(value.name()) != 0;
        level = std::max(level, before.level + (known && (!before.joins || !parts_[part].joins) ? 1 : 0));
      }
    level_[part] = level;
  }

  const std::vector<Part> &parts_;
  std::map<size_t, int> owner_, others_;
  std::map<std::string, Writer> writer_;
  std::map<int, size_t> seen_;
  std::map<int, int> level_;
};

} // namespace

std::vector<Together> regions(const std::vector<Node> &nodes, const std::vector<Recipe> &recipes,
                              const std::vector<Operator> &operators) {
  std::vector<Part> parts;
  for (size_t i = 0; i < recipes.size(); ++i)
    parts.push_back({i, true, can_join(recipes[i]), &recipes[i].nodes, {recipes[i].input, recipes[i].residual}});
  for (size_t i = 0; i < operators.size(); ++i)
    parts.push_back({i, false, true, &operators[i].nodes, operators[i].inputs});
  for (;;) { // operators without a layer are left to others, which changes the levels
    const std::vector<size_t> groups = Levels(nodes, parts).groups();
    std::set<size_t> with_layer;
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].is_layer) with_layer.insert(groups[i]);
    std::vector<Part> kept;
    for (size_t i = 0; i < parts.size(); ++i)
      if (with_layer.count(groups[i])) kept.push_back(parts[i]);
    if (kept.size() < parts.size()) {
      parts = std::move(kept);
      continue;
    }
    std::map<size_t, Together> result;
    for (size_t i = 0; i < parts.size(); ++i)
      (parts[i].is_layer ? result[groups[i]].layers : result[groups[i]].operators).push_back(parts[i].index);
    std::vector<Together> regions;
    regions.reserve(result.size());
    for (auto &entry : result) regions.push_back(std::move(entry.second));
    return regions;
  }
}

} // namespace polyconv_ort
