// adjoint.hpp - backward data as forward convolutions, so that a kernel that goes forward computes it too.
//
// Output o of an axis reads input i through tap r where i = o s + r d - p, for stride s, dilation d and padding p. So
// inputs that are equal modulo s see the same taps, every (s / g)-th with g = gcd(s, d), and their gradient is a
// forward convolution of stride 1 over the output's gradient: those taps in reverse, with dilation d / g. A problem
// falls into one such part for each residue of each axis; a part whose inputs nobody reads has no taps, and its sums
// are 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <numeric>

namespace polyconv::sdk {

// One part. Its tensors begin some elements behind the problem's; their own offsets are as before.
struct AdjointPart {
  polyconv_layer layer; // FORWARD: reads the output's gradient, writes the input's
  bool has_taps, is_empty;
  int64_t tap_class; // which taps: from 0 in order, the same for any padding and sizes
  int64_t input, result, residual, saved;
};

// One axis of a part.
struct AdjointAxis {
  int64_t first_tap, tap_step, taps; // of the problem's taps
  int64_t inputs, outputs;           // the part's inputs, and the outputs that they may see
  int64_t first_output, dilation, pad_begin, pad_end;
};

inline AdjointAxis adjoint_axis(const polyconv_layer &l, int axis, int64_t residue) {
  const int64_t s = l.stride[axis], d = l.dilation[axis], common = std::gcd(s, d);
  AdjointAxis a = {};
  a.inputs = (l.input.size[kD + axis] - residue + s - 1) / s;
  a.tap_step = s / common, a.dilation = d / common;
  const int64_t place = residue + l.pad_begin[axis];
  while (a.first_tap < a.tap_step && (place - a.first_tap * d) % s != 0) ++a.first_tap;
  if (a.first_tap >= std::min(a.tap_step, l.weights.size[kD + axis])) return a;
  a.taps = (l.weights.size[kD + axis] - 1 - a.first_tap) / a.tap_step + 1;
  // Where the first input's window of outputs begins and the last one's ends; outputs that no window holds are left
  // out.
  const int64_t reach = (a.taps - 1) * a.dilation, begin = (place - a.first_tap * d) / s - reach;
  const int64_t end = begin + a.inputs + reach, size = l.output.size[kD + axis];
  a.first_output = std::clamp<int64_t>(begin, 0, size);
  a.outputs = std::max<int64_t>(std::min(end, size) - a.first_output, 0);
  a.pad_begin = a.first_output - begin;
  a.pad_end = end - a.first_output - a.outputs;
  return a;
}

// Parts of a BACKWARD_DATA layer; INT32_MAX for that many and more, which nobody makes.
inline int64_t adjoint_parts(const polyconv_layer &l) {
  int64_t parts = 1;
  for (const int64_t stride : l.stride) parts = stride < INT32_MAX / parts ? parts * stride : INT32_MAX;
  return parts;
}

// Whether the weights, with the roles of their channels exchanged, are a tensor too: a group's filters must be as far
// from the next group's as its channels are.
inline bool adjoint_weights_are_strided(const polyconv_layer &l) {
  const int64_t filters = l.weights.size[kK] / l.groups, channels = l.weights.size[kC];
  return l.groups == 1 || channels == 1 || filters * l.weights.stride[kK] == channels * l.weights.stride[kC];
}

namespace detail {

// Every stride-th element along an axis, `count` from `residue` on; returns how far on the first is.
inline int64_t take_every(int64_t stride, int64_t residue, int64_t count, int axis, polyconv_tensor *t) {
  const int64_t first = residue * t->stride[kD + axis];
  t->stride[kD + axis] *= stride;
  t->size[kD + axis] = count;
  return first;
}

inline void take_axis(const polyconv_layer &l, int axis, int64_t residue, AdjointPart *part) {
  const AdjointAxis a = adjoint_axis(l, axis, residue);
  polyconv_layer &f = part->layer;
  part->is_empty = part->is_empty || a.inputs == 0;
  part->has_taps = part->has_taps && a.taps > 0;
  part->tap_class = part->tap_class * a.tap_step + a.first_tap;
  part->input += a.first_output * l.output.stride[kD + axis];
  part->result += take_every(l.stride[axis], residue, a.inputs, axis, &f.result);
  part->residual += take_every(l.stride[axis], residue, a.inputs, axis, &f.residual);
  part->saved += take_every(l.stride[axis], residue, a.inputs, axis, &f.saved);
  take_every(l.stride[axis], residue, a.inputs, axis, &f.output);
  f.input.size[kD + axis] = a.outputs;
  f.weights.offset += (a.first_tap + (a.taps - 1) * a.tap_step) * l.weights.stride[kD + axis];
  f.weights.size[kD + axis] = a.taps;
  f.weights.stride[kD + axis] = -a.tap_step * l.weights.stride[kD + axis];
  f.stride[axis] = 1, f.dilation[axis] = a.dilation;
  f.pad_begin[axis] = a.pad_begin, f.pad_end[axis] = a.pad_end;
}

} // namespace detail

// Part `number` of a BACKWARD_DATA layer without padding that folds back; pooled only where it is the only part. Its
// weights are seen in the problem's memory, right where adjoint_weights_are_strided.
inline AdjointPart adjoint_part(const polyconv_layer &l, int64_t number) {
  AdjointPart part = {l, true, false, 0, 0, 0, 0, 0};
  polyconv_layer &f = part.layer;
  f.direction = POLYCONV_FORWARD;
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  f.input = l.output, f.output = l.input;
  const int64_t filters = l.weights.size[kK] / l.groups, channels = l.weights.size[kC];
  f.weights.size[kK] = l.groups * channels, f.weights.size[kC] = filters;
  f.weights.stride[kK] = channels == 1 ? filters * l.weights.stride[kK] : l.weights.stride[kC];
  f.weights.stride[kC] = l.weights.stride[kK];
  detail::take_axis(l, 0, number / l.stride[2] / l.stride[1], &part);
  detail::take_axis(l, 1, number / l.stride[2] % l.stride[1], &part);
  detail::take_axis(l, 2, number % l.stride[2], &part);
  if (has_pooling(l)) f.result = l.result, f.saved = l.saved; // in their own sizes
  return part;
}

} // namespace polyconv::sdk
