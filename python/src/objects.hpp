// objects.hpp - the handles of polyconv.h as Python objects: a problem, a plan, packed weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_PYTHON_OBJECTS_HPP
#define POLYCONV_PYTHON_OBJECTS_HPP

#include "status.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace polyconv_python {

struct Problem {
  polyconv_problem value;
  Problem() { polyconv_problem_init(&value); }
};

struct Plan {
  polyconv_plan *plan = nullptr;
  const polyconv_device *device = nullptr;
  polyconv_plan_info info = {};
  std::vector<polyconv_problem> problems;
  std::string texts[2]; // kernel and grouping, which the options point to
  bool dynamic = false; // planned with dynamic_weights

  Plan(const std::string &device_name, const nb::list &from, const nb::dict &options);
  Plan(const Plan &) = delete;
  ~Plan() { polyconv_plan_destroy(plan); }
};

// Packed weights, and how many runs read them now: a repack meanwhile is refused.
struct Weights {
  polyconv_weights *weights = nullptr;
  nb::object plan; // the first plan that made them
  std::string format;
  int32_t layer = 0;
  int64_t bytes = 0;
  const int64_t serial; // of this object and no other
  mutable std::atomic<int> readers{0};

  Weights() : serial(next_serial()) {}
  Weights(const Weights &) = delete;
  ~Weights() { polyconv_weights_destroy(weights); }

 private:
  static int64_t next_serial() {
    static std::atomic<int64_t> last{0};
    return ++last;
  }
};

// While it lives the weights are being read.
class Reading {
 public:
  explicit Reading(const Weights *weights) : weights_(weights) {
    if (weights_ != nullptr) ++weights_->readers;
  }
  Reading(const Reading &) = delete;
  ~Reading() {
    if (weights_ != nullptr) --weights_->readers;
  }

 private:
  const Weights *weights_;
};

// A look at memory of the host, by which a change of it is seen.
struct Sample {
  static constexpr int64_t kWords = 24;
  char words[kWords * 8];
  size_t size;
  Sample(const char *from, int64_t bytes);
};

// Memory of a device that lives as long as the object: workspaces of plans that Python runs.
struct Memory {
  const polyconv_device *device;
  void *pointer = nullptr;
  size_t bytes;
  Memory(const std::string &name, size_t count);
  Memory(const Memory &) = delete;
  ~Memory() { polyconv_device_free(device, pointer, POLYCONV_MEMORY_DEVICE); }
};

// Reads polyconv_options from a dictionary by field names; texts is where its strings live.
polyconv_options options_from(const nb::dict &from, std::string (&texts)[2]);

// The device called so; NULL's name is the CPU's.
const polyconv_device *find_device(const std::string &name);

// Runs tasks on another library's OpenMP runtime, with the number of threads as its context; null where share_openmp of
// Python found none.
polyconv_parallel_for shared_parallel_for();

void bind_problem(nb::module_ &module);
void bind_plan(nb::module_ &module);
void bind_weights(nb::module_ &module);
void bind_tune(nb::module_ &module);
void bind_openmp(nb::module_ &module);
void bind_world(nb::module_ &module);

} // namespace polyconv_python
#endif // POLYCONV_PYTHON_OBJECTS_HPP
