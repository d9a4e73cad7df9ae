// schedule.cpp - layouts by estimates, chains, and the order of steps.
//
// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "../../onnx/geometry.hpp"
#include "schedule/placement.hpp"
#include "schedule/plans.hpp"

namespace polyconv_ort {
namespace {

constexpr size_t kMostInAChain = POLYCONV_MAX_CHAIN;
constexpr double kBetter = 0.95;     // what another layout must save: estimates are no better than that
constexpr double kWorthwhile = 0.98; // of the layers' estimates one by one: above it a chain would fuse nothing

class Planner {
 public:
  Planner(const Network &network, const Place &place, const std::vector<Sized> &inputs,
          const std::vector<View> &weights, const std::vector<Layer::Numbers> &numbers)
      : network_(network),
        place_(place),
        weights_(weights),
        numbers_(numbers),
        options_(place.options()),
        comparing_(options_),
        plans_(place.device()) {
    if (is_invariant()) comparing_.threads = 1;
    propagate(inputs);
    estimates_.resize(network_.links.size());
  }

  Schedule make(Choice &choice) {
    group();
    if (choice.pieces.empty()) {
      Choice made; // whole, or not at all
      if (network_.links.size() > 1) choose_layouts();
      for (size_t t = 0; t < tensors().size(); ++t) made.last.push_back(last(static_cast<int>(t)));
      made.pieces = chains();
      choice = std::move(made);
    } else {
      last_ = choice.last; // a group has the number of one of its tensors
    }
    for (size_t t = 0; t < tensors().size(); ++t) {
      tensors()[t].last = last(static_cast<int>(t));
      tensors()[t].inside = !outside(static_cast<int>(t)) || tensors()[t].last;
    }
    order(feasible(choice.pieces));
    place_tensors(network_, schedule_);
    return std::move(schedule_);
  }

 private:
  std::vector<Schedule::Tensor> &tensors() { return schedule_.tensors; }
  const std::vector<Schedule::Tensor> &tensors() const { return schedule_.tensors; }
  bool outside(int tensor) const { return network_.tensors[tensor].input >= 0 || network_.tensors[tensor].output >= 0; }

  // Sizes and types of all tensors, and each link's problem with channels first.
  void propagate(const std::vector<Sized> &inputs) {
    tensors().resize(network_.tensors.size());
    for (size_t t = 0; t < inputs.size(); ++t) tensors()[t].type = inputs[t].type, tensors()[t].sizes = inputs[t].sizes;
    for (size_t i = 0; i < network_.links.size(); ++i) {
      const Network::Link &link = network_.links[i];
      if (link.pass) {
        std::vector<std::vector<int64_t>> sizes;
        for (int tensor : link.reads) sizes.push_back(tensors()[tensor].sizes);
        tensors()[link.output].sizes = link.pass->output_sizes(sizes), tensors()[link.output].type = link.pass->type();
        problems_.emplace_back();
        continue;
      }
      const Schedule::Tensor &input = tensors()[link.input()];
      problems_.push_back(link.layer->problem(input.type, input.sizes, weights_[i], numbers_[i]));
      Schedule::Tensor &output = tensors()[link.output];
      output.sizes = polyconv_onnx::output_sizes(problems_[i]), output.type = link.layer->output_type();
      if (link.residual() >= 0) require_shape(tensors()[link.residual()].sizes, problems_[i]);
    }
  }

  static void require_shape(const std::vector<int64_t> &added, polyconv::Problem problem) {
    problem.epilogue.pool = {}; // which comes after the addition
    const std::vector<int64_t> sizes = polyconv_onnx::output_sizes(problem);
    if (added == sizes) return;
    throw Error(kInvalidArgument, "polyconv: the tensor that is added is " + text_of(added) +
                                      ", but the model says that it has the convolution's shape, which is " +
                                      text_of(sizes));
  }

