// neighbours.hpp - what lies beside a value in a graph and is nobody's yet.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_NEIGHBOURS_HPP
#define POLYCONV_ORT_NEIGHBOURS_HPP

#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/graph.hpp"

namespace polyconv_ort {

class Neighbours {
 public:
  // Of these nodes, those of `used` apart, by their ids; both stay the caller's and are looked at in each call.
  Neighbours(const Api &, const std::vector<Node> &nodes, const std::set<size_t> &used);
  const Api &api() const { return api_; }

  // The only node that reads a value, or writes one that a single node reads; NULL where there is none, or it is not
  // free, or others see the value: it is an output of the graph.
  const Node *reader(const Value &) const;
  const Node *reader(const Value &, const char *type) const; // and where it is of another type
  const Node *writer(const Value &) const;
  // The two nodes that read a value; none where they are more or fewer, or one is not free, or others see the value.
  std::vector<const Node *> two_readers(const Value &) const;

 private:
  const Node *free(const OrtNode *) const;

  const Api &api_;
  const std::vector<Node> &nodes_;
  const std::set<size_t> &used_;
  std::map<size_t, size_t> position_;
  std::map<std::string, size_t> producer_;
};

} // namespace polyconv_ort
#endif // POLYCONV_ORT_NEIGHBOURS_HPP
