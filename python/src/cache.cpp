// cache.cpp - entries between calls: what they hold, and which of them go.
// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

namespace polyconv_python {
namespace {

// Memory for a slot: the library's own on the CPU; on CUDA that of the arrays' library, whose allocator knows streams.
uintptr_t allocate(int64_t bytes, nb::handle like, uintptr_t stream, nb::object *owner) {
  if (bytes == 0) return 0;
  nb::object pair = kinds().attr("scratch")(bytes, like, stream);
  *owner = pair[0];
  return nb::cast<uintptr_t>(pair[1]);
}

} // namespace

Entry::Entry(nb::object from, const nb::list &results)
    : plan_object(std::move(from)), plan(nb::cast<Plan *>(plan_object)) {
  for (nb::handle one : results) {
    nb::object made = nb::borrow(one);
    written.push_back(
        {nb::cast<int32_t>(made[0]), nb::cast<int32_t>(made[1]), nb::object(made[2]), nb::object(made[3])});
  }
  if (plan->problems[0].direction == POLYCONV_BACKWARD_WEIGHTS) return;
  const char *format = nullptr;
  require(polyconv_plan_weights(plan->plan, 0, &format, &packed_bytes));
  packs = std::string(format) != "raw";
  if (!packs) packed_bytes = 0;
}

std::unique_ptr<Slot> Entry::take_slot(uintptr_t stream, nb::handle like) {
  for (auto slot = idle.begin(); slot != idle.end(); ++slot) {
    if ((*slot)->stream != stream) continue;
    std::unique_ptr<Slot> taken = std::move(*slot);
    idle.erase(slot);
    return taken;
  }
  auto slot = std::make_unique<Slot>();
  slot->stream = stream;
  slot->workspace_pointer = allocate(plan->info.workspace_bytes, like, stream, &slot->workspace);
  slot->packed_pointer = allocate(packed_bytes, like, stream, &slot->packed);
  return slot;
}

void Entry::give_back(std::unique_ptr<Slot> slot) {
  constexpr size_t kMost = 8; // more threads or streams than that at once make their memory anew
  if (idle.size() < kMost) idle.push_back(std::move(slot));
}

size_t Cache::Hash::operator()(const Key &key) const noexcept {
  uint64_t hash = 0x9e3779b97f4a7c15u; // the golden ratio, as good as any odd number
  for (const int64_t number : key) {
    hash = (hash ^ static_cast<uint64_t>(number)) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash);
}

nb::object Cache::find(const Key &key) {
  const auto at = found_.find(key);
  if (at == found_.end()) {
    ++misses_;
    return nb::object();
  }
  ++hits_;
  order_.splice(order_.begin(), order_, at->second);
  return at->second->second;
}

void Cache::keep(Key key, nb::object entry) {
  const auto [at, is_new] = found_.try_emplace(std::move(key));
  if (!is_new) order_.erase(at->second); // another thread was as quick
  order_.emplace_front(&at->first, std::move(entry));
  at->second = order_.begin();
  shrink();
}

int64_t Cache::bytes() const {
  int64_t sum = 0;
  for (const auto &[key, object] : order_) {
    const auto *entry = nb::cast<const Entry *>(object);
    sum += entry->bytes() * static_cast<int64_t>(entry->idle.size());
  }
  return sum;
}

void Cache::shrink() {
  while (order_.size() > most_entries_ || (order_.size() > 1 && bytes() > most_bytes_)) {
    const nb::object going = std::move(order_.back().second);
    found_.erase(*order_.back().first);
    order_.pop_back();
  }
}

void Cache::clear() {
  found_.clear();
  const Order going = std::move(order_); // destroyed last: what Python runs meanwhile finds an empty cache
  order_.clear();
}

void Cache::limit(size_t entries, int64_t bytes) {
  most_entries_ = entries > 0 ? entries : 1;
  most_bytes_ = bytes;
  shrink();
}

nb::tuple Cache::info() const {
  return nb::make_tuple(hits_, misses_, order_.size(), bytes(), most_entries_, most_bytes_);
}

} // namespace polyconv_python
