// overlap.cpp - ranges first, then boxes in a common grid.
// SPDX-License-Identifier: Apache-2.0
#include "run/overlap.hpp"

#include "problem/shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace polyconv {
namespace {

struct Axis {
  int64_t stride, size_a, size_b;
};

// The axes along which either tensor has more than one element, largest stride first. -1 where strides differ.
int common_axes(const polyconv_tensor &a, const polyconv_tensor &b, Axis (&axes)[kAxes]) {
  int count = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    const bool long_a = a.size[axis] > 1, long_b = b.size[axis] > 1;
    if (!long_a && !long_b) continue;
    if (long_a && long_b && a.stride[axis] != b.stride[axis]) return -1;
    const Axis one = {long_a ? a.stride[axis] : b.stride[axis], a.size[axis], b.size[axis]};
    int place = count++;
    for (; place > 0 && axes[place - 1].stride < one.stride; --place) axes[place] = axes[place - 1];
    axes[place] = one;
  }
  return count;
}

// Both tensors as boxes in the grid that their strides span, b `distance` elements after a. True where the boxes are
// apart along some axis, and the grid is one in which different places are different elements.
bool boxes_apart(Axis (&axes)[kAxes], int count, int64_t distance) {
  bool apart = false;
  for (int i = 0; i < count; ++i) {
    if (axes[i].stride <= 0) return false;
    const int64_t index = distance / axes[i].stride;
    distance %= axes[i].stride;
    apart = apart || index >= axes[i].size_a;
    axes[i].size_b = std::max(axes[i].size_a, index + axes[i].size_b); // of the box around both
  }
  int64_t reach = 1;
  for (int i = count - 1; i >= 0; --i) {
    if (axes[i].stride < reach) return false;
    reach += (axes[i].size_b - 1) * axes[i].stride;
  }
  return apart && distance == 0;
}

} // namespace

namespace {

// The same places in memory without negative strides and stride 0, from the first of them on.
polyconv_tensor places_of(const polyconv_tensor &tensor) {
  polyconv_tensor result = tensor;
  result.offset = 0;
  for (int axis = 0; axis < kAxes; ++axis) {
    if (tensor.stride[axis] == 0) result.size[axis] = std::min<int64_t>(tensor.size[axis], 1);
    result.stride[axis] = std::abs(tensor.stride[axis]);
  }
  return result;
}

} // namespace

bool may_overlap(const Extent &a, const Extent &b) {
  const std::less<> before;
  if (!before(a.begin, b.begin + b.bytes) || !before(b.begin, a.begin + a.bytes)) return false;
  if (a.tensor == nullptr || b.tensor == nullptr) return true;
  if (before(b.begin, a.begin)) return may_overlap(b, a);
  const int64_t size = static_cast<int64_t>(polyconv_type_size(a.tensor->type));
  if (size == 0 || size != static_cast<int64_t>(polyconv_type_size(b.tensor->type))) return true;
  if ((b.begin - a.begin) % size != 0) return true;
  Axis axes[kAxes];
  const int count = common_axes(places_of(*a.tensor), places_of(*b.tensor), axes);
  return count < 0 || !boxes_apart(axes, count, (b.begin - a.begin) / size);
}

} // namespace polyconv
