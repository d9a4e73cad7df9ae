// plan.cpp - makes plans: normalise, decide, lay out, and one instance of each kernel.
// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.hpp"

#include "os/log.hpp"
#include "plan/told.hpp"
#include "registry/device.hpp"
#include "registry/host.hpp"
#include "token/token.hpp"

namespace polyconv {
namespace {

// Pointers that a run cannot do without.
std::vector<uint16_t> required_slots(const polyconv_plan &plan) {
  std::vector<uint16_t> slots;
  if (plan.nothing_to_run) return slots;
  const auto need = [&](bool needed, size_t slot, const polyconv_problem &problem, int32_t which) {
    polyconv_tensor tensor;
    if (needed && tensor_of(problem, which, &tensor) && bytes_of(tensor) > 0)
      slots.push_back(static_cast<uint16_t>(slot));
  };
  need(true, kSlotInput, plan.layers.front().layer.problem, POLYCONV_TENSOR_INPUT);
  need(true, kSlotOutput, plan.layers.back().layer.problem, POLYCONV_TENSOR_OUTPUT);
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const Layer &layer = plan.layers[i].layer;
    const polyconv_problem &problem = layer.problem;
    const int32_t save = layer.save();
    need(true, kSlotBias + i, problem, POLYCONV_TENSOR_BIAS);
    need(true, kSlotScale + i, problem, POLYCONV_TENSOR_SCALE);
    need(true, kSlotResidual + i, problem, POLYCONV_TENSOR_RESIDUAL); // its gradient is as one likes
    need(true, kSlotSlope + i, problem, POLYCONV_TENSOR_SLOPE);
    need(true, kSlotWeightsZeroPoint + i, problem, POLYCONV_TENSOR_WEIGHTS_ZERO_POINT);
    need(save != POLYCONV_SAVE_NONE, kSlotSaved + i, problem,
         save == POLYCONV_SAVE_ARGMAX ? POLYCONV_TENSOR_ARGMAX : POLYCONV_TENSOR_PRE_ACTIVATION);
  }
  return slots;
}

int64_t raw_bytes(const polyconv_problem &problem) {
  polyconv_tensor tensor;
  return tensor_of(problem, POLYCONV_TENSOR_WEIGHTS, &tensor) ? bytes_of(tensor) : 0;
}

void describe_weights(const Part &part, const std::shared_ptr<const KernelInstance> &instance, polyconv_plan *plan) {
  for (int32_t i = 0; i < part.group.count(); ++i) {
    PlanLayer &layer = plan->layers[static_cast<size_t>(part.group.first) + static_cast<size_t>(i)];
    layer.weights.id = part.candidate.offer.weights_format[i];
    const bool raw = layer.weights.raw();
    layer.weights.token = weights_token(layer.layer.problem, raw);
    layer.weights.bytes = raw ? raw_bytes(layer.layer.problem) : part.candidate.offer.weights_bytes[i];
    if (!raw) layer.packer = instance;
    layer.packer_layer = i;
  }
}

// The step that convolves a part; its conversions and pooling are steps beside it.
std::shared_ptr<const KernelInstance> instance_of(const Part &part, const Layout &layout,
                                                  const std::vector<Step> &steps) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (layout.steps[i].op == POLYCONV_OP_CONVOLVE && layout.steps[i].first == part.group.first) return steps[i].owner;
  return nullptr;
}

// The bytes of workspace that an instance needs; `offered` where its kernel does not say.
int64_t needed_workspace(const KernelInstance &instance, int64_t offered) {
  const polyconv_kernel &kernel = *instance.kernel;
  constexpr size_t kSize = offsetof(polyconv_kernel, workspace) + sizeof kernel.workspace; // younger than the table
  if (kernel.struct_size < kSize || kernel.workspace == nullptr) return offered;
  int64_t needed = offered;
  const polyconv_status status = ask_backend(instance.name.c_str(), "workspace", [&] {
    needed = kernel.workspace(&kernel, instance.instance);
    return POLYCONV_SUCCESS;
  });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
  if (needed > offered)
    throw failure(POLYCONV_INTERNAL, "%s offered %lld bytes of workspace and needs %lld", instance.name.c_str(),
                  static_cast<long long>(offered), static_cast<long long>(needed));
  return needed < 0 ? offered : needed;
}

// Kernels that learn their workspace in create offer the most that it may be: once they are made, the plan is laid out
// with what they need.
void settle_workspace(const std::vector<Layer> &layers, std::vector<Part> *parts, Layout *layout,
                      std::vector<Step> *steps) {
  bool less = false;
  for (Part &part : *parts) {
    const auto instance = instance_of(part, *layout, *steps);
    int64_t &bytes = part.candidate.offer.workspace_bytes;
    const int64_t needed = instance ? needed_workspace(*instance, bytes) : bytes;
    less = less || needed < bytes;
    bytes = needed;
  }
  if (!less) return;
  *layout = lay_out(layers, *parts);
  for (size_t i = 0; i < steps->size(); ++i) (*steps)[i].wires = layout->steps[i].wires;
}

