// naive_layer.hpp - a whole float layer in any direction by its definition, in double, on plain arrays: written from
// polyconv.h alone, with none of the library's arithmetic. An axis is padded and cropped by a list of which element
// each padded coordinate holds, as numpy.pad and a slice would make it; pooling is PyTorch's loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace naive {

using Values = std::vector<double>;

// Sizes N C D H W (K C/g D R S), dense in this order.
struct Array {
  int64_t size[5] = {1, 1, 1, 1, 1};
  Values values;
  Array() = default;
  explicit Array(const int64_t (&sizes)[5]) {
    int64_t count = 1;
    for (int i = 0; i < 5; ++i) count *= size[i] = sizes[i];
    values.assign(static_cast<size_t>(count), 0);
  }
  double &at(int64_t a, int64_t b, const int64_t (&i)[3]) {
    return values[static_cast<size_t>((((a * size[1] + b) * size[2] + i[0]) * size[3] + i[1]) * size[4] + i[2])];
  }
};

struct Axis {
  int64_t size = 1, taps = 1, stride = 1, dilation = 1, steps = 1; // steps: outputs, or inputs of a transposed layer
  std::vector<int64_t> element;                                    // by padded coordinate; -1 for padding of 0
};

// The axis that is padded is the input's, or the output's of a transposed layer.
inline Axis axis_of(const polyconv_problem &p, int axis, int64_t padded_size, int64_t steps) {
  const int entry = axis - (3 - p.spatial_dims);
  Axis a;
  a.size = padded_size;
  a.steps = steps;
  int64_t begin = 0, end = 0;
  if (entry >= 0) {
    a.taps = p.kernel_size[entry], a.stride = p.stride[entry], a.dilation = p.dilation[entry];
    begin = p.pad_begin[entry], end = p.pad_end[entry];
  }
  std::vector<int64_t> kept;
  for (int64_t i = std::max<int64_t>(-begin, 0); i < padded_size - std::max<int64_t>(-end, 0); ++i) kept.push_back(i);
  const int64_t count = static_cast<int64_t>(kept.size());
  for (int64_t i = -std::max<int64_t>(begin, 0); i < count + std::max<int64_t>(end, 0); ++i) {
    if (i >= 0 && i < count)
      a.element.push_back(kept[static_cast<size_t>(i)]);
    else if (p.pad_mode == POLYCONV_PAD_REPLICATE)
      a.element.push_back(i < 0 ? kept.front() : kept.back());
    else if (p.pad_mode == POLYCONV_PAD_CIRCULAR)
      a.element.push_back(kept[static_cast<size_t>(((i % count) + count) % count)]);
    else
      a.element.push_back(-1);
  }
  return a;
}

// visit(n, k, c in the group, o, r, i): every product of the convolution from the padded tensor to the other one.
template <class Visit>
void for_products(const polyconv_problem &p, const Axis (&axes)[3], const Visit &visit) {
  const int64_t filters = p.transposed != 0 ? p.in_channels : p.out_channels;
  const int64_t channels = (p.transposed != 0 ? p.out_channels : p.in_channels) / p.groups;
  int64_t o[3], r[3], i[3];
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t k = 0; k < filters; ++k)
      for (int64_t c = 0; c < channels; ++c)
        for (o[0] = 0; o[0] < axes[0].steps; ++o[0])
          for (o[1] = 0; o[1] < axes[1].steps; ++o[1])
            for (o[2] = 0; o[2] < axes[2].steps; ++o[2])
              for (r[0] = 0; r[0] < axes[0].taps; ++r[0])
                for (r[1] = 0; r[1] < axes[1].taps; ++r[1])
                  for (r[2] = 0; r[2] < axes[2].taps; ++r[2]) {
                    bool inside = true;
                    for (int axis = 0; axis < 3; ++axis) {
                      const Axis &a = axes[axis];
                      const auto at = static_cast<size_t>(o[axis] * a.stride + r[axis] * a.dilation);
                      i[axis] = at < a.element.size() ? a.element[at] : -1;
                      inside = inside && i[axis] >= 0;
                    }
                    if (inside) visit(n, k, k / (filters / p.groups) * channels + c, c, o, r, i);
                  }
}

