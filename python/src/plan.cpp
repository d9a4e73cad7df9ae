// plan.cpp - plans for Python: options by name, what was chosen, and runs on plain addresses. The faces above look at
// arrays and check them; a run here makes the library's own O(1) checks.
// SPDX-License-Identifier: Apache-2.0
#include <limits>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

// A list of addresses, 0 where there is none, into one of polyconv_buffers' arrays.
template <class T>
void take_addresses(nb::handle from, T (&to)[POLYCONV_MAX_CHAIN], const char *name) {
  if (from.is_none()) return;
  const size_t count = nb::len(from);
  if (count > POLYCONV_MAX_CHAIN)
    refuse(std::string(name) + " has " + std::to_string(count) + " layers, expected at most 8");
  for (size_t i = 0; i < count; ++i) to[i] = reinterpret_cast<T>(nb::cast<uintptr_t>(nb::object(from[i])));
}

// Runs with the global lock released. `buffers` has no pointer of Python's own.
void run(const Plan &plan, polyconv_buffers &buffers, uintptr_t stream) {
  polyconv_status status;
  std::string sentence;
  {
    const Unlocked unlocked;
    status = polyconv_buffers_check(plan.plan, &buffers);
    if (status == POLYCONV_SUCCESS) status = polyconv_run(plan.plan, &buffers, reinterpret_cast<void *>(stream));
    if (status != POLYCONV_SUCCESS) sentence = polyconv_last_error(); // this thread's, until its next failure
  }
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
}

// Any plan: one argument for each of polyconv_buffers' fields; arrays by layer.
void run_chain(const Plan &plan, const nb::dict &from, uintptr_t stream) {
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  const auto address = [&](const char *name) -> void * {
    return from.contains(name) ? reinterpret_cast<void *>(nb::cast<uintptr_t>(from[name])) : nullptr;
  };
  const auto layers = [&](const char *name) -> nb::object {
    return from.contains(name) ? nb::object(from[name]) : nb::object(nb::none());
  };
  buffers.input = address("input");
  buffers.output = address("output");
  buffers.workspace = address("workspace");
  buffers.workspace_size = buffers.workspace != nullptr ? static_cast<size_t>(plan.info.workspace_bytes) : 0;
  take_addresses(layers("weights"), buffers.weights, "weights");
  take_addresses(layers("bias"), buffers.bias, "bias");
  take_addresses(layers("scale"), buffers.scale, "scale");
  take_addresses(layers("residual"), buffers.residual, "residual");
  take_addresses(layers("saved"), buffers.saved, "saved");
  take_addresses(layers("slope"), buffers.slope, "slope");
  take_addresses(layers("weights_zero_point"), buffers.weights_zero_point, "weights_zero_point");
  take_addresses(layers("residual_gradient"), buffers.residual_gradient, "residual_gradient");
  std::vector<nb::object> held; // weights of another thread may be dropped while we run
  std::vector<std::unique_ptr<Reading>> reading;
  const nb::object packed = layers("packed");
  for (size_t i = 0; !packed.is_none() && i < nb::len(packed) && i < POLYCONV_MAX_CHAIN; ++i) {
    nb::object one = packed[i];
    if (one.is_none()) continue;
    const auto *weights = nb::cast<const Weights *>(one);
    buffers.packed[i] = weights->weights;
    held.push_back(std::move(one));
    reading.push_back(std::make_unique<Reading>(weights));
  }
  run(plan, buffers, stream);
}

nb::tuple weights_of(const Plan &plan, int32_t layer) {
  const char *format = nullptr;
  int64_t bytes = 0;
  require(polyconv_plan_weights(plan.plan, layer, &format, &bytes));
  return nb::make_tuple(format, bytes);
}

} // namespace

namespace {

std::string text_option(const std::string &name, nb::handle value) {
  if (!PyUnicode_Check(value.ptr()))
    refuse(name + " is " + nb::cast<std::string>(nb::repr(value)) + ", expected a name");
  return nb::cast<std::string>(value);
}

// A whole number, true and false among them where `least` is 0 and `most` 1.
template <class T>
void take_whole(const std::string &name, nb::handle value, T &to, int64_t least = std::numeric_limits<T>::min(),
                int64_t most = std::numeric_limits<T>::max()) {
  const bool flag = least == 0 && most == 1;
  const nb::object number = nb::steal(PyBool_Check(value.ptr()) && !flag ? nullptr : PyNumber_Index(value.ptr()));
  int overflow = 0;
  const int64_t found = number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : 0;
  PyErr_Clear();
  if (!number.is_valid() || overflow != 0 || found < least || found > most)
    refuse(name + " is " + nb::cast<std::string>(nb::repr(value)) + ", expected " +
           (flag ? "True or False" : "a whole number of " + std::to_string(8 * sizeof(T)) + " bits"));
  to = static_cast<T>(found);
}

} // namespace

