// columns_test.cpp - common/rewrite/columns.hpp by itself: the columns that the layer of one tap gives, added up over
// the readers of each input, are the gradient by its definition, whatever strides, dilations, padding and layouts, and
// in parts of the batch too. On small whole numbers.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <common/rewrite/columns.hpp>

#include "numbers.hpp"

using namespace polyconv::cuda;
using namespace rewrite_test;
using polyconv::sdk::at;
using polyconv::sdk::elements;

namespace {

class Layers : public Random {
 public:
  Layers() : Random(29) {}

  polyconv_layer next() {
    polyconv_layer l = {};
    l.struct_size = sizeof l;
    l.direction = POLYCONV_BACKWARD_DATA, l.groups = 1, l.sum_type = POLYCONV_F32;
    int64_t in[3], taps[3], out[3];
    for (int axis = 0; axis < 3; ++axis) {
      const bool still = axis == 0 && pick(0, 1) == 0;
      taps[axis] = still ? 1 : pick(1, 4), l.stride[axis] = still ? 1 : pick(1, 4);
      l.dilation[axis] = pick(1, 3), l.pad_begin[axis] = still ? 0 : pick(0, 3), l.pad_end[axis] = pick(0, 2);
      const int64_t window = (taps[axis] - 1) * l.dilation[axis] + 1;
      in[axis] = std::max(window - l.pad_begin[axis] - l.pad_end[axis], int64_t{1}) + (still ? 0 : pick(0, 6));
      out[axis] = (in[axis] + l.pad_begin[axis] + l.pad_end[axis] - window) / l.stride[axis] + 1;
    }
    const int64_t channels = pick(1, 4), filters = pick(1, 4), batch = pick(1, 5);
    l.input = l.result = tensor({batch, channels, in[0], in[1], in[2]});
    l.output = tensor({batch, filters, out[0], out[1], out[2]});
    l.weights = tensor({filters, channels, taps[0], taps[1], taps[2]});
    return l;
  }

 private:
  polyconv_tensor tensor(const int64_t (&size)[5]) {
    constexpr int kLast[5] = {1, 4, 3, 2, 0}, kFirst[5] = {4, 3, 2, 1, 0};
    polyconv_tensor t = {};
    t.type = POLYCONV_F32;
    int64_t stride = 1;
    for (const int axis : pick(0, 1) == 0 ? kLast : kFirst)
      t.size[axis] = size[axis], t.stride[axis] = stride, stride *= size[axis];
    return t;
  }
};

// body(n, d, h, w) of every pixel.
template <class Body>
void for_pixels(const polyconv_tensor &t, const Body &body) {
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t d = 0; d < t.size[2]; ++d)
      for (int64_t h = 0; h < t.size[3]; ++h)
        for (int64_t w = 0; w < t.size[4]; ++w) body(n, d, h, w);
}

// By the definition: every output gives what it read.
Numbers gradient(const polyconv_layer &l, Numbers &w, Numbers &y) {
  Numbers x(static_cast<size_t>(elements(l.input)));
  for_pixels(l.output, [&](int64_t n, int64_t d, int64_t h, int64_t s) {
    for_pixels(l.weights, [&](int64_t k, int64_t rd, int64_t rh, int64_t rw) {
      const int64_t to[3] = {d * l.stride[0] + rd * l.dilation[0] - l.pad_begin[0],
                             h * l.stride[1] + rh * l.dilation[1] - l.pad_begin[1],
                             s * l.stride[2] + rw * l.dilation[2] - l.pad_begin[2]};
      for (int axis = 0; axis < 3; ++axis)
        if (to[axis] < 0 || to[axis] >= l.input.size[2 + axis]) return;
      for (int64_t c = 0; c < l.weights.size[1]; ++c)
        number(x, at(l.input, n, c, to[0], to[1], to[2])) +=
            number(y, at(l.output, n, k, d, h, s)) * number(w, at(l.weights, k, c, rd, rh, rw));
    });
  });
  return x;
}

