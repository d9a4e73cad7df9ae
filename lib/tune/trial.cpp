// trial.cpp - scratch buffers, a stopwatch, and steps that are run on the one and timed by the other.
// SPDX-License-Identifier: Apache-2.0
#include "tune/trial.hpp"

#include "os/os.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "registry/device.hpp"
#include "registry/host.hpp"

#include <algorithm>

namespace polyconv {
namespace {

// A byte that makes small positive normal numbers of every float type when repeated: neither zeros, which some
// hardware multiplies faster, nor denormals, which it multiplies slower.
constexpr int32_t kScratchByte = 0x3a;

} // namespace

Scratch::Scratch(const Question &question, const Group &group) : question_(question) {
  const polyconv_layer &head = group.layers.front(), &tail = group.layers.back();
  const bool forward = head.direction == POLYCONV_FORWARD, chain = group.count() > 1;
  const polyconv_tensor &input = !chain && head.direction == POLYCONV_BACKWARD_DATA ? head.result : read(head);
  const polyconv_tensor &output = chain || forward ? tail.result : head.output;
  // The step before a gradient reads the caller's, whose size is another where there is pooling.
  const bool as_input = group.has_gradient && reads_gradient_as_input(head);
  add(kSlotInput, as_input ? group.gradient.input : input);
  add(kSlotOutput, group.has_gradient && !as_input ? group.gradient.input : output);
  for (int32_t i = 0; i < group.count(); ++i) add_layer(group, i);
  if (group.has_gradient) add_gradient(group);
}

Ends Scratch::ends(const Group &group) {
  Ends ends;
  ends.input = {kSlotInput, -1};
  ends.output = {kSlotOutput, -1};
  for (int32_t i = 0; i < group.count(); ++i)
    ends.residual[i] = {static_cast<uint16_t>(kSlotResidual + group.first + i), -1};
  return ends;
}

void Scratch::add(uint16_t slot, int64_t bytes) {
  memory_.emplace_back(*question_.device, bytes, question_.options.values.allocator);
  void *pointer = memory_.back().get();
  fill_memory(*question_.device, pointer, kScratchByte, bytes, nullptr);
  slots_of(arguments_)[slot] = pointer;
}

// With what lies before the pointer where strides are negative.
void Scratch::add(uint16_t slot, const polyconv_tensor &tensor) {
  const int64_t before = elements_before(tensor) * static_cast<int64_t>(polyconv_type_size(tensor.type));
  add(slot, before + bytes_of(tensor));
  void *&pointer = slots_of(arguments_)[slot];
  pointer = static_cast<char *>(pointer) + before;
}

void Scratch::add_layer(const Group &group, int32_t i) {
  const polyconv_layer &layer = group.layers[static_cast<size_t>(i)];
  const uint16_t whole = static_cast<uint16_t>(group.first + i);
  const int64_t channels = std::max(layer.input.size[1], layer.output.size[1]);
  const int64_t vector_bytes = channels * static_cast<int64_t>(sizeof(double));
  add(static_cast<uint16_t>(kSlotWeights + whole), layer.weights);
  if (layer.epilogue.has_bias != 0) add(static_cast<uint16_t>(kSlotBias + whole), vector_bytes);
  if (layer.epilogue.has_scale != 0) add(static_cast<uint16_t>(kSlotScale + whole), vector_bytes);
  if (layer.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER)
    add(static_cast<uint16_t>(kSlotResidual + whole), layer.residual);
  if (layer.save != POLYCONV_SAVE_NONE) add(static_cast<uint16_t>(kSlotSaved + whole), layer.saved);
  if (layer.epilogue.activation == POLYCONV_ACT_PRELU) add(static_cast<uint16_t>(kSlotSlope + whole), vector_bytes);
  if ((layer.traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS) != 0)
    add(static_cast<uint16_t>(kSlotWeightsZeroPoint + whole), vector_bytes);
}

// What the step before a gradient's layer has besides input and output; nobody wants the residual's gradient.
void Scratch::add_gradient(const Group &group) {
  const polyconv_layer &step = group.gradient;
  const int64_t vector_bytes = step.result.size[1] * static_cast<int64_t>(sizeof(double));
  const auto add_vector = [&](bool has, uint16_t base) {
    if (has) add(static_cast<uint16_t>(base + group.first), vector_bytes);
  };
  if (step.save != POLYCONV_SAVE_NONE) add(static_cast<uint16_t>(kSlotSaved + group.first), step.saved);
  add_vector(step.epilogue.has_scale != 0, kSlotScale);
  add_vector(step.epilogue.has_bias != 0, kSlotBias);
  add_vector(step.epilogue.activation == POLYCONV_ACT_PRELU, kSlotSlope);
}

Stopwatch::Stopwatch(const polyconv_device &device) : device_(device) {
  const polyconv_device_table &table = *device.table;
  if (table.event_create == nullptr || table.event_destroy == nullptr || table.event_record == nullptr ||
      table.event_synchronize == nullptr || table.event_elapsed == nullptr)
    return;
  for (void *&event : events_)
    if (table.event_create(device.index, &event) != POLYCONV_SUCCESS) event = nullptr;
}

Stopwatch::~Stopwatch() {
  for (void *event : events_)
    if (event != nullptr)
      tell_backend(device_.name.c_str(), "event_destroy", [&] { device_.table->event_destroy(device_.index, event); });
}

void Stopwatch::start() {
  if (events_[0] != nullptr) device_.table->event_record(device_.index, events_[0], nullptr);
  start_ns_ = os::monotonic_ns();
}

double Stopwatch::stop_us() {
  double milliseconds = 0;
  const polyconv_device_table &table = *device_.table;
  const bool timed = events_[0] != nullptr && events_[1] != nullptr &&
                     table.event_record(device_.index, events_[1], nullptr) == POLYCONV_SUCCESS &&
                     table.event_synchronize(device_.index, events_[1]) == POLYCONV_SUCCESS &&
                     table.event_elapsed(device_.index, events_[0], events_[1], &milliseconds) == POLYCONV_SUCCESS;
  synchronise(device_, nullptr); // throws what went wrong on the way
  return timed ? milliseconds * 1e3 : static_cast<double>(os::monotonic_ns() - start_ns_) * 1e-3;
}

Trial::Trial(const Question &question, const Layout &layout, const std::vector<const Part *> &parts,
             const Scratch &scratch)
    : question_(question), arguments_(scratch.arguments()), watch_(*question.device) {
  steps_ = instantiate(layout, question.options.policy);
  workspace_ = DeviceMemory(*question.device, layout.workspace_bytes, question.options.values.allocator);
  arguments_.workspace = workspace_.get();
  for (size_t step = 0; step < steps_.size(); ++step)
    for (const Part *part : parts)
      if (layout.steps[step].op == POLYCONV_OP_CONVOLVE && layout.steps[step].first == part->group.first)
        pack(*part, steps_[step]);
  bound_ = std::make_unique<polyconv_bound>(steps_, arguments_);
}

double Trial::run_us() {
  watch_.start();
  const polyconv_status status = bound_->run(nullptr);
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  return watch_.stop_us();
}

void Trial::pack(const Part &part, const Step &step) {
  for (int32_t i = 0; i < part.group.count(); ++i) pack_layer(step, part.group.first + i, i, part.candidate.offer);
}

void Trial::pack_layer(const Step &step, int32_t whole, int32_t i, const polyconv_offer &offer) {
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

} // namespace polyconv
