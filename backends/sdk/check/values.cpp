// values.cpp - see values.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "values.hpp"

#include <polyconv/sdk/epilogue.hpp>

#include <limits>

namespace polyconv::check {

int64_t element_count(const polyconv_tensor &t) {
  return t.size[0] * t.size[1] * t.size[2] * t.size[3] * t.size[4];
}

void indices_of(const polyconv_tensor &tensor, int64_t dense, int64_t (&index)[5]) {
  for (int axis = 4; axis >= 0; --axis) {
    index[axis] = dense % tensor.size[axis];
    dense /= tensor.size[axis];
  }
}

void encode(const polyconv_tensor &tensor, const Values &values, void *memory) {
  for_elements(tensor, [&](int64_t i, int64_t offset) {
    sdk::store_as(memory, tensor.type, offset, values[static_cast<size_t>(i)]);
  });
}

Values decode(const polyconv_tensor &tensor, const void *memory) {
  Values values(static_cast<size_t>(element_count(tensor)));
  for_elements(tensor, [&](int64_t i, int64_t offset) {
    values[static_cast<size_t>(i)] = sdk::load_as<double>(memory, tensor.type, offset);
  });
  return values;
}

double stored_as(int32_t type, double v) {
  double memory = 0;
  sdk::store_as(&memory, type, 0, v);
  return sdk::load_as<double>(&memory, type, 0);
}

polyconv_tensor dense(const polyconv_tensor &tensor, int32_t type) {
  polyconv_tensor result = tensor;
  result.type = type;
  result.offset = 0;
  int64_t stride = 1;
  for (int axis = 4; axis >= 0; --axis) {
    result.stride[axis] = stride;
    stride *= tensor.size[axis];
  }
  return result;
}

bool is_integer(int32_t type) {
  return sdk::is_integer_type(type);
}

double unit_roundoff(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return 0x1p-53;
    case POLYCONV_F32: return 0x1p-24;
    case POLYCONV_F16: return 0x1p-11;
    case POLYCONV_BF16: return 0x1p-8;
    default: return 0;
  }
}

double smallest(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return std::numeric_limits<double>::denorm_min();
    case POLYCONV_F32: return static_cast<double>(std::numeric_limits<float>::denorm_min());
    case POLYCONV_F16: return 0x1p-24;
    case POLYCONV_BF16: return 0x1p-133;
    default: return 0;
  }
}

double lowest(int32_t type) {
  return type == POLYCONV_S8 ? -128 : type == POLYCONV_S32 ? -0x1p31 : 0;
}

double highest(int32_t type) {
  switch (type) {
    case POLYCONV_S8: return 127;
    case POLYCONV_U8: return 255;
    case POLYCONV_U16: return 65535;
    default: return 0x1p31 - 1;
  }
}

} // namespace polyconv::check