// The layer of one tap, which reads some images of y from `first` on.
Numbers columns(const Columns &c, Numbers &w, Numbers &y, int64_t first) {
  const polyconv_layer &f = c.layer;
  Numbers all(static_cast<size_t>(elements(f.output)));
  for_pixels(f.output, [&](int64_t n, int64_t d, int64_t h, int64_t s) {
    for (int64_t column = 0; column < f.weights.size[0]; ++column)
      for (int64_t k = 0; k < f.weights.size[1]; ++k)
        number(all, at(f.output, n, column, d, h, s)) +=
            number(y, at(f.input, first + n, k, d, h, s)) * number(w, at(f.weights, column, k, 0, 0, 0));
  });
  return all;
}

// What fold.cu does.
void fold(const Columns &c, Numbers &all, Numbers &x, int64_t first) {
  const polyconv_layer &l = c.part;
  const FoldAxis axes[3] = {make_fold_axis(l, 0), make_fold_axis(l, 1), make_fold_axis(l, 2)};
  const ColumnOrder order = order_of(c);
  for_pixels(l.result, [&](int64_t n, int64_t d, int64_t h, int64_t w) {
    const Readers of[3] = {Readers(axes[0], small(d)), Readers(axes[1], small(h)), Readers(axes[2], small(w))};
    for (int64_t channel = 0; channel < l.weights.size[1]; ++channel) {
      double sum = 0;
      for (int64_t i = 0; i < of[0].count; ++i)
        for (int64_t j = 0; j < of[1].count; ++j)
          for (int64_t k = 0; k < of[2].count; ++k) {
            const int64_t at_axis[3] = {i, j, k};
            int64_t tap = 0, output[3];
            for (int axis = 0; axis < 3; ++axis) {
              tap = tap * axes[axis].taps + of[axis].tap + at_axis[axis] * axes[axis].by_taps_apart.by;
              output[axis] = of[axis].output - at_axis[axis] * axes[axis].by_outputs_apart.by;
              REQUIRE(output[axis] >= 0);
              REQUIRE(output[axis] < axes[axis].outputs);
            }
            sum += number(
                all, at(c.layer.output, n, tap * order.tap + channel * order.channel, output[0], output[1], output[2]));
          }
      number(x, at(l.result, first + n, channel, d, h, w)) = sum;
    }
  });
}

} // namespace

TEST_CASE("columns added up over the readers of each input are the gradient, in parts of the batch too") {
  Layers layers;
  int parts = 0, dilated = 0, channels_last = 0;
  for (int round = 0; round < 3000; ++round) {
    const polyconv_layer l = layers.next();
    Numbers w = layers.numbers(elements(l.weights)), y = layers.numbers(elements(l.output));
    const int64_t image = l.weights.size[1] * polyconv::sdk::taps(l) * polyconv::sdk::spatial(l.output) * 4;
    const Columns c = columns_layer(l, round % 2 == 0 ? INT64_MAX : image * layers.pick(0, 3));
    REQUIRE(lies_in(l.weights, c.order));
    REQUIRE(columns_bytes(c) >= image * c.images);
    Numbers x(static_cast<size_t>(elements(l.input)), -1000.0);
    const int64_t all = l.output.size[0];
    for (int64_t first = 0; first < all; first += c.images) {
      const int64_t begin = std::min(first, all - c.images); // as col2im.cpp
      Numbers part = columns(c, w, y, begin);
      fold(c, part, x, begin);
      parts += first > 0;
    }
    REQUIRE(x == gradient(l, w, y));
    dilated += l.dilation[2] > 1 && l.stride[2] > 1;
    channels_last += c.order == PatchOrder::kChannelsLast;
  }
  CHECK(parts > 300);
  CHECK(dilated > 300);
  CHECK(channels_last > 300);
}

TEST_CASE("a batch goes in equal parts of what fits, and an image that does not fit goes alone") {
  Layers layers;
  polyconv_layer l = layers.next();
  for (polyconv_tensor *t : {&l.input, &l.output, &l.result}) t->size[0] = 32;
  const int64_t image = l.weights.size[1] * polyconv::sdk::taps(l) * polyconv::sdk::spatial(l.output) * 4;
  CHECK(images_at_a_time(l, INT64_MAX) == 32);
  CHECK(images_at_a_time(l, 31 * image) == 16); // two parts of 16, not of 31
  CHECK(images_at_a_time(l, 10 * image) == 8);
  CHECK(images_at_a_time(l, image - 1) == 1);
}