polyconv_options options_from(const nb::dict &from, std::string (&texts)[2]) {
  polyconv_options options;
  polyconv_options_init(&options);
  for (auto [key, value] : from) {
    const auto name = nb::cast<std::string>(key);
    if (name == "kernel" || name == "grouping") {
      std::string &text = texts[name == "grouping"];
      text = text_option(name, value);
      (name == "kernel" ? options.kernel : options.grouping) = whole_text(text, name.c_str());
    } else if (name == "math") {
      take_whole(name, value, options.math);
    } else if (name == "determinism") {
      take_whole(name, value, options.determinism);
    } else if (name == "fallback") {
      take_whole(name, value, options.fallback);
    } else if (name == "threads") {
      take_whole(name, value, options.threads);
    } else if (name == "workspace_limit") {
      take_whole(name, value, options.workspace_limit);
    } else if (name == "tuning_budget_ms") {
      take_whole(name, value, options.tuning_budget_ms);
    } else if (name == "dynamic_weights") {
      take_whole(name, value, options.dynamic_weights, 0, 1);
    } else if (name == "new_weights") { // in every run
      int32_t are_new = 0;
      take_whole(name, value, are_new, 0, 1);
      if (are_new != 0) options.dynamic_weights = POLYCONV_WEIGHTS_NEW;
    } else if (name == "checked") {
      take_whole(name, value, options.checked, 0, 1);
    } else if (name == "save") {
      take_whole(name, value, options.save);
    } else if (name == "shared_threads") { // not the C API's: so many of the OpenMP runtime that share_openmp found
      options.parallel_for = shared_parallel_for();
      options.parallel_for_context = reinterpret_cast<void *>(nb::cast<intptr_t>(value));
    } else if (name == "shared_memory_limit") {
      take_whole(name, value, options.shared_memory_limit);
    } else {
      refuse("'" + name + "' is no option of a plan");
    }
  }
  return options;
}

const polyconv_device *find_device(const std::string &name) {
  const polyconv_device *device = nullptr;
  require(polyconv_device_find(whole_text(name, "device"), &device));
  return device;
}

Plan::Plan(const std::string &device_name, const nb::list &from, const nb::dict &options_by_name)
    : device(find_device(device_name)) {
  for (nb::handle problem : from) problems.push_back(nb::cast<const Problem &>(problem).value);
  const polyconv_options options = options_from(options_by_name, texts);
  dynamic = options.dynamic_weights != 0;
  polyconv_status status;
  std::string sentence;
  {
    const Unlocked unlocked; // tuning takes as long as its budget
    status = polyconv_plan_create(device, problems.data(), static_cast<int32_t>(problems.size()), &options, &plan);
    if (status != POLYCONV_SUCCESS) sentence = polyconv_last_error();
  }
  if (status != POLYCONV_SUCCESS) throw Failure(status, sentence);
  info.struct_size = sizeof info;
  require(polyconv_plan_get_info(plan, &info));
}

void bind_plan(nb::module_ &module) {
  nb::class_<Plan>(module, "Plan")
      .def(nb::init<const std::string &, const nb::list &, const nb::dict &>())
      .def("run_chain", run_chain)
      .def("weights", weights_of)
      .def(
          "problem",
          [](const Plan &p, size_t layer) {
            if (layer >= p.problems.size())
              refuse("layer is " + std::to_string(layer) + ", expected one below " + std::to_string(p.problems.size()));
            Problem problem;
            problem.value = p.problems[layer];
            return problem;
          })
      .def_prop_ro("kernel", [](const Plan &p) { return p.info.kernel; })
      .def_prop_ro("math", [](const Plan &p) { return p.info.math; })
      .def_prop_ro("workspace_bytes", [](const Plan &p) { return p.info.workspace_bytes; })
      .def_prop_ro("estimate_us", [](const Plan &p) { return p.info.estimate_us; })
      .def_prop_ro("measured_on", [](const Plan &p) { return p.info.measured_on; })
      .def_prop_ro("measured_elsewhere", [](const Plan &p) { return p.info.measured_elsewhere != 0; })
      .def_prop_ro("steps", [](const Plan &p) { return p.info.step_count; })
      .def_prop_ro("fallback", [](const Plan &p) { return p.info.fallback != 0; })
      .def_prop_ro("threads", [](const Plan &p) { return p.info.threads; })
      .def_prop_ro("transform", [](const Plan &p) { return p.info.transform != 0; })
      .def_prop_ro("layers", [](const Plan &p) { return p.problems.size(); });
}

} // namespace polyconv_python
