// regions.cpp - layers get levels: a layer's level is that of the layers whose results it reads, and one more where
// another node lies between. On a way out of a level and back into a layer there is such a node, so that the layer's
// level is a higher one: layers of one level that read each other form no cycle with the nodes around them.
//
// SPDX-License-Identifier: Apache-2.0
#include "claim/regions.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace polyconv_ort {
namespace {

// Nothing but the input, the residual and the bias comes with each run.
bool can_join(const Recipe &recipe) {
  for (const Value *value : {&recipe.weights, &recipe.input_scale, &recipe.input_zero, &recipe.weights_scale,
                             &recipe.weights_zero, &recipe.output_scale, &recipe.output_zero})
    if (*value && !value->constant()) return false;
  return true;
}

class Levels {
 public:
  Levels(const std::vector<Node> &nodes, const std::vector<Recipe> &recipes) : recipes_(recipes) {
    for (size_t i = 0; i < recipes.size(); ++i)
      for (const Node &node : recipes[i].nodes) owner_[node.id()] = static_cast<int>(i);
    for (const Node &node : nodes) {
      auto owner = owner_.find(node.id());
      for (size_t k = 0; node.output(k); ++k)
        writer_[node.output(k).name()] = owner == owner_.end() ? Writer{&node, -1} : Writer{&node, owner->second};
    }
    joins_.resize(recipes.size());
    for (size_t i = 0; i < recipes.size(); ++i) joins_[i] = can_join(recipes[i]);
    for (const Node &node : nodes) level_of(node);
  }

  std::vector<std::vector<size_t>> regions() const {
    std::vector<size_t> group(recipes_.size());
    std::iota(group.begin(), group.end(), size_t{0});
    for (size_t i = 0; i < recipes_.size(); ++i)
      for (const Value *value : {&recipes_[i].input, &recipes_[i].residual}) {
        const int before = *value ? owner(value->name()) : -1;
        if (before < 0 || !joins_[i] || !joins_[before] || level_.at(static_cast<int>(i)) != level_.at(before))
          continue;
        const size_t from = group[before], to = group[i];
        std::replace(group.begin(), group.end(), from, to);
      }
    std::map<size_t, std::vector<size_t>> by_group;
    for (size_t i = 0; i < recipes_.size(); ++i) by_group[group[i]].push_back(i);
    std::vector<std::vector<size_t>> result;
    for (auto &entry : by_group) result.push_back(std::move(entry.second));
    return result;
  }

 private:
  struct Writer {
    const Node *node;
    int recipe; // -1: a node that no layer has
  };

  int owner(const std::string &value) const {
    auto found = writer_.find(value);
    return found == writer_.end() ? -1 : found->second.recipe;
  }

  // The level behind a value. Layers that stay alone count as other nodes.
  struct Behind {
    int level;
    bool joins;
  };
  Behind behind(const std::string &value) {
    auto found = writer_.find(value);
    if (found == writer_.end()) return {0, true};
    const int recipe = found->second.recipe;
    if (recipe < 0) return {others_.at(found->second.node->id()), false};
    return {level_.at(recipe), joins_[recipe]};
  }

  // Nodes come in topological order, but a layer as a whole may read what comes after its first node: its level is
  // found when its last node has come.
  void level_of(const Node &node) {
    auto owner = owner_.find(node.id());
    if (owner == owner_.end()) {
      int level = 0;
      for (const Value &value : node.read())
        if (value) level = std::max(level, behind(value.name()).level);
      others_[node.id()] = level;
      return;
    }
    const int recipe = owner->second;
    if (++seen_[recipe] < recipes_[recipe].nodes.size()) return;
    int level = 0;
    for (const Node &part : recipes_[recipe].nodes)
      for (const Value &value : part.read()) {
        if (!value || this->owner(value.name()) == recipe) continue;
        const Behind before = behind(value.name());
        const bool known = writer_.count(value.name()) != 0;
        level = std::max(level, before.level + (known && (!before.joins || !joins_[recipe]) ? 1 : 0));
      }
    level_[recipe] = level;
  }

  const std::vector<Recipe> &recipes_;
  std::map<size_t, int> owner_, others_;
  std::map<std::string, Writer> writer_;
  std::vector<bool> joins_;
  std::map<int, size_t> seen_;
  std::map<int, int> level_;
};

} // namespace

std::vector<std::vector<size_t>> regions(const std::vector<Node> &nodes, const std::vector<Recipe> &recipes) {
  return Levels(nodes, recipes).regions();
}

} // namespace polyconv_ort