// The convolution's three tensors; the one that the direction writes is computed from the others. Sizes of `output` are
// those before pooling.
inline void convolve(const polyconv_problem &p, Array &input, Array &weights, Array &output) {
  Array &padded = p.transposed != 0 ? output : input, &other = p.transposed != 0 ? input : output;
  Axis axes[3];
  for (int axis = 0; axis < 3; ++axis) axes[axis] = axis_of(p, axis, padded.size[2 + axis], other.size[2 + axis]);
  Array &written = p.direction == POLYCONV_FORWARD ? output : p.direction == POLYCONV_BACKWARD_DATA ? input : weights;
  std::fill(written.values.begin(), written.values.end(), 0.0);
  for_products(p, axes, [&](int64_t n, int64_t k, int64_t channel, int64_t c, auto &o, auto &r, auto &i) {
    double &x = padded.at(n, channel, i), &y = other.at(n, k, o), &w = weights.at(k, c, r);
    if (&written == &weights)
      w += x * y;
    else if (&written == &padded)
      x += w * y;
    else
      y += w * x;
  });
}

// PyTorch's max_pool and avg_pool, of one axis more; ONNX's where an average is dilated. `winner` gets the index of the
// maximum inside its window.
inline Array pool(const polyconv_problem &p, Array &from, const int64_t (&size)[5], Array *winner = nullptr) {
  const polyconv_pool &pool = p.epilogue.pool;
  Array result(size);
  if (winner != nullptr) *winner = Array(size);
  int64_t o[3], r[3];
  int64_t window[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, begin[3] = {}, end[3] = {};
  for (int entry = 0; entry < p.spatial_dims; ++entry) {
    const int axis = entry + 3 - p.spatial_dims;
    window[axis] = pool.window[entry], stride[axis] = pool.stride[entry], dilation[axis] = p.pool_dilation[entry];
    begin[axis] = pool.pad_begin[entry], end[axis] = pool.pad_end[entry];
  }
  for (int64_t n = 0; n < size[0]; ++n)
    for (int64_t c = 0; c < size[1]; ++c)
      for (o[0] = 0; o[0] < size[2]; ++o[0])
        for (o[1] = 0; o[1] < size[3]; ++o[1])
          for (o[2] = 0; o[2] < size[4]; ++o[2]) {
            double best = -std::numeric_limits<double>::infinity(), sum = 0, place = 0;
            int64_t inside = 0, counted = 0, index = 0;
            for (r[0] = 0; r[0] < window[0]; ++r[0])
              for (r[1] = 0; r[1] < window[1]; ++r[1])
                for (r[2] = 0; r[2] < window[2]; ++r[2], ++index) {
                  int64_t i[3];
                  bool is_inside = true, is_counted = true;
                  for (int axis = 0; axis < 3; ++axis) {
                    i[axis] = o[axis] * stride[axis] - begin[axis] + r[axis] * dilation[axis];
                    is_inside = is_inside && i[axis] >= 0 && i[axis] < from.size[2 + axis];
                    is_counted = is_counted && i[axis] < from.size[2 + axis] + end[axis];
                  }
                  counted += is_counted;
                  if (!is_inside) continue;
                  ++inside;
                  sum += from.at(n, c, i);
                  if (from.at(n, c, i) > best) best = from.at(n, c, i), place = static_cast<double>(index);
                }
            const double divisor = static_cast<double>(pool.count_include_pad != 0 ? counted : inside);
            result.at(n, c, o) = pool.kind == POLYCONV_POOL_MAX ? best : sum / divisor;
            if (winner != nullptr) winner->at(n, c, o) = place;
          }
  return result;
}

} // namespace naive
