// region.cpp - what a region's tensors are called, its schedules by sizes, and its runs.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/region.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "runtime/threads.hpp"

namespace polyconv_ort {
namespace {

constexpr size_t kMostReported = 8, kMostChoices = 64;

// A layer or an operator before its tensors have numbers.
struct Member {
  const Recipe *recipe;
  const Operator *between; // where there is no recipe
  std::vector<Value> reads;
  Value output;
};

// The order in which they can run: each after those whose results it reads.
std::vector<Member> in_order(const Recipes &found) {
  std::vector<Member> left, ordered;
  for (const Recipe &recipe : found.taken) {
    left.push_back({&recipe, nullptr, {recipe.input}, recipe.output});
    if (recipe.residual) left.back().reads.push_back(recipe.residual);
  }
  for (const Operator &between : found.operators) left.push_back({nullptr, &between, between.inputs, between.output});
  std::set<std::string> missing;
  for (const Member &member : left) missing.insert(member.output.name());
  while (!left.empty()) {
    auto ready = std::find_if(left.begin(), left.end(), [&](const Member &member) {
      return std::none_of(member.reads.begin(), member.reads.end(),
                          [&](const Value &value) { return missing.count(value.name()) != 0; });
    });
    if (ready == left.end()) throw Error(kFail, "polyconv: the layers of a fused node wait for each other");
    missing.erase(ready->output.name());
    ordered.push_back(*ready);
    left.erase(ready);
  }
  return ordered;
}

std::string name_of(const Recipe &recipe) {
  for (const Node &node : recipe.nodes)
    if (node.type().find("Conv") != std::string::npos) return node.name().empty() ? node.output(0).name() : node.name();
  return recipe.output.name();
}

} // namespace

Region::Region(const Api &api, Place &place, const Recipes &found, const Inputs &inputs, const Inputs &outputs,
               const Settings &settings)
    : api_(api), place_(place), settings_(settings), told_(found.taken.size() + found.operators.size()) {
  std::map<std::string, int> numbers;
  std::vector<Value> read;
  auto outside = [](const Inputs &names, const std::string &name) {
    auto entry = names.find(name);
    return entry == names.end() ? -1 : static_cast<int>(entry->second);
  };
  auto number = [&](const Value &value) {
    const std::string name = value.name();
    const auto [entry, is_new] = numbers.try_emplace(name, static_cast<int>(network_.tensors.size()));
    if (is_new) network_.tensors.push_back({outside(inputs, name), outside(outputs, name)});
    return entry->second;
  };
  for (const Member &member : in_order(found)) {
    Network::Link link;
    if (member.recipe) {
      link.layer = std::make_shared<Layer>(api, place, *member.recipe, inputs, name_of(*member.recipe));
      is_fixed_ = is_fixed_ && link.layer->is_fixed();
    } else {
      link.pass = std::make_shared<Pass>(api, place, *member.between);
    }
    for (const Value &value : member.reads) link.reads.push_back(number(value)), read.push_back(value);
    link.output = number(member.output);
    network_.links.push_back(std::move(link));
  }
  for (size_t t = 0; t < network_.tensors.size(); ++t)
    if (network_.tensors[t].input >= 0) entries_.push_back(static_cast<int>(t));
  if (is_fixed_) constants_ = changing(nullptr);
  prepare(read, numbers);
}

size_t Region::layers() const {
  return static_cast<size_t>(std::count_if(network_.links.begin(), network_.links.end(),
                                           [](const Network::Link &link) { return link.layer != nullptr; }));
}

Region::Constants Region::changing(const OrtKernelContext *context) const {
  Constants result;
  for (const Network::Link &link : network_.links) {
    result.weights.push_back(link.layer ? link.layer->weights(context) : View());
    result.numbers.push_back(link.layer ? link.layer->numbers(context) : Layer::Numbers());
  }
  return result;
}

// Plans and packs for the inputs that the model tells, of one image where the batch is open, so that the first run need
// not. What fails here fails again in the run, and is told there.
void Region::prepare(const std::vector<Value> &read, const std::map<std::string, int> &names) {
  if (!is_fixed_) return;
  std::map<int, Sized> known;
  for (const Value &value : read) {
    const Shape shape = value.shape();
    known[names.at(value.name())] = {shape.type, shape.sizes};
  }
  std::vector<Sized> inputs(network_.tensors.size());
  for (int entry : entries_) {
    Sized &input = inputs[entry] = known[entry];
    if (input.sizes.size() < 3) return;
    if (input.sizes[0] < 0) input.sizes[0] = 1;
    if (std::any_of(input.sizes.begin(), input.sizes.end(), [](int64_t size) { return size < 0; })) return;
  }
  try {
    const std::shared_ptr<const Schedule> made = ready(inputs, constants_);
    if (made->bytes > 0) place_.expect(made->bytes);
  } catch (const std::exception &) { // NOLINT(bugprone-empty-catch): see above
  }
}

// NULL where there is none for these sizes.
std::shared_ptr<const Schedule> Region::find(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = ready_.begin(); entry != ready_.end(); ++entry)
    if (entry->first == key) {
      ready_.splice(ready_.begin(), ready_, entry);
      return entry->second;
    }
  return nullptr;
}

