// choice.cpp - see choice.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "choice.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include <polyconv/sdk/backend.hpp>

namespace polyconv::onednn {
namespace {

using Clock = std::chrono::steady_clock;

// Memory of at least the bytes last asked for. It holds small positive normal numbers of every type: zeros and
// denormals have speeds of their own.
class Scratch {
 public:
  void *get(int64_t bytes) {
    const size_t size = static_cast<size_t>(bytes) + POLYCONV_ALIGNMENT;
    if (memory_.size() < size) memory_.assign(size, 0x3a);
    void *place = memory_.data();
    size_t space = memory_.size();
    return std::align(POLYCONV_ALIGNMENT, static_cast<size_t>(bytes), place, space);
  }

 private:
  std::vector<unsigned char> memory_;
};

int64_t dense_bytes(const polyconv_tensor &t) {
  return sdk::elements(t) * bytes_of_type(t.type);
}

// The tensors of one layer, to measure all its ways on.
class Bench {
 public:
  std::unique_ptr<Bound> bind(const Way &way, const polyconv_layer &l) {
    void *weights = raw_.get(dense_bytes(l.weights));
    if (way.packed_bytes() > 0) {
      void *const packed = packed_.get(way.packed_bytes());
      way.pack(weights, packed);
      weights = packed;
    }
    return way.bind({input_.get(dense_bytes(l.input)), weights, bias_.get(l.output.size[sdk::kC] * 4),
                     output_.get(dense_bytes(l.output)), workspace_.get(way.workspace_bytes())});
  }

 private:
  Scratch input_, output_, raw_, packed_, bias_, workspace_;
};

// The median of a few samples, in microseconds; fewer where the way is far behind the best. The first run, which brings
// code and data into the caches, is left out.
Bound::Seconds median_us(const Bound &bound, double best_us) {
  constexpr double kSamplesUs = 2e4; // what a way's samples may take together
  const auto sample = [&bound] {
    const Bound::Seconds s = bound.time();
    return Bound::Seconds{s.total * 1e6, s.reorders * 1e6};
  };
  Bound::Seconds seen = sample();
  if (seen.total > 10 * best_us) return seen;
  seen = sample();
  if (seen.total > 2 * best_us) return seen;
  const size_t count = std::clamp<size_t>(static_cast<size_t>(kSamplesUs / (seen.total + 1)), 3, 51);
  std::vector<Bound::Seconds> samples(count);
  std::generate(samples.begin(), samples.end(), sample);
  std::nth_element(samples.begin(), samples.begin() + static_cast<ptrdiff_t>(count / 2), samples.end(),
                   [](const Bound::Seconds &a, const Bound::Seconds &b) { return a.total < b.total; });
  return samples[count / 2];
}

class Search {
 public:
  Search(const polyconv_layer &layer, const Limits &limits, const polyconv_policy &policy)
      : layer_(layer), limits_(limits), deadline_(Clock::now() + std::chrono::milliseconds(policy.tuning_ms)) {}

  std::optional<Choice> first(const std::vector<Layout> &layouts) {
    for (Candidate &candidate : candidates(layouts))
      if (const auto way = make(std::move(candidate))) return Choice{way, 0, 0, 0, false};
    return std::nullopt;
  }

  std::optional<Choice> fastest(const std::vector<Layout> &layouts) {
    // oneDNN's first choices first, so that what is far behind them is soon seen to be.
    std::vector<Candidate> all = candidates(layouts);
    const auto loops = std::find_if(all.begin(), all.end(), [](const Candidate &c) { return c.is_plain_loops(); });
    std::stable_sort(all.begin(), loops, [](const Candidate &a, const Candidate &b) { return a.rank < b.rank; });
    std::optional<Choice> best;
    int measured = 0;
    bool cut_short = false;
    Bench bench;
    for (Candidate &candidate : all) {
      cut_short = cut_short || (best && Clock::now() > deadline_);
      if (cut_short || (best && candidate.is_plain_loops())) continue;
      const auto way = make(std::move(candidate));
      if (!way) continue;
      const Bound::Seconds us = median_us(*bench.bind(*way, layer_), best ? best->us : 1e12);
      log(*way, us);
      ++measured;
      if (!best || us.total < best->us) best = Choice{way, us.total, us.reorders, 0, false};
    }
    if (best) {
      best->measured = measured;
      best->cut_short = cut_short;
    }
    return best;
  }

