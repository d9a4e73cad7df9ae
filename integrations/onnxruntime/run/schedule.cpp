// schedule.cpp - layouts by estimates, chains, the order of steps, and the arena.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/schedule.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "../../onnx/geometry.hpp"
#include "run/arena.hpp"

namespace polyconv_ort {
namespace {

constexpr size_t kMostInAChain = POLYCONV_MAX_CHAIN;
constexpr double kBetter = 0.95;     // what another layout must save: estimates are no better than that
constexpr double kWorthwhile = 0.98; // of the layers' estimates one by one: above it a chain would fuse nothing

class Planner {
 public:
  Planner(const Network &network, const Place &place, const std::vector<Sized> &inputs,
          const std::vector<View> &weights, const std::vector<Layer::Numbers> &numbers)
      : network_(network), place_(place), weights_(weights), numbers_(numbers), options_(place.options()) {
    propagate(inputs);
  }

  Schedule make(Layouts &layouts) {
    group();
    if (layouts.empty()) {
      if (network_.links.size() > 1) choose_layouts();
      for (size_t t = 0; t < tensors().size(); ++t) layouts.push_back(last(static_cast<int>(t)));
    } else {
      last_ = layouts; // a group has the number of one of its tensors
    }
    for (size_t t = 0; t < tensors().size(); ++t) {
      tensors()[t].last = last(static_cast<int>(t));
      tensors()[t].inside = !outside(static_cast<int>(t)) || tensors()[t].last;
    }
    order(chains());
    place();
    return std::move(schedule_);
  }

 private:
  using Pieces = std::vector<std::vector<int>>; // links, each piece one plan

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
    polyconv::Problem problem = problems_[i];
    const Network::Link &link = network_.links[i];
    problem.input_layout = last(link.input()) ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
    problem.output_layout = last(link.output) ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
    return problem;
  }

  struct Made {
    std::shared_ptr<const polyconv::Plan> plan; // NULL: nobody takes it
    polyconv_plan_info info = {};
    double estimate = std::numeric_limits<double>::infinity();
  };

  // What decides layouts and chains. Where an image must have the same bits in any batch and on any number of threads,
  // it is the estimate for one image on one thread, as in the library's own choice of kernels.
  double estimate(std::vector<polyconv::Problem> problems) {
    if (!is_invariant()) return plan(problems, options_).estimate;
    for (polyconv::Problem &problem : problems) problem.batch = 1;
    polyconv::Options alone = options_;
    alone.threads = 1;
    return plan(problems, alone).estimate;
  }
  bool is_invariant() const { return options_.determinism == POLYCONV_DETERMINISM_INVARIANT; }

  double turning(size_t tensor) const {
    auto bytes = static_cast<double>(tensors()[tensor].bytes());
    if (is_invariant()) bytes /= static_cast<double>(std::max<int64_t>(1, tensors()[tensor].sizes[0]));
    return place_.turning(bytes);
  }

  // The plan of some problems. Layers that are alike share one.
  const Made &plan(const std::vector<polyconv::Problem> &problems, const polyconv::Options &options) {
    std::string key = std::to_string(options.threads) + "|";
    for (const polyconv::Problem &problem : problems) key += problem.token() + "|";
    const auto [entry, is_new] = made_.try_emplace(key);
    if (is_new) try {
        auto plan = std::make_shared<const polyconv::Plan>(problems, options, place_.device());
        entry->second.info = plan->info();
        entry->second.estimate = entry->second.info.estimate_us, entry->second.plan = std::move(plan);
      } catch (const polyconv::Error &) { // where it matters, the step asks again and has the sentence
      }
    return entry->second;
  }

  double cost(int group) {
    double sum = 0;
    for (int i : touched_[group]) sum += estimate({laid_out(i)});
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
    std::vector<bool> inner(tensors().size(), true);
    for (size_t t = 0; t < tensors().size(); ++t)
      if (outside(static_cast<int>(t)) && std::count(group_.begin(), group_.end(), group_[t]) == 1)
        inner[group_[t]] = false;
    std::vector<bool> best;
    double least = std::numeric_limits<double>::infinity();
    for (const auto &beginning : {inner, std::vector<bool>(tensors().size(), false)}) {
      last_ = beginning;
      const double sum = settle();
      if (best.empty() || sum < kBetter * least) best = last_, least = sum;
    }
    last_ = best;
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
      if (network_.links[i].layer) sum += estimate({laid_out(static_cast<int>(i))});
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
      if (piece.size() > 1 && is_faster(piece))
        pieces.push_back(piece);
      else
        for (int k : piece) pieces.push_back({k});
    }
    return pieces;
  }

  std::vector<polyconv::Problem> chained(const std::vector<int> &piece) const {
    std::vector<polyconv::Problem> problems;
    for (int i : piece) {
      problems.push_back(laid_out(i));
      if (network_.links[i].residual() >= 0 && network_.links[i].residual() == network_.links[piece[0]].input())
        problems.back().epilogue.residual_from = POLYCONV_RESIDUAL_INPUT;
    }
    return problems;
  }

  bool is_faster(const std::vector<int> &piece) {
    double alone = 0;
    for (int i : piece) alone += estimate({laid_out(i)});
    return estimate(chained(piece)) < kWorthwhile * alone;
  }

