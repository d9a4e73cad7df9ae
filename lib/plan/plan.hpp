// plan.hpp - step 4 of the way through the code: an immutable plan, which is a short list of kernel instances and
// where their pointers come from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/status.hpp"
#include "plan/decide.hpp"

#include <memory>
#include <string>
#include <vector>

namespace polyconv {

// What a kernel made for a plan; given back when the last plan or weights object that uses it goes.
class KernelInstance {
 public:
  // Throws Failure with the kernel's sentence.
  KernelInstance(const StepSketch &sketch, const polyconv_policy &policy);
  ~KernelInstance();
  KernelInstance(const KernelInstance &) = delete;
  KernelInstance &operator=(const KernelInstance &) = delete;

  const polyconv_kernel *const kernel;
  const std::string name; // "openmp/gemm@avx512"
  void *instance = nullptr;
};

struct Step {
  const polyconv_kernel *kernel;
  void *instance;
  const char *name;
  std::vector<Wire> wires;
  std::shared_ptr<const KernelInstance> owner; // of the three above
};

// What packed weights must agree in to be interchangeable.
struct WeightsFormat {
  std::string id;    // "raw", or "<id>:<version>"
  std::string token; // the weight problem
  int64_t bytes = 0;

  bool raw() const { return id == POLYCONV_FORMAT_RAW; }
  friend bool operator==(const WeightsFormat &a, const WeightsFormat &b) {
    return a.bytes == b.bytes && a.id == b.id && a.token == b.token;
  }
  friend bool operator!=(const WeightsFormat &a, const WeightsFormat &b) { return !(a == b); }
};

struct PlanLayer {
  Layer layer;
  WeightsFormat weights;
  std::shared_ptr<const KernelInstance> packer; // NULL where the format is raw
  int32_t packer_layer = 0;
};

// The steps of a layout, each with its kernel's instance. Throws Failure.
std::vector<Step> instantiate(const Layout &layout, const polyconv_policy &policy);

// options.observer, if there is one.
struct Observer {
  polyconv_observer function = nullptr;
  void *context = nullptr;

  void before_run(void *stream) const noexcept { after_step(-1, "", stream); }
  void after_step(int32_t step, const char *kernel, void *stream) const noexcept {
    if (function != nullptr) function(context, step, kernel, stream);
  }
};

// One step: its pointers, and its run.
void fill_arguments(const Step &step, polyconv_arguments &from, polyconv_arguments *arguments) noexcept;
polyconv_status run_step(const Step &step, const polyconv_arguments &arguments, void *stream) noexcept;

// Runs steps on pointers in the caller's roles (see select/layout.hpp). Never throws; a failing step ends it.
polyconv_status run_steps(const std::vector<Step> &steps, polyconv_arguments &from, const Observer &observer,
                          void *stream) noexcept;

} // namespace polyconv

struct polyconv_plan {
  const polyconv_device *device = nullptr;
  polyconv::Options options;
  std::vector<polyconv::PlanLayer> layers;
  std::vector<polyconv::Step> steps;
  std::vector<uint16_t> required; // slots of the caller's pointers that must not be NULL; weights are looked at apart
  int64_t workspace_bytes = 0;
  bool nothing_to_run = false; // an empty batch
  bool writes_weights = false; // BACKWARD_WEIGHTS
  bool needs_bind = false;
  bool fallback = false;
  bool transform = false;
  double estimate_us = 0;
  polyconv::Provenance provenance; // of that time
  std::string grouping;            // as options.grouping; "none" of a single layer
  std::string kernel_names;        // "openmp/gemm@avx512 + openmp/pool@avx512"
  const char *math = "";

  polyconv::Observer observer() const noexcept { return {options.values.observer, options.values.observer_context}; }
};

namespace polyconv {

// Plans. Throws Failure.
std::unique_ptr<polyconv_plan> make_plan(const polyconv_device &device, const polyconv_problem *problems, int32_t count,
                                         const Options &options, const Tuner &tuner);

// The sentence for a problem that nobody takes, and its status.
Failure nobody_takes(const Question &question, const std::vector<Layer> &layers, const std::string &why);

} // namespace polyconv
