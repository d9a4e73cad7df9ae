// patch.hpp - layers whose windows do not overlap, as layers of one tap: what lies in a window is one long pixel, and
// the layer a product of those pixels with the filters. Patch embeddings, 2 x 2 layers at stride 2 and their transposed
// layers are of this kind.
//
// Where the axes of a window lie in memory one after the other, its elements are read (or written) in place, as the
// channels of a pixel; one axis may be left over, which then is the axis of taps, at a stride of 1. Where only the rows
// of a window lie so, channels last, they may be the pixels of a layer of fewer taps. Elsewhere windows are copied to
// (or from) a matrix in the workspace, pixels by elements of a window; patch_copy.hpp does that. All here is arithmetic
// on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>

#include "common/layer.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda {

// ---------------------------------------------------------------- tensors as matrices

// In which order the elements of a window are counted, the last the fastest.
enum class PatchOrder { kChannelsLast, kChannelsFirst }; // taps then channels; channels then taps

// A tensor as a matrix: rows are windows (or filters), columns the elements of one.
struct PatchMatrix {
  int32_t type;
  int64_t offset;
  int64_t row_size[4], row_stride[4];       // N D H W of the output; K and three of one element
  int64_t column_size[4], column_stride[4]; // the fastest first

  int64_t rows() const { return row_size[0] * row_size[1] * row_size[2] * row_size[3]; }
  int64_t columns() const { return column_size[0] * column_size[1] * column_size[2] * column_size[3]; }
};

// The axes of weights that are columns, the fastest first.
inline const int (&patch_axes(PatchOrder order))[4] {
  static constexpr int last[4] = {1, 4, 3, 2}, first[4] = {4, 3, 2, 1};
  return order == PatchOrder::kChannelsLast ? last : first;
}

// `t`: the input, or what else has its size.
inline PatchMatrix windows_of(const polyconv_layer &l, const polyconv_tensor &t, PatchOrder order) {
  PatchMatrix m = {t.type, t.offset, {}, {}, {}, {}};
  m.row_size[0] = l.output.size[0], m.row_stride[0] = t.stride[0];
  for (int axis = 0; axis < 3; ++axis) {
    m.row_size[1 + axis] = l.output.size[2 + axis];
    m.row_stride[1 + axis] = t.stride[2 + axis] * l.stride[axis];
  }
  for (int i = 0; i < 4; ++i) {
    const int axis = patch_axes(order)[i];
    m.column_size[i] = l.weights.size[axis], m.column_stride[i] = t.stride[axis];
  }
  return m;
}

// `t`: the weights, or their gradient.
inline PatchMatrix filters_of(const polyconv_tensor &t, PatchOrder order) {
  PatchMatrix m = {t.type, t.offset, {t.size[0], 1, 1, 1}, {t.stride[0], 0, 0, 0}, {}, {}};
  for (int i = 0; i < 4; ++i) {
    const int axis = patch_axes(order)[i];
    m.column_size[i] = t.size[axis], m.column_stride[i] = t.stride[axis];
  }
  return m;
}

// The columns that lie equally far apart, from the fastest axis on.
struct PatchRun {
  int axes;                // that they are of
  int64_t columns, stride; // how many, and from one to the next
};
inline PatchRun run_of(const PatchMatrix &m, int most_axes = 4) {
  PatchRun run = {0, 1, 1};
  for (; run.axes < most_axes; ++run.axes) {
    const int64_t size = m.column_size[run.axes], stride = m.column_stride[run.axes];
    if (size == 1) continue;
    if (run.columns == 1)
      run.stride = stride;
    else if (stride != run.stride * run.columns)
      break;
    run.columns *= size;
  }
  return run;
}

// ---------------------------------------------------------------- which layers