  // A residual lies as its layer's result does, and so does what an operator reads and writes, where that makes a
  // difference: such tensors share a group, which has one layout.
  void group() {
    group_.resize(tensors().size());
    std::iota(group_.begin(), group_.end(), 0);
    for (const Network::Link &link : network_.links) {
      if (link.residual() >= 0) join(link.residual(), link.output);
      for (int tensor : link.reads)
        if (link.pass && !link.pass->is_average() && has_pixels(tensor) && has_pixels(link.output))
          join(tensor, link.output);
    }
    last_.assign(tensors().size(), false);
  }

  void join(int a, int b) {
    const int from = group_[a], to = group_[b];
    std::replace(group_.begin(), group_.end(), from, to);
  }

  bool has_pixels(int tensor) const { // more than one
    const std::vector<int64_t> &sizes = tensors()[tensor].sizes;
    return std::any_of(sizes.begin() + 2, sizes.end(), [](int64_t size) { return size != 1; });
  }

  bool last(int tensor) const { return last_[group_[tensor]]; }

  polyconv::Problem laid_out(int i) const {
    return laid_out(i, last(network_.links[i].input()), last(network_.links[i].output));
  }
  polyconv::Problem laid_out(int i, bool input_last, bool output_last) const {
    polyconv::Problem problem = problems_[i];
    problem.input_layout = input_last ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
    problem.output_layout = output_last ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
    return problem;
  }

  // What decides layouts and chains. Where an image must have the same bits in any batch and on any number of threads,
  // it is the estimate for one image on one thread, as in the library's own choice of kernels.
  double estimate(const Problems &problems) { return plans_.of(compared(problems), comparing_).estimate; }
  Problems compared(Problems problems) const {
    if (is_invariant())
      for (polyconv::Problem &problem : problems) problem.batch = 1;
    return problems;
  }
  bool is_invariant() const { return options_.determinism == POLYCONV_DETERMINISM_INVARIANT; }

  double turning(size_t tensor) const {
    auto bytes = static_cast<double>(tensors()[tensor].bytes());
    if (is_invariant()) bytes /= static_cast<double>(std::max<int64_t>(1, tensors()[tensor].sizes[0]));
    return place_.turning(bytes);
  }

  // Of layer i as it lies now. The search for layouts asks thousands of times, for four answers a layer.
  double layer_estimate(int i) {
    const size_t which = (last(network_.links[i].input()) ? 2 : 0) + (last(network_.links[i].output) ? 1 : 0);
    std::optional<double> &kept = estimates_[i][which];
    if (!kept) kept = estimate({laid_out(i)});
    return *kept;
  }

  double cost(int group) {
    double sum = 0;
    for (int i : touched_[group]) sum += layer_estimate(i);
    for (size_t t = 0; t < tensors().size(); ++t)
      if (group_[t] == group && outside(static_cast<int>(t)) && last_[group]) sum += turning(t);
    return sum;
  }

  // Groups take turns in changing to what is better for their neighbours, until none does. Two beginnings, since
  // neighbours may hold each other where they are.
  void choose_layouts() {
    touched_.assign(tensors().size(), {});
    for (size_t i = 0; i < network_.links.size(); ++i)
      if (network_.links[i].layer)
        for (int group : std::set<int>{group_[network_.links[i].input()], group_[network_.links[i].output]})
          touched_[group].push_back(static_cast<int>(i));
    std::vector<bool> inner(tensors().size(), true), first(tensors().size(), false), matters(tensors().size(), false);
    for (size_t t = 0; t < tensors().size(); ++t) {
      if (outside(static_cast<int>(t)) && std::count(group_.begin(), group_.end(), group_[t]) == 1)
        inner[group_[t]] = false;
      if (has_pixels(static_cast<int>(t))) matters[group_[t]] = true;
    }
    for (size_t group = 0; group < touched_.size(); ++group)
      if (!matters[group]) touched_[group].clear(), first[group] = inner[group]; // of one pixel: both ways are the same
    prepare_estimates(inner);
    std::vector<bool> best;
    double least = std::numeric_limits<double>::infinity();
    for (const auto &beginning : {inner, first}) {
      last_ = beginning;
      const double sum = settle();
      if (best.empty() || sum < kBetter * least) best = last_, least = sum;
    }
    last_ = best;
  }