  // Steps in an order in which each comes after those that it reads; turns where tensors enter and leave.
  void order(Pieces pieces) {
    std::vector<bool> there(tensors().size(), false);
    for (size_t t = 0; t < tensors().size(); ++t) there[t] = network_.tensors[t].input >= 0;
    std::vector<bool> turned(tensors().size(), false);
    while (!pieces.empty()) {
      auto ready = std::find_if(pieces.begin(), pieces.end(), [&](const std::vector<int> &piece) {
        const std::vector<int> read = reads(piece);
        return std::all_of(read.begin(), read.end(), [&](int tensor) { return there[tensor]; });
      });
      if (ready == pieces.end()) throw Error(kFail, "polyconv: the layers of a fused node wait for each other");
      for (int tensor : reads(*ready))
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

  // The tensors that a piece reads from outside it.
  std::vector<int> reads(const std::vector<int> &piece) const {
    std::vector<int> result = network_.links[piece[0]].reads;
    for (size_t k = 1; k < piece.size(); ++k)
      if (network_.links[piece[k]].residual() >= 0) result.push_back(network_.links[piece[k]].residual());
    return result;
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
    step.problems = piece.size() == 1 ? std::vector<polyconv::Problem>{laid_out(piece[0])} : chained(piece);
    const Made &made = plan(step.problems, options_);
    step.plan =
        made.plan ? made.plan : std::make_shared<const polyconv::Plan>(step.problems, options_, place_.device());
    step.info = made.info;
    for (size_t k = 0; k < piece.size(); ++k)
      step.weights.push_back(network_.links[piece[k]].layer->packed(*step.plan, static_cast<int32_t>(k),
                                                                    step.problems[k], weights_[piece[k]], nullptr));
    schedule_.steps.push_back(std::move(step));
  }

  // The arena: a tensor's place is free again after the last step that reads it.
  void place() {
    std::vector<size_t> last_use(tensors().size(), 0);
    for (size_t s = 0; s < schedule_.steps.size(); ++s) for_each_tensor(s, [&](int tensor) { last_use[tensor] = s; });
    Arena arena;
    std::vector<bool> placed(tensors().size(), false);
    size_t workspace = 0;
    for (size_t s = 0; s < schedule_.steps.size(); ++s) {
      const Schedule::Step &step = schedule_.steps[s];
      workspace = std::max(workspace, static_cast<size_t>(step.info.workspace_bytes));
      const int written = step.turned >= 0 ? step.turned : network_.links[step.links.back()].output;
      const int reused = step.turned >= 0 ? -1 : in_place(step, s, last_use);
      if (reused >= 0)
        tensors()[written].offset = tensors()[reused].offset, placed[written] = true, placed[reused] = false;
      else if (tensors()[written].inside && !placed[written])
        tensors()[written].offset = arena.take(tensors()[written].bytes()), placed[written] = true;
      for_each_tensor(s, [&](int tensor) {
        if (placed[tensor] && last_use[tensor] == s) arena.give(tensors()[tensor].offset), placed[tensor] = false;
      });
    }
    schedule_.arena = arena.bytes(), schedule_.bytes = arena.bytes() + workspace;
  }

  template <class Visit>
  void for_each_tensor(size_t s, Visit visit) {
    const Schedule::Step &step = schedule_.steps[s];
    if (step.turned >= 0) return visit(step.turned);
    for (int tensor : reads(step.links)) visit(tensor);
    visit(network_.links[step.links.back()].output);
  }

  // The residual, or what an elementwise operator reads, into whose place the step's result goes, which saves a
  // tensor's way through memory; -1 for none.
  int in_place(const Schedule::Step &step, size_t s, const std::vector<size_t> &last_use) {
    const Network::Link &link = network_.links[step.links.back()];
    auto fits = [&](int tensor) {
      const Schedule::Tensor &from = tensors()[tensor], &to = tensors()[link.output];
      return last_use[tensor] == s && from.inside && to.inside && from.bytes() == to.bytes();
    };
    if (link.pass) {
      auto found = std::find_if(link.reads.begin(), link.reads.end(), fits);
      return link.pass->is_elementwise() && found != link.reads.end() ? *found : -1;
    }
    const int residual = link.residual();
    if (residual < 0 || residual == network_.links[step.links[0]].input()) return -1;
    for (size_t k = 0; k + 1 < step.links.size(); ++k)
      if (network_.links[step.links[k]].residual() == residual) return -1;
    return step.problems.back().epilogue.pool.kind == POLYCONV_POOL_NONE && fits(residual) ? residual : -1;
  }

  const Network &network_;
  const Place &place_;
  const std::vector<View> &weights_;
  const std::vector<Layer::Numbers> &numbers_;
  polyconv::Options options_;
  std::vector<polyconv::Problem> problems_;
  std::vector<int> group_;
  std::vector<bool> last_; // by group
  std::vector<std::vector<int>> touched_;
  std::map<std::string, Made> made_;
  Schedule schedule_;
};

} // namespace

size_t Schedule::Tensor::bytes() const {
  size_t product = size_of(type);
  for (int64_t size : sizes) product *= static_cast<size_t>(size);
  return product;
}

Schedule make_schedule(const Network &network, const Place &place, const std::vector<Sized> &inputs,
                       const std::vector<View> &weights, const std::vector<Layer::Numbers> &numbers, Layouts &layouts) {
  return Planner(network, place, inputs, weights, numbers).make(layouts);
}

} // namespace polyconv_ort