void describe_part(const Part &part, polyconv_plan *plan) {
  const Candidate &candidate = part.candidate;
  if (!plan->kernel_names.empty()) plan->kernel_names += " + ";
  plan->kernel_names += names_of(candidate);
  plan->fallback = plan->fallback || candidate.fallback;
  plan->transform = plan->transform || (candidate.entry->kernel->flags & POLYCONV_KERNEL_TRANSFORM) != 0;
}

void warn_of_fallback(const polyconv_plan &plan, const std::vector<Layer> &layers) {
  if (!plan.fallback || plan.options.values.fallback != POLYCONV_FALLBACK_WARN) return;
  log(POLYCONV_LOG_WARNING, "%s on %s runs on a fallback kernel, %s; polyconv_explain says why",
      token_of(layers).c_str(), plan.device->name.c_str(), plan.kernel_names.c_str());
}

// Everything but the problem itself and its parts.
std::unique_ptr<polyconv_plan> empty_plan(const Question &question, const std::vector<Layer> &layers) {
  auto plan = std::make_unique<polyconv_plan>();
  plan->device = question.device;
  plan->options = question.options;
  plan->nothing_to_run = nothing_to_run(layers);
  plan->writes_weights = layers[0].problem.direction == POLYCONV_BACKWARD_WEIGHTS;
  plan->layers.reserve(layers.size());
  for (const Layer &layer : layers) plan->layers.push_back({layer, {}, nullptr, 0});
  return plan;
}

} // namespace

KernelInstance::KernelInstance(const StepSketch &sketch, const polyconv_policy &policy)
    : kernel(sketch.entry->kernel), name(kernel_name(*sketch.entry, sketch.config)) {
  const polyconv_layer *pointers[POLYCONV_MAX_CHAIN] = {};
  for (size_t i = 0; i < sketch.layers.size(); ++i) pointers[i] = &sketch.layers[i];
  polyconv_request request = {};
  request.struct_size = sizeof request;
  request.op = sketch.op;
  request.count = static_cast<int32_t>(sketch.layers.size());
  request.layers = pointers;
  request.policy = &policy;
  const polyconv_status status =
      ask_backend(name.c_str(), "create", [&] { return kernel->create(kernel, &request, sketch.config, &instance); });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
}

KernelInstance::~KernelInstance() {
  tell_backend(name.c_str(), "destroy", [&] { kernel->destroy(kernel, instance); });
}

std::vector<Step> instantiate(const Layout &layout, const polyconv_policy &policy) {
  std::vector<Step> steps;
  steps.reserve(layout.steps.size());
  for (const StepSketch &sketch : layout.steps) {
    const auto owner = std::make_shared<const KernelInstance>(sketch, policy);
    steps.push_back({owner->kernel, owner->instance, owner->name.c_str(), sketch.wires, owner});
  }
  return steps;
}

std::unique_ptr<polyconv_plan> make_plan(const polyconv_device &device, const polyconv_problem *problems, int32_t count,
                                         const Options &options, const Tuner &tuner) {
  const std::vector<Layer> layers = normalise(copy_problems(problems, count), options.values.save);
  Question question = make_question(device, options);
  tuner.prepare(layers, &question);
  std::string why;
  Decision decision = decide(question, tuner, layers, &why);
  std::vector<Part> &parts = decision.parts;
  if (parts.empty()) throw nobody_takes(question, layers, why);
  Layout layout = lay_out(layers, parts);
  std::unique_ptr<polyconv_plan> plan = empty_plan(question, layers);
  plan->steps = instantiate(layout, options.policy);
  settle_workspace(layers, &parts, &layout, &plan->steps);
  for (const Step &step : plan->steps)
    plan->needs_bind = plan->needs_bind || (step.kernel->flags & POLYCONV_KERNEL_NEEDS_BIND) != 0;
  plan->workspace_bytes = plan->nothing_to_run ? 0 : layout.workspace_bytes;
  int32_t math = POLYCONV_MATH_STRICT;
  for (const Part &part : parts) {
    describe_part(part, plan.get());
    describe_weights(part, instance_of(part, layout, plan->steps), plan.get());
    math = std::max(math, part.candidate.offer.math);
  }
  plan->math = math_name(math);
  plan->estimate_us = decision.us;
  plan->provenance = decision.provenance;
  plan->grouping = decision.tried.front().words();
  plan->required = required_slots(*plan);
  warn_of_fallback(*plan, layers);
  tell(*plan);
  return plan;
}

} // namespace polyconv