  // The plans whose estimates the search will ask for. `beginning` is how groups lie that do not change.
  void prepare_estimates(const std::vector<bool> &beginning) {
    std::vector<Problems> wanted;
    for (size_t i = 0; i < network_.links.size(); ++i) {
      if (!network_.links[i].layer) continue;
      const int from = group_[network_.links[i].input()], to = group_[network_.links[i].output];
      auto may = [&](int group, bool is_last) { return !touched_[group].empty() || beginning[group] == is_last; };
      for (const bool in : {false, true})
        for (const bool out : {false, true})
          if (may(from, in) && may(to, out) && (from != to || in == out))
            wanted.push_back(compared({laid_out(static_cast<int>(i), in, out)}));
    }
    plans_.prepare(wanted, comparing_);
  }

  double settle() {
    constexpr int kRounds = 4;
    bool changed = true;
    for (int round = 0; round < kRounds && changed; ++round) {
      changed = false;
      for (size_t group = 0; group < touched_.size(); ++group) {
        if (touched_[group].empty()) continue;
        const double before = cost(static_cast<int>(group));
        last_[group] = !last_[group];
        if (cost(static_cast<int>(group)) < kBetter * before)
          changed = true;
        else
          last_[group] = !last_[group];
      }
    }
    double sum = 0;
    for (size_t i = 0; i < network_.links.size(); ++i)
      if (network_.links[i].layer) sum += layer_estimate(static_cast<int>(i));
    for (size_t t = 0; t < tensors().size(); ++t)
      if (outside(static_cast<int>(t)) && last(static_cast<int>(t))) sum += turning(t);
    return sum;
  }

  // The layer that alone reads what link i writes, and as its input; -1 for none.
  int follower(int i) const {
    const int tensor = network_.links[i].output;
    if (outside(tensor)) return -1;
    int found = -1;
    for (size_t k = 0; k < network_.links.size(); ++k) {
      const std::vector<int> &reads = network_.links[k].reads;
      if (std::find(reads.begin(), reads.end(), tensor) == reads.end()) continue;
      if (found >= 0 || !network_.links[k].layer || network_.links[k].residual() == tensor) return -1;
      found = static_cast<int>(k);
    }
    return found;
  }

  Pieces chains() {
    const Pieces longest = runs_of_layers();
    std::vector<Problems> wanted;
    for (const std::vector<int> &piece : longest)
      if (piece.size() > 1) wanted.push_back(compared(chained(piece)));
    plans_.prepare(wanted, comparing_);
    Pieces pieces;
    for (const std::vector<int> &piece : longest)
      if (piece.size() == 1 || is_faster(piece))
        pieces.push_back(piece);
      else
        for (int i : piece) pieces.push_back({i});
    return pieces;
  }

  // The longest that could be chains, and operators, each alone.
  Pieces runs_of_layers() const {
    Pieces pieces;
    std::vector<bool> done(network_.links.size(), false);
    for (size_t i = 0; i < network_.links.size(); ++i) {
      if (done[i]) continue;
      if (network_.links[i].pass) {
        pieces.push_back({static_cast<int>(i)});
        continue;
      }
      std::vector<int> piece;
      for (int k = static_cast<int>(i); k >= 0 && piece.size() < kMostInAChain; k = follower(k))
        piece.push_back(k), done[k] = true;
      pieces.push_back(piece);
    }
    return pieces;
  }

  Problems chained(const std::vector<int> &piece) const {
    Problems problems;
    for (int i : piece) {
      problems.push_back(laid_out(i));
      if (network_.links[i].residual() >= 0 && network_.links[i].residual() == network_.links[piece[0]].input())
        problems.back().epilogue.residual_from = POLYCONV_RESIDUAL_INPUT;
    }
    return problems;
  }

  Problems problems_of(const std::vector<int> &piece) const {
    return piece.size() == 1 ? Problems{laid_out(piece[0])} : chained(piece);
  }

  bool is_faster(const std::vector<int> &piece) {
    double alone = 0;
    for (int i : piece) alone += layer_estimate(i);
    return estimate(chained(piece)) < kWorthwhile * alone;
  }

