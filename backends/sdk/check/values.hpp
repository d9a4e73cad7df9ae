// values.hpp - a tensor as the check sees it: dense doubles in order N C D H W, which hold every element type exactly;
// and its way into and out of memory in any type and strides.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <vector>

namespace polyconv::check {

using Values = std::vector<double>;

int64_t element_count(const polyconv_tensor &tensor);

// Calls visit(dense index, offset in elements from the pointer) for every element, in dense order.
template <class Visit>
void for_elements(const polyconv_tensor &t, const Visit &visit) {
  int64_t i = 0;
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t c = 0; c < t.size[1]; ++c)
      for (int64_t d = 0; d < t.size[2]; ++d)
        for (int64_t h = 0; h < t.size[3]; ++h) {
          int64_t offset = t.offset + n * t.stride[0] + c * t.stride[1] + d * t.stride[2] + h * t.stride[3];
          for (int64_t w = 0; w < t.size[4]; ++w, offset += t.stride[4]) visit(i++, offset);
        }
}

// The five indices of a dense index.
void indices_of(const polyconv_tensor &tensor, int64_t dense, int64_t (&index)[5]);

// Writes all elements to memory that begins at the tensor's pointer, rounded to its type; reads them back.
void encode(const polyconv_tensor &tensor, const Values &values, void *memory);
Values decode(const polyconv_tensor &tensor, const void *memory);

// The value that a type stores for v.
double stored_as(int32_t type, double v);

// The tensor's shape in memory of its own: dense, channels first, of another type.
polyconv_tensor dense(const polyconv_tensor &tensor, int32_t type);

bool is_integer(int32_t type);

// Half the distance from 1 to the next number of a float type, and the smallest number above 0.
double unit_roundoff(int32_t type);
double smallest(int32_t type);

// The least and greatest values of an integer type.
double lowest(int32_t type);
double highest(int32_t type);

} // namespace polyconv::check