// Whether the layer's windows are more than one element and do not overlap; else rejects in words.
inline bool has_patches(const polyconv_layer &l, sdk::Offer &offer) {
  const auto number = [](int64_t v) { return static_cast<long long>(v); };
  if (l.groups != 1) return offer.reject("takes one group, not %lld", number(l.groups));
  if (sdk::taps(l) == 1) return offer.reject("takes windows of several elements: those of one are pixels as they are");
  if (!pads_nothing(l)) return offer.reject("takes windows that lie in the image: no padding");
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t taps = l.weights.size[2 + axis];
    if (l.output.size[2 + axis] > 1 && l.stride[axis] < taps)
      return offer.reject("takes windows that do not overlap: strides from %lld on, not %lld", number(taps),
                          number(l.stride[axis]));
    if (l.dilation[axis] != 1 && taps > 1)
      return offer.reject("takes windows without holes, not a dilation of %lld", number(l.dilation[axis]));
  }
  return true;
}

// Whether there are elements of the input in no window.
inline bool has_leftovers(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis)
    if (l.output.size[2 + axis] * l.weights.size[2 + axis] != l.input.size[2 + axis]) return true;
  return false;
}

// ---------------------------------------------------------------- the layer of one tap

struct Patch {
  PatchOrder order;
  bool in_place;         // windows are the input's memory; else a matrix of the workspace, of `row` elements
  bool weights_in_place; // likewise the weights, which are such a matrix too
  int64_t row;           // elements of a window, in whole 16 bytes
  polyconv_layer layer;  // for BACKWARD_DATA of one tap FORWARD: it reads the output's gradient
};

