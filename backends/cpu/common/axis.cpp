// axis.cpp - the padding rules of one axis as tables. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/axis.hpp"

#include "cpu/common/count.hpp"

#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <utility>

namespace polyconv::cpu {

Axis make_axis(const polyconv_layer &layer, int axis) {
  return {layer.input.size[2 + axis],
          layer.output.size[2 + axis],
          layer.weights.size[2 + axis],
          layer.stride[axis],
          layer.dilation[axis],
          layer.pad_begin[axis],
          layer.pad_end[axis],
          nullptr,
          nullptr,
          layer.pad_mode};
}

std::vector<int64_t> make_axis_table(int32_t pad_mode, Axis &axis) {
  std::vector<int64_t> table;
  const int64_t left = std::min(axis.before, kListed), right = std::min(axis.after, kListed);
  for (int64_t j = 1; j <= left; ++j) table.push_back(sdk::padded_index(-j, axis.in, pad_mode));
  for (int64_t j = 0; j < right; ++j) table.push_back(sdk::padded_index(axis.in + j, axis.in, pad_mode));
  axis.left = table.data();
  axis.right = table.data() + left;
  axis.pad_mode = pad_mode;
  return table;
}

std::vector<int64_t> make_axis_tables(const polyconv_layer &layer, Axis (&axes)[3]) {
  std::vector<int64_t> tables;
  size_t begin[3];
  for (int i = 0; i < 3; ++i) {
    begin[i] = tables.size();
    const std::vector<int64_t> table = make_axis_table(layer.pad_mode, axes[i]);
    tables.insert(tables.end(), table.begin(), table.end());
  }
  for (int i = 0; i < 3; ++i) {
    axes[i].left = tables.data() + begin[i];
    axes[i].right = axes[i].left + std::min(axes[i].before, kListed);
  }
  return tables;
}

polyconv_layer with_most_taps_last(polyconv_layer l) {
  const auto swap_if_more = [&l](int axis, int next) {
    const int64_t *const taps = l.weights.size + sdk::kD;
    if (taps[axis] <= taps[next] || l.dilation[axis] != 1 || l.dilation[next] != 1) return;
    for (polyconv_tensor *t : {&l.input, &l.weights, &l.output, &l.result, &l.residual, &l.saved}) {
      std::swap(t->size[sdk::kD + axis], t->size[sdk::kD + next]);
      std::swap(t->stride[sdk::kD + axis], t->stride[sdk::kD + next]);
    }
    for (int64_t *of_axis : {l.stride, l.dilation, l.pad_begin, l.pad_end}) std::swap(of_axis[axis], of_axis[next]);
  };
  swap_if_more(1, 2), swap_if_more(0, 1), swap_if_more(1, 2);
  return l;
}

bool takes_every_pixel(const Axis (&axes)[3]) {
  for (const Axis &axis : axes)
    if (axis.step != 1 || axis.before || axis.after || axis.in != axis.out) return false;
  return true;
}

AxisOutputs outputs_inside(const Axis &axis, int64_t tap) {
  const int64_t shift = axis.before - tap * axis.dilation; // input coordinate = output coordinate * step - shift
  const int64_t first = shift > 0 ? ceil_div(shift, axis.step) : 0, end = axis.in + shift;
  const int64_t last = end > 0 ? ceil_div(end, axis.step) : 0;
  return {std::min(first, axis.out), std::min(last, axis.out)};
}

} // namespace polyconv::cpu