std::shared_ptr<const Schedule> Region::ready(const std::vector<Sized> &inputs, const Constants &constants) {
  std::string key;
  for (int entry : entries_)
    for (int64_t size : inputs[entry].sizes) key += std::to_string(size) + ",";
  if (!is_fixed_)
    for (size_t i = 0; i < network_.links.size(); ++i) {
      for (int64_t size : constants.weights[i].sizes) key += std::to_string(size) + ",";
      key += constants.numbers[i].key();
    }
  if (std::shared_ptr<const Schedule> kept = find(key)) return kept;
  // One at a time, since what is chosen for one size serves the next; runs of sizes that are ready go on meanwhile.
  std::lock_guard<std::mutex> making(making_);
  if (std::shared_ptr<const Schedule> kept = find(key)) return kept; // another thread was quicker
  // Sizes within a factor of two have the layouts and chains of those that came first, unless an image's bits must not
  // depend on what came before.
  std::string about = settings_.determinism == POLYCONV_DETERMINISM_INVARIANT ? key : "";
  for (int entry : entries_) {
    int64_t powers = 0;
    for (int64_t elements = elements_of(inputs[entry].sizes); elements > 1; elements /= 2) ++powers;
    about += std::to_string(powers) + ",";
  }
  if (choices_.size() > kMostChoices) choices_.clear();
  auto made = std::make_shared<const Schedule>(
      make_schedule(network_, place_, inputs, constants.weights, constants.numbers, choices_[about]));
  std::lock_guard<std::mutex> lock(mutex_);
  ready_.emplace_front(key, made);
  if (static_cast<int64_t>(ready_.size()) > settings_.plans) {
    place_.drain(); // a plan must not go while it runs
    ready_.pop_back();
  }
  ++plans_;
  if (!settings_.report.empty()) tell(*made);
  return made;
}

void Region::tell(const Schedule &schedule) {
  for (const Schedule::Step &step : schedule.steps) {
    if (!step.plan) continue;
    threads_ = std::max(threads_, step.info.threads);
    for (size_t k = 0; k < step.links.size(); ++k) {
      auto &kernels = told_[step.links[k]].kernels;
      if (kernels.size() >= kMostReported) continue;
      std::string kernel = step.info.kernel;
      if (step.links.size() > 1)
        kernel += ", a chain from layer " + network_.links[step.links[0]].layer->name() + " to " +
                  network_.links[step.links.back()].layer->name();
      kernels[step.problems[k].token()] = kernel;
    }
  }
}

void Region::run(OrtKernelContext *context) {
  const Running scope({place_.on_host() && settings_.session_pool ? context : nullptr,
                       place_.on_host() && settings_.profile ? &hands_ : nullptr});
  std::vector<Sized> inputs(network_.tensors.size());
  std::vector<void *> places(network_.tensors.size(), nullptr);
  for (int entry : entries_) {
    const View view = input_view(api_, context, static_cast<size_t>(network_.tensors[entry].input));
    inputs[entry] = {view.type, view.sizes}, places[entry] = const_cast<void *>(view.data);
  }
  const Constants changed = is_fixed_ ? Constants() : changing(context);
  const Constants &constants = is_fixed_ ? constants_ : changed;
  const std::shared_ptr<const Schedule> schedule = ready(inputs, constants);
  compute(context, *schedule, constants, std::move(places));
  std::lock_guard<std::mutex> lock(mutex_);
  ++runs_;
}

