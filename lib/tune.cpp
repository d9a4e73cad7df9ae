// tune.cpp - times candidates as plans of their own on scratch buffers, which lives no longer than the tuning.
// SPDX-License-Identifier: Apache-2.0
#include "tune.hpp"

#include "bind.hpp"
#include "host.hpp"
#include "os.hpp"
#include "plan.hpp"
#include "plan_memory.hpp"
#include "problem.hpp"

#include <algorithm>
#include <cstdio>

namespace polyconv {
namespace {

// A byte that makes small positive normal numbers of every float type when repeated: neither zeros, which some
// hardware multiplies faster, nor denormals, which it multiplies slower.
constexpr int32_t kScratchByte = 0x3a;

// One buffer for every pointer that a group's kernels may want.
class Scratch {
 public:
  Scratch(const Question &question, const Group &group) : question_(question) {
    const polyconv_layer &head = group.layers.front(), &tail = group.layers.back();
    const bool forward = head.direction == POLYCONV_FORWARD, chain = group.count() > 1;
    const polyconv_tensor &input = !chain && head.direction == POLYCONV_BACKWARD_DATA ? head.result : read(head);
    const polyconv_tensor &output = chain || forward ? tail.result : head.output;
    // The step before a gradient reads the caller's, whose size is another where there is pooling.
    const bool as_input = group.has_gradient && reads_gradient_as_input(head);
    add(kSlotInput, bytes_of(as_input ? group.gradient.input : input));
    add(kSlotOutput, bytes_of(group.has_gradient && !as_input ? group.gradient.input : output));
    for (int32_t i = 0; i < group.count(); ++i) add_layer(group, i);
    if (group.has_gradient && group.gradient.save != POLYCONV_SAVE_NONE)
      add(static_cast<uint16_t>(kSlotSaved + group.first), bytes_of(group.gradient.saved));
  }

  // The group's ends, whose pointers are these buffers in the normalised roles.
  Ends ends(const Group &group) const {
    Ends ends;
    ends.input = {kSlotInput, -1};
    ends.output = {kSlotOutput, -1};
    for (int32_t i = 0; i < group.count(); ++i)
      ends.residual[i] = {static_cast<uint16_t>(kSlotResidual + group.first + i), -1};
    return ends;
  }

  polyconv_arguments &arguments() { return arguments_; }

  void add(uint16_t slot, int64_t bytes) {
    memory_.emplace_back(*question_.device, bytes, question_.options.values.allocator);
    void *pointer = memory_.back().get();
    fill_memory(*question_.device, pointer, kScratchByte, bytes, nullptr);
    slots_of(arguments_)[slot] = pointer;
  }

 private:
  void add_layer(const Group &group, int32_t i) {
    const polyconv_layer &layer = group.layers[static_cast<size_t>(i)];
    const uint16_t whole = static_cast<uint16_t>(group.first + i);
    const int64_t channels = std::max(layer.input.size[1], layer.output.size[1]);
    const int64_t vector_bytes = channels * static_cast<int64_t>(sizeof(double));
    add(static_cast<uint16_t>(kSlotWeights + whole), bytes_of(layer.weights));
    if (layer.epilogue.has_bias != 0) add(static_cast<uint16_t>(kSlotBias + whole), vector_bytes);
    if (layer.epilogue.has_scale != 0) add(static_cast<uint16_t>(kSlotScale + whole), vector_bytes);
    if (layer.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER)
      add(static_cast<uint16_t>(kSlotResidual + whole), bytes_of(layer.residual));
    if (layer.save != POLYCONV_SAVE_NONE) add(static_cast<uint16_t>(kSlotSaved + whole), bytes_of(layer.saved));
  }

  const Question &question_;
  polyconv_arguments arguments_ = {};
  std::vector<DeviceMemory> memory_;
};

// Times what the default stream does between start and stop_us: by the device's events, which the CPU has too, else by
// the wall clock around a synchronisation.
class Stopwatch {
 public:
  explicit Stopwatch(const polyconv_device &device) : device_(device) {
    const polyconv_device_table &table = *device.table;
    if (table.event_create == nullptr || table.event_destroy == nullptr || table.event_record == nullptr ||
        table.event_synchronize == nullptr || table.event_elapsed == nullptr)
      return;
    for (void *&event : events_)
      if (table.event_create(device.index, &event) != POLYCONV_SUCCESS) event = nullptr;
  }
  ~Stopwatch() {
    for (void *event : events_)
      if (event != nullptr) device_.table->event_destroy(device_.index, event);
  }
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;

  void start() {
    if (events_[0] != nullptr) device_.table->event_record(device_.index, events_[0], nullptr);
    start_ns_ = os::monotonic_ns();
  }

