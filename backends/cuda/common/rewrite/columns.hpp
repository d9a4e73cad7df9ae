// columns.hpp - gradients of data by columns (col2im.hpp): the layer of one tap whose results are columns, a column for
// each tap and input channel of every output, and which of them an input's gradient is the sum of. Arithmetic on the
// host, but for what fold.cu asks on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <numeric>

#include "common/divider.cuh"
#include "common/layer.hpp"
#include "common/numbers.hpp"
#include "common/rewrite/patch.hpp"

namespace polyconv::cuda {

// ---------------------------------------------------------------- the layer of one tap

inline constexpr int64_t kMostColumnBytes = 512 << 20; // at a time: a batch that has more goes in parts

// Some images of the layer, and the layer of one tap for them, FORWARD from dy to the columns, which lie densely and in
// the order of the result: as one channel each.
struct Columns {
  PatchOrder order; // of taps and channels, that in which the weights hold them
  int64_t images;   // at a time
  polyconv_layer part, layer;
};

// Whether a filter's elements lie one after the other in that order.
inline bool lies_in(const polyconv_tensor &weights, PatchOrder order) {
  const PatchRun run = run_of(filters_of(weights, order));
  return run.stride == 1 && run.columns == weights.size[1] * weights.size[2] * weights.size[3] * weights.size[4];
}

inline int64_t columns_of(const polyconv_layer &l) {
  return l.weights.size[1] * sdk::taps(l);
}

inline polyconv_tensor columns_tensor(const polyconv_layer &l) {
  polyconv_tensor t = l.output;
  t.type = l.sum_type;
  t.offset = 0;
  t.size[1] = columns_of(l);
  constexpr int kLast[] = {1, 4, 3, 2, 0}, kFirst[] = {4, 3, 2, 1, 0};
  int64_t stride = 1;
  for (const int axis : has_neighbouring_channels(l.result) ? kLast : kFirst)
    t.stride[axis] = stride, stride *= t.size[axis];
  return t;
}

// In as few parts as the cap allows, of as many images each.
inline int64_t images_at_a_time(const polyconv_layer &l, int64_t limit) {
  const int64_t image = columns_of(l) * sdk::spatial(l.output) * sdk::type_bytes(l.sum_type), all = l.output.size[0];
  const int64_t most = std::clamp<int64_t>(std::min(limit, kMostColumnBytes) / image, 1, all);
  return ceil_div(all, ceil_div(all, most));
}

inline polyconv_layer with_images(polyconv_layer l, int64_t images) {
  for (polyconv_tensor *t : {&l.input, &l.output, &l.result, &l.residual, &l.saved}) t->size[0] = images;
  return l;
}

// `limit`: bytes that columns may take, where one image's do.
inline Columns columns_layer(const polyconv_layer &l, int64_t limit) {
  const int64_t images = images_at_a_time(l, limit);
  const bool first = lies_in(l.weights, PatchOrder::kChannelsFirst);
  Columns c = {first ? PatchOrder::kChannelsFirst : PatchOrder::kChannelsLast, images, with_images(l, images), {}};
  c.layer = c.part;
  polyconv_layer &f = c.layer;
  f.direction = POLYCONV_FORWARD;
  f.input = c.part.output;
  f.output = f.result = f.residual = f.saved = columns_tensor(c.part);
  f.weights.size[0] = columns_of(l), f.weights.stride[0] = 1;
  f.weights.size[1] = l.weights.size[0], f.weights.stride[1] = l.weights.stride[0];
  for (int axis = 0; axis < 3; ++axis) {
    f.weights.size[2 + axis] = f.weights.stride[2 + axis] = 1;
    f.stride[axis] = f.dilation[axis] = 1;
    f.pad_begin[axis] = f.pad_end[axis] = 0;
  }
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  f.epilogue = {};
  f.save = POLYCONV_SAVE_NONE;
  f.bias_over_input = 0;
  return c;
}

inline int64_t columns_bytes(const Columns &c) {
  return aligned_bytes(sdk::elements(c.layer.output) * sdk::type_bytes(c.layer.output.type));
}

// Columns from a tap's to the next tap's, and from a channel's to the next channel's.
struct ColumnOrder {
  int32_t tap, channel;
};
inline ColumnOrder order_of(const Columns &c) {
  const auto channels = small(c.part.weights.size[1]), taps = small(sdk::taps(c.part));
  return c.order == PatchOrder::kChannelsLast ? ColumnOrder{channels, 1} : ColumnOrder{1, taps};
}

// ---------------------------------------------------------------- who reads an input

// Which taps of an axis read a position, and for which outputs: every `taps_apart`-th tap from the first on, each for
// an output `outputs_apart` before the last one's.
struct FoldAxis {
  Divider by_stride, by_taps_apart, by_outputs_apart;
  int32_t taps, outputs, dilation, pad;
};

inline FoldAxis make_fold_axis(const polyconv_layer &l, int axis) {
  const auto stride = small(l.stride[axis]), dilation = small(l.dilation[axis]);
  const int32_t common = std::gcd(stride, dilation);
  return {Divider::make(stride),           Divider::make(stride / common), Divider::make(dilation / common),
          small(l.weights.size[2 + axis]), small(l.output.size[2 + axis]), dilation,
          small(l.pad_begin[axis])};
}

// The taps that read a position: the first, its output, and how many.
struct Readers {
  int32_t tap = 0, output, count;

  POLYCONV_HOST_DEVICE Readers(const FoldAxis &a, int32_t position) {
    const int32_t padded = position + a.pad, stride = a.by_stride.by;
    output = a.by_stride(padded);
    if (a.dilation == 1) tap = padded - output * stride;
    while (output * stride != padded - tap * a.dilation) { // at most taps_apart times
      if (++tap == a.by_taps_apart.by || tap * a.dilation > padded) {
        tap = a.taps;
        break;
      }
      output = a.by_stride(padded - tap * a.dilation);
    }
    count = tap < a.taps ? least(a.by_taps_apart(a.taps - 1 - tap), a.by_outputs_apart(output)) + 1 : 0;
    if (output < a.outputs) return;
    const int32_t beyond = a.by_outputs_apart(output - a.outputs) + 1; // of the outputs' last
    tap += beyond * a.by_taps_apart.by, output -= beyond * a.by_outputs_apart.by, count -= beyond;
  }

 private:
  POLYCONV_HOST_DEVICE static int32_t least(int32_t a, int32_t b) { return a < b ? a : b; }
};

} // namespace polyconv::cuda