void Region::compute(OrtKernelContext *context, const Schedule &schedule, const Constants &constants,
                     std::vector<void *> outer) {
  for (size_t t = 0; t < network_.tensors.size(); ++t) {
    const int number = network_.tensors[t].output;
    if (number < 0) continue;
    const std::vector<int64_t> &sizes = schedule.tensors[t].sizes;
    OrtValue *output = nullptr;
    require(api_,
            api_.KernelContext_GetOutput(context, static_cast<size_t>(number), sizes.data(), sizes.size(), &output));
    require(api_, api_.GetTensorMutableData(output, &outer[t]));
  }
  std::shared_ptr<void> memory;
  if (schedule.bytes > 0) memory = place_.memory(context, schedule.bytes);
  auto *arena = static_cast<char *>(memory.get());
  std::vector<void *> places = outer;
  for (size_t t = 0; t < places.size(); ++t)
    if (schedule.tensors[t].inside) places[t] = arena + schedule.tensors[t].offset;
  const Pointers pointers{outer, places, arena ? arena + schedule.arena : nullptr, place_.stream(context)};
  std::vector<std::pair<int, std::unique_ptr<Watch>>> watches; // by the first link of each step
  for (const Schedule::Step &step : schedule.steps) {
    if (settings_.profile && step.turned < 0) watches.emplace_back(step.links[0], place_.watch(pointers.stream));
    run_step(context, constants, schedule, step, pointers);
    if (settings_.profile && step.turned < 0) watches.back().second->stop();
  }
  for (auto &[link, watch] : watches) add_time(told_[link], watch->seconds());
}

void Region::add_time(Told &told, double seconds) {
  std::lock_guard<std::mutex> lock(mutex_);
  told.least = told.seconds > 0 ? std::min(told.least, seconds) : seconds;
  told.seconds += seconds;
}

void Region::run_step(const OrtKernelContext *context, const Constants &constants, const Schedule &schedule,
                      const Schedule::Step &step, const Pointers &pointers) {
  if (step.turned >= 0) {
    const bool enters = step.turn.to_last;
    void *outside = pointers.outer[step.turned], *inside = pointers.places[step.turned];
    place_.turn(step.turn, enters ? outside : inside, enters ? inside : outside, pointers.stream);
    return;
  }
  if (step.plan)
    run_plan(context, constants, step, pointers);
  else
    run_pass(schedule, network_.links[step.links[0]], pointers);
}

void Region::run_pass(const Schedule &schedule, const Network::Link &link, const Pointers &pointers) {
  auto tensor = [&](int number) {
    const Schedule::Tensor &told = schedule.tensors[number];
    return Pass::Tensor{pointers.places[number], &told.sizes, told.last};
  };
  std::vector<Pass::Tensor> inputs;
  for (int number : link.reads) inputs.push_back(tensor(number));
  place_.run(*link.pass, inputs, tensor(link.output), pointers.stream);
}

void Region::run_plan(const OrtKernelContext *context, const Constants &constants, const Schedule::Step &step,
                      const Pointers &pointers) {
  polyconv::Buffers buffers;
  std::vector<std::shared_ptr<polyconv::Weights>> each; // packed for this run alone
  for (size_t k = 0; k < step.links.size(); ++k) {
    const Network::Link &link = network_.links[step.links[k]];
    const auto index = static_cast<int32_t>(k);
    const View &raw = constants.weights[step.links[k]];
    std::shared_ptr<polyconv::Weights> weights = step.weights[k];
    link.layer->fill(context, step.problems[k], raw, constants.numbers[step.links[k]], weights != nullptr, index,
                     buffers);
    if (link.residual() >= 0) buffers.residual[k] = pointers.places[link.residual()];
    if (weights && !link.layer->has_fixed_weights()) {
      weights = link.layer->packed(*step.plan, index, step.problems[k], raw, pointers.stream);
      each.push_back(weights);
    }
    if (weights) buffers.packed[k] = weights->get();
  }
  buffers.input = pointers.places[network_.links[step.links[0]].input()];
  buffers.output = pointers.places[network_.links[step.links.back()].output];
  buffers.workspace = pointers.workspace, buffers.workspace_size = static_cast<size_t>(step.info.workspace_bytes);
  polyconv::require(polyconv_run(step.plan->get(), &buffers, pointers.stream));
}

int32_t Region::threads() {
  std::lock_guard<std::mutex> lock(mutex_);
  return threads_;
}

std::string Region::report() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (size_t i = 0; i < network_.links.size(); ++i) {
    const Network::Link &link = network_.links[i];
    text += "\n" + (link.layer ? "layer " + link.layer->name() : "operator " + link.pass->name()) + "\n  nodes    " +
            (link.layer ? link.layer->text() : link.pass->text()) + "\n  runs     " + std::to_string(runs_) +
            ", plans " + std::to_string(plans_) + "\n";
    if (settings_.profile && runs_ > 0 && told_[i].seconds > 0) { // of a chain, the first layer has the time of all
      char line[96];
      std::snprintf(line, sizeof line, "  time     %.3f ms a run, least %.3f\n",
                    told_[i].seconds * 1e3 / static_cast<double>(runs_), told_[i].least * 1e3);
      text += line;
    }
    for (const auto &kernel : told_[i].kernels) text += "  kernel   " + kernel.second + " for " + kernel.first + "\n";
  }
  return text;
}

} // namespace polyconv_ort