namespace detail {

// Which axes of the layer (N, D, H, W: 0, 2, 3, 4; none: -1) are N, D, H, W of the layer of one tap. Axes of one
// element are left out, so that what remains is flat where it can be.
struct PatchAxes {
  int of[4] = {0, -1, -1, -1};
};

inline PatchAxes patch_pixels(const polyconv_layer &l, const PatchMatrix &windows) {
  constexpr int64_t kMostElements = 1 << 29; // of one image, for those who count them in 32 bits
  PatchAxes axes;
  int to = 3;
  for (const int axis : {4, 3, 2})
    if (l.output.size[axis] > 1) axes.of[to--] = axis;
  const double images = real(l.output.size[0]) * real(std::max(windows.columns() + 7, l.output.size[1]));
  const double strides = real(l.output.size[0]) * real(std::max(windows.row_stride[0], l.output.stride[0]));
  if (to == 3 && images < kMostElements && strides < kMostElements)
    axes.of[0] = -1, axes.of[3] = 0; // images of one pixel are one row of pixels
  return axes;
}

// A tensor of the output's size with its axes moved.
inline polyconv_tensor moved_axes(const polyconv_tensor &t, const PatchAxes &axes) {
  constexpr int kTo[4] = {0, 2, 3, 4};
  polyconv_tensor m = t;
  for (int i = 0; i < 4; ++i) {
    const int from = axes.of[i];
    m.size[kTo[i]] = from < 0 ? 1 : t.size[from];
    m.stride[kTo[i]] = from < 0 ? t.size[1] * t.stride[1] : t.stride[from];
  }
  return m;
}

// The windows as a tensor of `channels`, in place.
inline polyconv_tensor seen_windows(const PatchMatrix &m, int64_t channels, const PatchAxes &axes) {
  polyconv_tensor t = {};
  t.type = m.type, t.offset = m.offset;
  t.size[1] = channels, t.stride[1] = 1;
  constexpr int kFrom[4] = {0, 2, 3, 4};
  for (int i = 0; i < 4; ++i) t.size[kFrom[i]] = m.row_size[i], t.stride[kFrom[i]] = m.row_stride[i];
  return moved_axes(t, axes);
}

// Or densely in the workspace.
inline polyconv_tensor copied_windows(const PatchMatrix &m, int64_t row, const PatchAxes &axes) {
  polyconv_tensor t = seen_windows(m, row, axes);
  int64_t stride = 1;
  t.offset = 0;
  for (const int axis : {1, 4, 3, 2, 0}) t.stride[axis] = stride, stride *= t.size[axis];
  return t;
}

// Filters of `channels` times `taps` elements; `run`: the channels, where the weights are used in place.
inline polyconv_tensor patch_weights(const polyconv_tensor &weights, const Patch &p, const PatchRun &run,
                                     int64_t channels, int64_t taps, int64_t tap_stride) {
  polyconv_tensor w = weights;
  w.size[1] = channels, w.size[2] = taps;
  w.size[3] = w.size[4] = w.stride[3] = w.stride[4] = 1;
  if (p.weights_in_place) {
    w.stride[1] = run.columns == 1 ? 1 : run.stride, w.stride[2] = taps == 1 ? 1 : tap_stride;
  } else {
    w.offset = 0;
    w.stride[1] = 1, w.stride[2] = w.size[1], w.stride[0] = p.row;
  }
  return w;
}

// The layer, but for its weights and the tensor of windows.
inline polyconv_layer without_windows(const polyconv_layer &l, const PatchAxes &axes) {
  polyconv_layer f = l;
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  for (int axis = 0; axis < 3; ++axis) {
    f.stride[axis] = f.dilation[axis] = 1;
    f.pad_begin[axis] = f.pad_end[axis] = 0;
  }
  f.output = moved_axes(l.output, axes);
  if (l.direction == POLYCONV_FORWARD) {
    f.result = moved_axes(l.result, axes);
    f.residual = moved_axes(l.residual, axes), f.saved = moved_axes(l.saved, axes);
  }
  return f;
}

// Bias and scale of gradients of weights are the caller's work; those of gradients of data are one for each element.
inline void set_windows(const polyconv_layer &l, const polyconv_tensor &windows, Patch *p) {
  polyconv_layer &f = p->layer;
  if (l.direction == POLYCONV_BACKWARD_DATA) {
    f.direction = POLYCONV_FORWARD;
    f.input = f.output;
    f.output = f.result = f.residual = f.saved = windows;
    f.output.type = l.input.type;
    std::swap(f.weights.size[0], f.weights.size[1]);
    std::swap(f.weights.stride[0], f.weights.stride[1]);
    return;
  }
  f.input = windows;
  if (l.direction == POLYCONV_FORWARD) return;
  const int32_t type = l.result.type;
  f.result = f.weights, f.result.type = type;
  f.epilogue.has_bias = 0, f.bias_over_input = 0;
}

inline int64_t row_of_windows(const polyconv_layer &l, const PatchMatrix &windows) {
  const int64_t vector = 16 / std::min(sdk::type_bytes(l.input.type), sdk::type_bytes(l.output.type));
  return ceil_div(windows.columns(), vector) * vector;
}

// How memory holds the elements of windows.
inline PatchOrder order_of(const polyconv_layer &l, const polyconv_tensor &t) {
  return l.weights.size[1] == 1 || t.stride[1] == 1 ? PatchOrder::kChannelsLast : PatchOrder::kChannelsFirst;
}

inline const polyconv_tensor &windows_tensor(const polyconv_layer &l) {
  return l.direction == POLYCONV_BACKWARD_DATA ? l.result : l.input;
}

// Whether blocks of depth, which keep to one tap, would be zeros for the most part, where windows' would not.
inline bool wastes_depth(int64_t channels, int64_t taps, int32_t type) {
  const int64_t block = 128 / sdk::type_bytes(type);
  return 5 * ceil_div(channels, block) * taps > 7 * ceil_div(channels * taps, block);
}

} // namespace detail

// Through the workspace, which every layer of patches can.
inline Patch copied_patch(const polyconv_layer &l) {
  const polyconv_tensor &t = detail::windows_tensor(l);
  Patch p = {detail::order_of(l, t), false, false, 0, {}};
  const PatchMatrix windows = windows_of(l, t, p.order), filters = filters_of(l.weights, p.order);
  p.row = detail::row_of_windows(l, windows);
  const PatchRun run = run_of(filters);
  p.weights_in_place = p.row == windows.columns() && run.axes == 4;
  const detail::PatchAxes axes = detail::patch_pixels(l, windows);
  p.layer = detail::without_windows(l, axes);
  p.layer.weights = detail::patch_weights(l.weights, p, run, p.row, 1, 0);
  detail::set_windows(l, detail::copied_windows(windows, p.row, axes), &p);
  return p;
}