  double stop_us() {
    double milliseconds = 0;
    const polyconv_device_table &table = *device_.table;
    const bool timed = events_[0] != nullptr && events_[1] != nullptr &&
                       table.event_record(device_.index, events_[1], nullptr) == POLYCONV_SUCCESS &&
                       table.event_synchronize(device_.index, events_[1]) == POLYCONV_SUCCESS &&
                       table.event_elapsed(device_.index, events_[0], events_[1], &milliseconds) == POLYCONV_SUCCESS;
    synchronise(device_, nullptr); // throws what went wrong on the way
    return timed ? milliseconds * 1e3 : static_cast<double>(os::monotonic_ns() - start_ns_) * 1e-3;
  }

 private:
  const polyconv_device &device_;
  void *events_[2] = {nullptr, nullptr};
  int64_t start_ns_ = 0;
};

// One candidate, ready to be run again and again.
class Trial {
 public:
  Trial(const Question &question, const Group &group, const Candidate &candidate, Scratch *scratch)
      : question_(question), arguments_(scratch->arguments()), watch_(*question.device) {
    LayoutBuilder builder;
    builder.add(group, candidate, scratch->ends(group));
    const Layout layout = builder.finish();
    steps_ = instantiate(layout, question.options.policy);
    workspace_ = DeviceMemory(*question.device, layout.workspace_bytes, question.options.values.allocator);
    arguments_.workspace = workspace_.get();
    pack(group, candidate, layout);
    bound_ = std::make_unique<polyconv_bound>(steps_, arguments_);
  }

  double run_us() {
    watch_.start();
    const polyconv_status status = bound_->run(nullptr);
    if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
    return watch_.stop_us();
  }

 private:
  void pack(const Group &group, const Candidate &candidate, const Layout &layout) {
    for (size_t step = 0; step < steps_.size(); ++step) {
      if (layout.steps[step].op != POLYCONV_OP_CONVOLVE) continue;
      for (int32_t i = 0; i < group.count(); ++i) pack_layer(steps_[step], group.first + i, i, candidate.offer);
    }
  }

  void pack_layer(const Step &step, int32_t whole, int32_t i, const polyconv_offer &offer) {
    if (std::string(offer.weights_format[i]) == POLYCONV_FORMAT_RAW) return;
    packed_.emplace_back(*question_.device, offer.weights_bytes[i], question_.options.values.allocator);
    void *&slot = slots_of(arguments_)[kSlotWeights + whole];
    const polyconv_status status = ask_backend(step.name, "pack", [&] {
      return step.kernel->pack(step.kernel, step.instance, i, slot, packed_.back().get(), nullptr);
    });
    if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
    slot = packed_.back().get();
    if (!wants_host_copy(*question_.device, *step.kernel)) return;
    host_copies_.push_back(copy_to_host(*question_.device, slot, offer.weights_bytes[i], nullptr));
    slot = host_copies_.back().data();
  }

  const Question &question_;
  polyconv_arguments arguments_;
  std::vector<Step> steps_;
  DeviceMemory workspace_;
  std::vector<DeviceMemory> packed_;
  std::vector<std::vector<char>> host_copies_; // moving them leaves their bytes where they are
  Stopwatch watch_;
  std::unique_ptr<polyconv_bound> bound_;
};

// The median of a few runs after a first one that nobody counts; fewer where one takes long.
double measure_us(Trial *trial, int64_t deadline_ns) {
  constexpr size_t kRuns = 9;
  trial->run_us();
  std::vector<double> times;
  do times.push_back(trial->run_us());
  while (times.size() < kRuns && os::monotonic_ns() < deadline_ns);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

} // namespace

void tune(const Question &question, const Group &group, std::vector<Candidate> *candidates) {
  const int64_t deadline_ns = os::monotonic_ns() + question.tuning_ns;
  Scratch scratch(question, group);
  std::vector<Candidate> measured, rest;
  for (Candidate &candidate : *candidates) {
    const bool in_time = measured.empty() || os::monotonic_ns() < deadline_ns;
    if (!candidate.accepted() || !in_time) {
      rest.push_back(candidate);
      continue;
    }
    try {
      Trial trial(question, group, candidate, &scratch);
      candidate.estimate_us = measure_us(&trial, deadline_ns);
      candidate.measured = true;
      measured.push_back(candidate);
    } catch (const Failure &failure) { // a kernel that cannot do what it offered is no choice
      log(POLYCONV_LOG_WARNING, "tuning: %s", failure.what());
      candidate.verdict = Verdict::Rejected;
      std::snprintf(candidate.offer.reason, sizeof candidate.offer.reason, "failed while it was timed: %s",
                    failure.what());
      rest.push_back(candidate);
    }
  }
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Candidate &a, const Candidate &b) { return a.estimate_us < b.estimate_us; });
  *candidates = std::move(measured);
  candidates->insert(candidates->end(), rest.begin(), rest.end());
}

} // namespace polyconv
