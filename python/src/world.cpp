// world.cpp - what is there and why: devices, backends, explanations, and memory of a device.
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

nb::list backends() {
  nb::list list;
  const int32_t count = polyconv_backend_count();
  for (int32_t i = 0; i < count; ++i) {
    polyconv_backend_info info = {};
    info.struct_size = sizeof info;
    require(polyconv_backend_get(i, &info));
    nb::list kernels;
    for (int32_t k = 0; const char *name = polyconv_backend_kernel(i, k); ++k) kernels.append(name);
    list.append(nb::make_tuple(info.name, info.version, info.path, info.device_kind, info.reason, info.available != 0,
                               nb::tuple(kernels)));
  }
  return list;
}

nb::list devices() {
  nb::list list;
  const int32_t count = polyconv_device_count();
  for (int32_t i = 0; i < count; ++i) {
    polyconv_device_properties properties = {};
    properties.struct_size = sizeof properties;
    const char *name = polyconv_device_name(i);
    require(polyconv_device_get_properties(find_device(name), &properties));
    list.append(nb::make_tuple(name, properties.name, properties.description, properties.memory_bytes,
                               properties.compute_units, properties.compute_capability));
  }
  return list;
}

nb::tuple explain(const std::string &device, const nb::list &problems, const nb::dict &options_by_name) {
  std::vector<polyconv_problem> values;
  for (nb::handle problem : problems) values.push_back(nb::cast<const Problem &>(problem).value);
  std::string texts[2];
  const polyconv_options options = options_from(options_by_name, texts);
  polyconv_explanation *made = nullptr;
  require(polyconv_explain(find_device(device), values.data(), static_cast<int32_t>(values.size()), &options, &made));
  const std::unique_ptr<polyconv_explanation, void (*)(polyconv_explanation *)> holder(made,
                                                                                       polyconv_explanation_destroy);
  nb::list candidates;
  const int32_t count = polyconv_explanation_count(made);
  for (int32_t i = 0; i < count; ++i) {
    polyconv_candidate c = {};
    c.struct_size = sizeof c;
    require(polyconv_explanation_get(made, i, &c));
    candidates.append(nb::make_tuple(c.kernel, c.accepted != 0, c.chosen != 0, c.fallback != 0, c.estimate_us,
                                     c.workspace_bytes, c.reason, c.grouping, c.note, c.measured != 0,
                                     c.measured_on != nullptr ? c.measured_on : "", c.measured_elsewhere != 0));
  }
  return nb::make_tuple(polyconv_explanation_text(made), candidates);
}

} // namespace

Memory::Memory(const std::string &name, size_t count) : device(find_device(name)), bytes(count) {
  require(polyconv_device_alloc(device, count, POLYCONV_MEMORY_DEVICE, &pointer));
}

void bind_world(nb::module_ &module) {
  nb::class_<Memory>(module, "Memory")
      .def(nb::init<const std::string &, size_t>())
      .def_prop_ro("pointer", [](const Memory &m) { return reinterpret_cast<uintptr_t>(m.pointer); })
      .def_ro("bytes", &Memory::bytes);
  module.def("backends", backends);
  module.def("devices", devices);
  module.def("explain", explain);
  module.def("load_backend", [](nb::handle path) { require(polyconv_backend_load(path_from(path).c_str())); });
}

} // namespace polyconv_python