// In place; false where memory does not hold windows so, or products would be of zeros for the most part. What is
// decided here must not depend on the batch: sums are added in another order than through the workspace.
inline bool seen_patch(const polyconv_layer &l, Patch *patch) {
  const polyconv_tensor &t = detail::windows_tensor(l);
  Patch p = {detail::order_of(l, t), true, false, 0, {}};
  const PatchMatrix windows = windows_of(l, t, p.order), filters = filters_of(l.weights, p.order);
  const PatchRun run = run_of(windows);
  if (run.stride != 1) return false;
  p.row = detail::row_of_windows(l, windows);
  const int64_t taps = windows.columns() / run.columns;
  int tap_axis = 3; // the one that is left
  while (tap_axis > 0 && windows.column_size[tap_axis] == 1) --tap_axis;
  if (taps > 1 && windows.column_size[tap_axis] != taps) return false; // several are
  detail::PatchAxes axes = detail::patch_pixels(l, windows);
  if (taps > 1) {
    if (l.direction == POLYCONV_BACKWARD_DATA) return false; // every result would be of all taps
    if (axes.of[0] < 0) axes.of[0] = 0, axes.of[3] = -1;
    if (axes.of[1] >= 0) return false; // taps take this axis
    if (detail::wastes_depth(run.columns, taps, t.type)) return false;
  }
  const PatchRun weights_run = run_of(filters, run.axes);
  p.weights_in_place = weights_run.axes == run.axes;
  p.layer = detail::without_windows(l, axes);
  const int64_t tap_stride = taps > 1 ? filters.column_stride[tap_axis] : 0;
  p.layer.weights = detail::patch_weights(l.weights, p, weights_run, run.columns, taps, tap_stride);
  polyconv_tensor seen = detail::seen_windows(windows, run.columns, axes);
  if (taps > 1) seen.size[2] = taps, seen.stride[2] = windows.column_stride[tap_axis];
  detail::set_windows(l, seen, &p);
  *patch = p;
  return true;
}

// Rows of windows in place, each a pixel: taps and strides along D and H remain. The direction stays what it is; false
// as for seen_patch.
inline bool patch_of_rows(const polyconv_layer &l, Patch *patch) {
  const polyconv_tensor &t = detail::windows_tensor(l);
  Patch p = {PatchOrder::kChannelsLast, true, false, 0, l};
  const PatchMatrix windows = windows_of(l, t, p.order), filters = filters_of(l.weights, p.order);
  const PatchRun run = run_of(windows, 2), weights_run = run_of(filters, 2);
  const int64_t taps = l.weights.size[2] * l.weights.size[3];
  if (l.weights.size[4] == 1 || run.axes < 2 || run.stride != 1 || taps == 1) return false;
  if (l.direction != POLYCONV_BACKWARD_DATA && detail::wastes_depth(run.columns, taps, t.type)) return false;
  p.row = detail::row_of_windows(l, windows);
  p.weights_in_place = weights_run.axes == 2;
  polyconv_layer &f = p.layer;
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  f.stride[2] = 1, f.pad_end[2] = 0;
  for (int axis = 0; axis < 2 && l.direction == POLYCONV_BACKWARD_DATA; ++axis)
    f.stride[axis] =
        std::max(l.stride[axis], l.weights.size[2 + axis]); // not 1 of one output: results would be of all taps
  polyconv_tensor rows = t;
  rows.size[1] = run.columns, rows.stride[1] = 1;
  rows.size[4] = l.output.size[4], rows.stride[4] = windows.row_stride[3];
  f.input = rows, f.input.type = l.input.type;
  f.weights.size[1] = run.columns, f.weights.size[4] = 1;
  f.weights.stride[1] = weights_run.stride, f.weights.stride[4] = 1;
  if (!p.weights_in_place) {
    f.weights.offset = 0;
    f.weights.stride[1] = 1, f.weights.stride[3] = run.columns, f.weights.stride[2] = run.columns * l.weights.size[3];
    f.weights.stride[0] = p.row;
  }
  if (l.direction == POLYCONV_BACKWARD_DATA) f.result = f.residual = f.saved = rows;
  if (l.direction == POLYCONV_BACKWARD_WEIGHTS) {
    f.result = f.weights, f.result.type = l.result.type;
    f.epilogue.has_bias = 0, f.bias_over_input = 0;
  }
  *patch = p;
  return true;
}

} // namespace polyconv::cuda