  // Of pieces that were chosen for other sizes: a chain that nobody takes at these comes layer by layer.
  Pieces feasible(const Pieces &chosen) {
    std::vector<Problems> wanted;
    for (const std::vector<int> &piece : chosen)
      if (network_.links[piece[0]].layer) wanted.push_back(problems_of(piece));
    plans_.prepare(wanted, options_);
    Pieces pieces;
    for (const std::vector<int> &piece : chosen)
      if (piece.size() == 1 || plans_.of(chained(piece), options_).plan)
        pieces.push_back(piece);
      else
        for (int i : piece) pieces.push_back({i});
    return pieces;
  }

  // Steps in an order in which each comes after those that it reads; turns where tensors enter and leave.
  void order(Pieces pieces) {
    std::vector<bool> there(tensors().size(), false);
    for (size_t t = 0; t < tensors().size(); ++t) there[t] = network_.tensors[t].input >= 0;
    std::vector<bool> turned(tensors().size(), false);
    while (!pieces.empty()) {
      auto ready = std::find_if(pieces.begin(), pieces.end(), [&](const std::vector<int> &piece) {
        const std::vector<int> read = network_.read_by(piece);
        return std::all_of(read.begin(), read.end(), [&](int tensor) { return there[tensor]; });
      });
      if (ready == pieces.end()) throw Error(kFail, "polyconv: the layers of a fused node wait for each other");
      for (int tensor : network_.read_by(*ready))
        if (network_.tensors[tensor].input >= 0 && last(tensor) && !turned[tensor])
          add_turn(tensor, true), turned[tensor] = true;
      if (network_.links[(*ready)[0]].pass) {
        schedule_.steps.emplace_back();
        schedule_.steps.back().links = *ready;
      } else {
        add_plan(*ready);
      }
      const int output = network_.links[ready->back()].output;
      there[output] = true;
      if (network_.tensors[output].output >= 0 && last(output)) add_turn(output, false);
      pieces.erase(ready);
    }
  }

  void add_turn(int tensor, bool to_last) {
    Schedule::Step step;
    step.turned = tensor;
    step.turn = {tensors()[tensor].sizes, size_of(tensors()[tensor].type), to_last};
    schedule_.steps.push_back(std::move(step));
  }

  void add_plan(const std::vector<int> &piece) {
    Schedule::Step step;
    step.links = piece;
    step.problems = problems_of(piece);
    const Made &made = plans_.of(step.problems, options_);
    step.plan =
        made.plan ? made.plan : std::make_shared<const polyconv::Plan>(step.problems, options_, place_.device());
    step.info = made.info;
    for (size_t k = 0; k < piece.size(); ++k)
      step.weights.push_back(network_.links[piece[k]].layer->packed(*step.plan, static_cast<int32_t>(k),
                                                                    step.problems[k], weights_[piece[k]], nullptr));
    schedule_.steps.push_back(std::move(step));
  }

  const Network &network_;
  const Place &place_;
  const std::vector<View> &weights_;
  const std::vector<Layer::Numbers> &numbers_;
  polyconv::Options options_, comparing_; // of plans that run; of those whose estimates are compared
  Plans plans_;
  std::vector<polyconv::Problem> problems_;
  std::vector<int> group_;
  std::vector<bool> last_; // by group
  std::vector<std::vector<int>> touched_;
  std::vector<std::array<std::optional<double>, 4>> estimates_; // by link and by where its ends have their channels
  Schedule schedule_;
};

} // namespace

size_t Schedule::Tensor::bytes() const {
  size_t product = size_of(type);
  for (int64_t size : sizes) product *= static_cast<size_t>(size);
  return product;
}

Schedule make_schedule(const Network &network, const Place &place, const std::vector<Sized> &inputs,
                       const std::vector<View> &weights, const std::vector<Layer::Numbers> &numbers, Choice &choice) {
  return Planner(network, place, inputs, weights, numbers).make(choice);
}

} // namespace polyconv_ort
