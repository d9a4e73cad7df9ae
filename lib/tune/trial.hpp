// trial.hpp - what is timed: steps on scratch buffers, which live no longer than the tuning.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/plan.hpp"
#include "registry/device_memory.hpp"
#include "run/bind.hpp"

#include <memory>
#include <vector>

namespace polyconv {

// One buffer for every pointer that a group's kernels may want.
class Scratch {
 public:
  Scratch(const Question &question, const Group &group);

  // The group's ends, whose pointers are these buffers in the normalised roles.
  static Ends ends(const Group &group);

  const polyconv_arguments &arguments() const { return arguments_; }

 private:
  void add(uint16_t slot, int64_t bytes);
  void add(uint16_t slot, const polyconv_tensor &tensor);
  void add_layer(const Group &group, int32_t i);
  void add_gradient(const Group &group);

  const Question &question_;
  polyconv_arguments arguments_ = {};
  std::vector<DeviceMemory> memory_;
};

// Times what the default stream does between start and stop_us: by the device's events, which the CPU has too, else by
// the wall clock around a synchronisation.
class Stopwatch {
 public:
  explicit Stopwatch(const polyconv_device &device);
  ~Stopwatch();
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;

  void start();
  double stop_us();

 private:
  const polyconv_device &device_;
  void *events_[2] = {nullptr, nullptr};
  int64_t start_ns_ = 0;
};

// The steps of some parts, ready to be run again and again. Throws Failure, as run_us does.
class Trial {
 public:
  Trial(const Question &question, const Layout &layout, const std::vector<const Part *> &parts, const Scratch &scratch);

  double run_us();

 private:
  void pack(const Part &part, const Step &step);
  void pack_layer(const Step &step, int32_t whole, int32_t i, const polyconv_offer &offer);

  const Question &question_;
  polyconv_arguments arguments_;
  std::vector<Step> steps_;
  DeviceMemory workspace_;
  std::vector<DeviceMemory> packed_;
  std::vector<std::vector<char>> host_copies_; // moving them leaves their bytes where they are
  Stopwatch watch_;
  std::unique_ptr<polyconv_bound> bound_;
};

} // namespace polyconv
