// call.hpp - one call of conv and its sisters: arrays looked at, a plan found by what they look like, run, result given
// back. What was decided once is an Entry; polyconv/_build.py decides.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_CALL_HPP
#define POLYCONV_PYTHON_CALL_HPP

#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "objects.hpp"
#include "tensor.hpp"

namespace polyconv_python {

// The arrays of a call by place, the same in every direction: names of the forward layer, as in polyconv_buffers.
enum Role { kInput, kWeights, kBias, kOutput, kResidual, kScale, kSlope, kRoles };

// An array that a call makes: dense in the order of `shape`, and seen by the caller with its axes permuted.
struct Made {
  int32_t role;
  int32_t type;
  nb::object shape;
  nb::object permutation; // None where the axes are in order
};

// Memory between calls: packed weights, workspace. One run at a time has it, and on CUDA one stream.
struct Slot {
  uintptr_t stream = 0;
  nb::object workspace, packed; // what owns the memory
  uintptr_t workspace_pointer = 0, packed_pointer = 0;
  polyconv_weights *weights = nullptr;
  Slot() = default;
  Slot(const Slot &) = delete;
  ~Slot() { polyconv_weights_destroy(weights); }
};

// A plan with what a call needs to know of it.
struct Entry {
  nb::object plan_object;
  const Plan *plan;
  std::vector<Made> written; // results, whether the caller gives `out` for them or not
  bool packs = false;        // the plan's weights are not raw
  int64_t packed_bytes = 0;
  std::vector<std::unique_ptr<Slot>> idle; // the global lock guards it

  Entry(nb::object from, const nb::list &results);
  Entry(const Entry &) = delete;
  int64_t bytes() const { // that a slot holds
    return plan->info.workspace_bytes + packed_bytes;
  }
  std::unique_ptr<Slot> take_slot(uintptr_t stream, nb::handle like);
  void give_back(std::unique_ptr<Slot> slot);
};

// Entries by what calls look like; the least recently used go first. The global lock guards it.
class Cache {
 public:
  using Key = std::vector<int64_t>;
  // The entry of a key, or an invalid object.
  nb::object find(const Key &key);
  void keep(Key key, nb::object entry);
  void clear();
  void limit(size_t entries, int64_t bytes);
  nb::tuple info() const; // hits, misses, entries, bytes, most entries, most bytes

 private:
  struct Hash {
    size_t operator()(const Key &key) const noexcept;
  };
  using Order = std::list<std::pair<const Key *, nb::object>>; // the last used first
  int64_t bytes() const;
  void shrink();

  std::unordered_map<Key, Order::iterator, Hash> found_;
  Order order_;
  size_t most_entries_ = 256;
  int64_t most_bytes_ = INT64_C(1) << 30;
  int64_t hits_ = 0, misses_ = 0;
};

void bind_call(nb::module_ &module);

} // namespace polyconv_python
#endif // POLYCONV_PYTHON_CALL_HPP
