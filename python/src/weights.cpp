// weights.cpp - packed weights for Python: made, repacked, written to files and read from them.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <memory>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

// Words from all over raw weights in host memory. Who writes to a tensor behind its version counter, as PyTorch's .data
// lets people, changes at least one of them unless very few numbers changed; reading all would cost as much as packing.
std::vector<uint64_t> samples_of(const Plan &plan, int32_t layer, const void *raw) {
  constexpr int64_t kMost = 24;
  int64_t bytes = 0;
  polyconv_tensor tensor;
  require(
      polyconv_problem_tensor(&plan.problems[static_cast<size_t>(layer)], POLYCONV_TENSOR_WEIGHTS, &tensor, &bytes));
  const int64_t words = bytes / 8, count = words < kMost ? words : kMost;
  std::vector<uint64_t> samples(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(&samples[static_cast<size_t>(i)], static_cast<const char *>(raw) + i * words / count * 8, 8);
  return samples;
}

bool on_host(const Plan &plan) {
  return plan.device == find_device(nullptr);
}

// Fills what every way of making weights has; `make` calls the library.
template <class Make>
std::unique_ptr<Weights> made_by(nb::handle plan, int32_t layer, Make make) {
  auto result = std::make_unique<Weights>();
  const auto &of = nb::cast<const Plan &>(plan);
  const char *format = nullptr;
  require(polyconv_plan_weights(of.plan, layer, &format, &result->bytes));
  require(make(of, &result->weights));
  result->format = format;
  result->layer = layer;
  result->plan = nb::borrow(plan);
  return result;
}

std::unique_ptr<Weights> pack(nb::handle plan, int32_t layer, uintptr_t raw, uintptr_t memory, uintptr_t stream) {
  auto made = made_by(plan, layer, [&](const Plan &of, polyconv_weights **weights) {
    return polyconv_weights_create(of.plan, layer, reinterpret_cast<const void *>(raw),
                                   reinterpret_cast<void *>(memory), reinterpret_cast<void *>(stream), weights);
  });
  const auto &of = nb::cast<const Plan &>(plan);
  if (on_host(of)) made->samples = samples_of(of, layer, reinterpret_cast<const void *>(raw));
  return made;
}

std::unique_ptr<Weights> load(nb::handle plan, int32_t layer, const char *path, uintptr_t stream) {
  return made_by(plan, layer, [&](const Plan &of, polyconv_weights **weights) {
    return polyconv_weights_load(of.plan, layer, path, nullptr, reinterpret_cast<void *>(stream), weights);
  });
}

void update(Weights &weights, uintptr_t raw, uintptr_t stream) {
  if (weights.readers != 0)
    throw Failure(POLYCONV_INVALID_ARGUMENT, "weights: " + std::to_string(weights.readers) +
                                                 " runs are reading them, expected none while they change");
  require(
      polyconv_weights_update(weights.weights, reinterpret_cast<const void *>(raw), reinterpret_cast<void *>(stream)));
  const auto &plan = nb::cast<const Plan &>(weights.plan);
  if (on_host(plan)) weights.samples = samples_of(plan, weights.layer, reinterpret_cast<const void *>(raw));
}

// Whether raw weights look like those that were packed; always so where nothing can be seen from the host.
bool matches(const Weights &weights, uintptr_t raw) {
  if (weights.samples.empty()) return true;
  return weights.samples ==
         samples_of(nb::cast<const Plan &>(weights.plan), weights.layer, reinterpret_cast<const void *>(raw));
}

} // namespace

void bind_weights(nb::module_ &module) {
  nb::class_<Weights>(module, "Weights",
                      "Packed weights: what Plan.pack and Plan.load give, and conv and Plan.run take.")
      .def_static("_pack", pack)
      .def_static("_load", load)
      .def("_update", update)
      .def("_matches", matches)
      .def("save", [](const Weights &self, const char *path) { require(polyconv_weights_save(self.weights, path)); })
      .def_ro("plan", &Weights::plan)
      .def_ro("layer", &Weights::layer)
      .def_ro("format", &Weights::format)
      .def_ro("bytes", &Weights::bytes);
}

} // namespace polyconv_python