  const std::string &why() const { return why_; }

 private:
  using Orders = std::vector<std::pair<Order, Order>>;

  // A way that is not made yet.
  struct Candidate {
    Order input, output;
    Implementation implementation;
    size_t rank; // in oneDNN's preference

    // Hundreds of times slower than the others: only where there is nothing else.
    bool is_plain_loops() const { return implementation.name.rfind("ref", 0) == 0; }
  };

  // Plain loops last.
  std::vector<Candidate> candidates(const std::vector<Layout> &layouts) const {
    std::vector<Candidate> found;
    for (const Layout layout : layouts)
      for (const auto &[input, output] : orders(layout)) {
        std::vector<Implementation> known = implementations(layer_, input, output);
        for (size_t rank = 0; rank < known.size(); ++rank)
          found.push_back({input, output, std::move(known[rank]), rank});
      }
    std::stable_partition(found.begin(), found.end(), [](const Candidate &c) { return !c.is_plain_loops(); });
    return found;
  }

  // One channel, or one pixel, makes both orders the same memory: then both are tried, but not one against the other.
  Orders orders(Layout layout) const {
    if (layout == Layout::Any) return {{Order::Any, Order::Any}};
    const std::vector<Order> inputs = orders_of(layer_.input), outputs = orders_of(layer_.output);
    Orders result;
    for (const Order input : inputs)
      for (const Order output : outputs)
        if (input == output || inputs.size() + outputs.size() < 4) result.emplace_back(input, output);
    return result;
  }

  // NULL, with the reason kept, where the way takes more than it may.
  std::shared_ptr<const Way> make(Candidate candidate) {
    auto way =
        std::make_shared<const Way>(layer_, candidate.input, candidate.output, std::move(candidate.implementation));
    if (way->workspace_bytes() <= limits_.workspace_bytes && way->packed_bytes() <= limits_.packed_bytes) return way;
    why_ = way->name() + " takes " + std::to_string(way->workspace_bytes()) + " bytes of workspace and " +
           std::to_string(way->packed_bytes()) + " of packed weights, more than it may";
    return nullptr;
  }

  static void log(const Way &way, const Bound::Seconds &us) {
    char line[200];
    std::snprintf(line, sizeof line, "onednn: %s takes %.1f us, of which reorders %.1f", way.name().c_str(), us.total,
                  us.reorders);
    sdk::host->log(POLYCONV_LOG_DEBUG, line);
  }

  const polyconv_layer &layer_;
  const Limits limits_;
  const Clock::time_point deadline_;
  std::string why_ = "it has no implementation";
};

// In the order in which they are tried.
std::vector<Layout> layouts_of(const polyconv_layer &l, Layout layout) {
  if (layout != Layout::Auto) return {layout};
  const bool last = orders_of(l.input).front() == Order::ChannelsLast;
  return {last ? Layout::Plain : Layout::Any, last ? Layout::Any : Layout::Plain};
}

} // namespace

bool spreads_nan(const polyconv_layer &l) {
  constexpr int64_t kBlock = 16;
  if (l.input.type != POLYCONV_BF16 || l.groups != 1 || l.direction == POLYCONV_BACKWARD_WEIGHTS) return false;
  const int64_t summed = l.weights.size[l.direction == POLYCONV_FORWARD ? sdk::kC : sdk::kK];
  return summed < kBlock && summed % 2 != 0;
}

Choice choose(const polyconv_layer &layer, Layout layout, const Limits &limits, const polyconv_policy &policy) {
  Search search(layer, limits, policy);
  const std::vector<Layout> layouts = layouts_of(layer, layout);
  const std::optional<Choice> choice = policy.tuning_ms > 0 ? search.fastest(layouts) : search.first(layouts);
  if (!choice) throw sdk::Error(POLYCONV_UNSUPPORTED, "oneDNN cannot do this: " + search.why());
  return *choice;
}

} // namespace polyconv::onednn
