// problem.cpp - polyconv_problem for Python: its fields by name, its token, its tensors. Names of types, modes and
// activations are python/polyconv/names.py's; here are numbers alone.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>
#include <string>

#include "objects.hpp"

namespace polyconv_python {
namespace {

enum class Sort { kInt32, kInt64, kFloat, kDouble };

struct Field {
  const char *name;
  Sort sort;
  size_t offset;
  int count; // 1, or the most numbers of an array
};

#define POLYCONV_FIELD(name, sort, count) \
  { #name, Sort::sort, offsetof(polyconv_problem, name), count }
#define POLYCONV_OF_EPILOGUE(name, sort, count) \
  { #name, Sort::sort, offsetof(polyconv_problem, epilogue.name), count }
#define POLYCONV_OF_POOL(name, sort, count) \
  { "pool_" #name, Sort::sort, offsetof(polyconv_problem, epilogue.pool.name), count }

constexpr Field fields[] = {
    POLYCONV_FIELD(direction, kInt32, 1),
    POLYCONV_FIELD(transposed, kInt32, 1),
    POLYCONV_FIELD(spatial_dims, kInt32, 1),
    POLYCONV_FIELD(flip, kInt32, 1),
    POLYCONV_FIELD(batch, kInt64, 1),
    POLYCONV_FIELD(in_channels, kInt64, 1),
    POLYCONV_FIELD(out_channels, kInt64, 1),
    POLYCONV_FIELD(groups, kInt64, 1),
    POLYCONV_FIELD(input_size, kInt64, 3),
    POLYCONV_FIELD(kernel_size, kInt64, 3),
    POLYCONV_FIELD(stride, kInt64, 3),
    POLYCONV_FIELD(dilation, kInt64, 3),
    POLYCONV_FIELD(pad_begin, kInt64, 3),
    POLYCONV_FIELD(pad_end, kInt64, 3),
    POLYCONV_FIELD(output_padding, kInt64, 3),
    POLYCONV_FIELD(pad_mode, kInt32, 1),
    POLYCONV_FIELD(separable, kInt32, 1),
    POLYCONV_FIELD(pad_value, kDouble, 1),
    POLYCONV_FIELD(input_type, kInt32, 1),
    POLYCONV_FIELD(weights_type, kInt32, 1),
    POLYCONV_FIELD(output_type, kInt32, 1),
    POLYCONV_FIELD(input_layout, kInt32, 1),
    POLYCONV_FIELD(weights_layout, kInt32, 1),
    POLYCONV_FIELD(output_layout, kInt32, 1),
    POLYCONV_FIELD(has_input_strides, kInt32, 1),
    POLYCONV_FIELD(has_weights_strides, kInt32, 1),
    POLYCONV_FIELD(has_output_strides, kInt32, 1),
    POLYCONV_FIELD(input_zero_point, kInt32, 1),
    POLYCONV_FIELD(weights_zero_point, kInt32, 1),
    POLYCONV_FIELD(input_strides, kInt64, 5),
    POLYCONV_FIELD(weights_strides, kInt64, 5),
    POLYCONV_FIELD(output_strides, kInt64, 5),
    POLYCONV_OF_EPILOGUE(has_scale, kInt32, 1),
    POLYCONV_OF_EPILOGUE(has_bias, kInt32, 1),
    POLYCONV_OF_EPILOGUE(residual_from, kInt32, 1),
    POLYCONV_OF_EPILOGUE(activation, kInt32, 1),
    POLYCONV_OF_EPILOGUE(activation_alpha, kFloat, 1),
    POLYCONV_OF_EPILOGUE(residual_scale, kFloat, 1),
    POLYCONV_OF_EPILOGUE(residual_zero_point, kInt32, 1),
    POLYCONV_OF_EPILOGUE(out_scale, kFloat, 1),
    POLYCONV_OF_EPILOGUE(out_zero_point, kInt32, 1),
    POLYCONV_OF_POOL(kind, kInt32, 1),
    POLYCONV_OF_POOL(count_include_pad, kInt32, 1),
    POLYCONV_OF_POOL(window, kInt64, 3),
    POLYCONV_OF_POOL(stride, kInt64, 3),
    POLYCONV_OF_POOL(pad_begin, kInt64, 3),
    POLYCONV_OF_POOL(pad_end, kInt64, 3),
    POLYCONV_FIELD(pool_dilation, kInt64, 3),
    POLYCONV_FIELD(pool_ceil, kInt32, 1),
    POLYCONV_FIELD(has_weights_zero_points, kInt32, 1),
};

const Field &find_field(const std::string &name) {
  for (const Field &field : fields)
    if (name == field.name) return field;
  refuse("'" + name + "' is no field of a problem");
}

template <class T>
T number_from(nb::handle value, const char *name) {
  T result{};
  if (!nb::try_cast<T>(value, result))
    refuse(std::string(name) + " is " + nb::cast<std::string>(nb::repr(value)) + ", expected a number");
  return result;
}

void set_one(char *to, const Field &field, int index, nb::handle value) {
  switch (field.sort) {
    case Sort::kInt32: reinterpret_cast<int32_t *>(to)[index] = number_from<int32_t>(value, field.name); break;
    case Sort::kInt64: reinterpret_cast<int64_t *>(to)[index] = number_from<int64_t>(value, field.name); break;
    case Sort::kFloat: reinterpret_cast<float *>(to)[index] = number_from<float>(value, field.name); break;
    case Sort::kDouble: reinterpret_cast<double *>(to)[index] = number_from<double>(value, field.name); break;
  }
}

// How many of an array's numbers a problem has: one a spatial axis, and two more where batch and channels count too.
int numbers_of(const Field &field, const polyconv_problem &problem) {
  return field.count - POLYCONV_MAX_SPATIAL + problem.spatial_dims;
}

void set_field(polyconv_problem &problem, const std::string &name, nb::handle value) {
  const Field &field = find_field(name);
  char *to = reinterpret_cast<char *>(&problem) + field.offset;
  if (field.count == 1) return set_one(to, field, 0, value);
  const size_t wanted = static_cast<size_t>(numbers_of(field, problem)), count = nb::len(value);
  if (count != wanted)
    refuse(name + " has " + std::to_string(count) + " numbers, expected " + std::to_string(wanted) + " beside " +
           std::to_string(problem.spatial_dims) + " spatial axes");
  for (size_t i = 0; i < count; ++i) set_one(to, field, static_cast<int>(i), nb::object(value[i]));
}

void check_axes(const polyconv_problem &problem) {
  if (problem.spatial_dims < 1 || problem.spatial_dims > POLYCONV_MAX_SPATIAL)
    refuse("spatial_dims is " + std::to_string(problem.spatial_dims) + ", expected 1 to 3");
}

nb::object get_one(const char *from, Sort sort, int index) {
  switch (sort) {
    case Sort::kInt32: return nb::int_(reinterpret_cast<const int32_t *>(from)[index]);
    case Sort::kInt64: return nb::int_(reinterpret_cast<const int64_t *>(from)[index]);
    case Sort::kFloat: return nb::float_(reinterpret_cast<const float *>(from)[index]);
    default: return nb::float_(reinterpret_cast<const double *>(from)[index]);
  }
}

// A number, or of an array as many as the problem has axes.
nb::object get_field(const polyconv_problem &problem, const std::string &name) {
  const Field &field = find_field(name);
  const char *from = reinterpret_cast<const char *>(&problem) + field.offset;
  if (field.count == 1) return get_one(from, field.sort, 0);
  nb::list list;
  for (int i = 0; i < numbers_of(field, problem); ++i) list.append(get_one(from, field.sort, i));
  return nb::tuple(list);
}

std::string token_of(const Problem &problem) {
  size_t needed = 0;
  require(polyconv_problem_format(&problem.value, nullptr, 0, &needed));
  std::string text(needed, '\0');
  require(polyconv_problem_format(&problem.value, &text[0], text.size(), nullptr));
  text.pop_back(); // the NUL
  return text;
}

// (type, sizes, strides, offset, bytes), each of five axes N C D H W; None where the problem has no such tensor.
nb::object tensor_of(const Problem &problem, int32_t which) {
  polyconv_tensor tensor;
  int64_t bytes = 0;
  require(polyconv_problem_validate(&problem.value, 1));
  if (polyconv_problem_tensor(&problem.value, which, &tensor, &bytes) != POLYCONV_SUCCESS) return nb::none();
  nb::list sizes, strides;
  for (int axis = 0; axis < 5; ++axis) {
    sizes.append(tensor.size[axis]);
    strides.append(tensor.stride[axis]);
  }
  return nb::make_tuple(tensor.type, nb::tuple(sizes), nb::tuple(strides), tensor.offset, bytes);
}

} // namespace

void bind_problem(nb::module_ &module) {
  nb::class_<Problem>(module, "Problem", nb::is_weak_referenceable())
      .def("__init__",
           [](Problem *self, const nb::dict &values) {
             Problem made;
             if (values.contains("spatial_dims")) set_field(made.value, "spatial_dims", values["spatial_dims"]);
             check_axes(made.value); // before arrays, whose lengths follow from it
             for (auto [name, value] : values) set_field(made.value, nb::cast<std::string>(name), value);
             require(polyconv_problem_validate(&made.value, 1));
             new (self) Problem(made);
           })
      .def_static("parse",
                  [](const std::string &token) {
                    Problem made;
                    require(polyconv_problem_parse(whole_text(token, "token"), &made.value));
                    return made;
                  })
      .def("token", token_of)
      .def("tensor", tensor_of)
      .def("get", [](const Problem &self, const std::string &name) { return get_field(self.value, name); })
      .def("flops", [](const Problem &self) {
        double flops = 0;
        require(polyconv_problem_flops(&self.value, &flops));
        return flops;
      });
  nb::list names;
  for (const Field &field : fields) names.append(field.name);
  module.attr("FIELDS") = nb::tuple(names);
}

} // namespace polyconv_python
