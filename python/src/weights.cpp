// weights.cpp - packed weights for Python: made, repacked, written to files and read from them.
// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/unique_ptr.h>

#include <cstring>
#include <memory>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

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
  return made_by(plan, layer, [&](const Plan &of, polyconv_weights **weights) {
    return polyconv_weights_create(of.plan, layer, reinterpret_cast<const void *>(raw),
                                   reinterpret_cast<void *>(memory), reinterpret_cast<void *>(stream), weights);
  });
}

std::unique_ptr<Weights> load(nb::handle plan, int32_t layer, nb::handle path, uintptr_t stream) {
  const std::string name = path_from(path);
  return made_by(plan, layer, [&](const Plan &of, polyconv_weights **weights) {
    return polyconv_weights_load(of.plan, layer, name.c_str(), nullptr, reinterpret_cast<void *>(stream), weights);
  });
}

void update(Weights &weights, uintptr_t raw, uintptr_t stream) {
  if (weights.readers != 0)
    throw Failure(POLYCONV_INVALID_ARGUMENT, "weights: " + std::to_string(weights.readers) +
                                                 " runs are reading them, expected none while they change");
  require(
      polyconv_weights_update(weights.weights, reinterpret_cast<const void *>(raw), reinterpret_cast<void *>(stream)));
}

// A look at memory of the host, as bytes.
nb::bytes look(uintptr_t address, int64_t bytes) {
  const Sample sample(reinterpret_cast<const char *>(address), bytes);
  return nb::bytes(sample.words, sample.size);
}

} // namespace

// Words from all over the memory, the whole of it where it is small. Who writes to a tensor behind its version counter,
// as PyTorch's .data lets people, changes at least one of them unless very few numbers changed; reading all would cost
// as much as packing.
Sample::Sample(const char *from, int64_t bytes) {
  if (bytes <= static_cast<int64_t>(sizeof words)) {
    size = static_cast<size_t>(bytes);
    if (size > 0) std::memcpy(words, from, size);
    return;
  }
  size = sizeof words;
  for (int64_t i = 0; i < kWords; ++i) std::memcpy(words + i * 8, from + i * (bytes / 8) / kWords * 8, 8);
}

void bind_weights(nb::module_ &module) {
  nb::class_<Weights>(module, "Weights",
                      "Packed weights: what Plan.pack and Plan.load give, and conv and Plan.run take.")
      .def_static("_pack", pack)
      .def_static("_load", load)
      .def("_update", update)
      .def(
          "save",
          [](const Weights &self, nb::handle path) {
            require(polyconv_weights_save(self.weights, path_from(path).c_str()));
          },
          nb::arg("path"))
      .def_ro("plan", &Weights::plan)
      .def_ro("layer", &Weights::layer)
      .def_ro("format", &Weights::format)
      .def_ro("bytes", &Weights::bytes);
  module.def("look", look, nb::arg("address"), nb::arg("bytes"));
}

} // namespace polyconv_python
