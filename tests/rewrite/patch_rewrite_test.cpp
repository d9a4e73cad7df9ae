// patch_rewrite_test.cpp - common/rewrite/patch.hpp by itself: the layer of one tap that it makes of a layer whose
// windows do not overlap gives the same output and gradients, in place and through copies, on small whole numbers.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <common/rewrite/patch.hpp>

#include "numbers.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace polyconv::cuda;
using namespace rewrite_test;
using polyconv::sdk::at;
using polyconv::sdk::elements;

namespace {

constexpr int kLast[5] = {1, 4, 3, 2, 0}, kFirst[5] = {4, 3, 2, 1, 0};

// ---------------------------------------------------------------- layers

class Layers : public Random {
 public:
  Layers() : Random(11) {}

  polyconv_layer next(int32_t direction) {
    polyconv_layer l = {};
    l.struct_size = sizeof l;
    l.direction = direction, l.groups = 1;
    const bool one_window = chance(25);
    int64_t in[3], taps[3], out[3];
    for (int axis = 0; axis < 3; ++axis) {
      const bool still = chance(axis == 0 ? 60 : 15);
      taps[axis] = still ? 1 : pick(2, 4), out[axis] = one_window ? 1 : pick(1, 3);
      const int64_t step = taps[axis] + (chance(10) ? 1 : 0);
      l.stride[axis] = out[axis] == 1 ? 1 : step, l.dilation[axis] = 1; // as the library has them
      in[axis] = (out[axis] - 1) * step + taps[axis] + (chance(12) ? 1 : 0);
    }
    const int64_t channels = chance(30) ? 1 : pick(1, 9), filters = pick(1, 5), batch = pick(1, 3);
    const int32_t types[] = {POLYCONV_F16, POLYCONV_BF16, POLYCONV_F32, POLYCONV_F64};
    const int32_t type = types[pick(0, 3)];
    l.input = tensor(type, batch, channels, in), l.output = tensor(type, batch, filters, out);
    l.weights = tensor(type, filters, channels, taps);
    if (chance(20)) flip(&l.weights);
    l.result = direction == POLYCONV_FORWARD ? l.output : direction == POLYCONV_BACKWARD_DATA ? l.input : l.weights;
    return l;
  }

 private:
  // Dense in either layout, or with a gap.
  polyconv_tensor tensor(int32_t type, int64_t n, int64_t c, const int64_t (&size)[3]) {
    polyconv_tensor t = {};
    const int64_t sizes[5] = {n, c, size[0], size[1], size[2]};
    t.type = type;
    int64_t stride = 1;
    const int gap = chance(15) ? static_cast<int>(pick(0, 4)) : -1;
    const bool last = chance(50);
    for (int i = 0; i < 5; ++i) {
      const int axis = last ? kLast[i] : kFirst[i];
      t.size[axis] = sizes[axis], t.stride[axis] = stride;
      stride *= sizes[axis];
      if (i == gap) stride += 8;
    }
    return t;
  }
  // As true convolution has weights.
  static void flip(polyconv_tensor *t) {
    for (int axis = 2; axis < 5; ++axis) {
      t->offset += (t->size[axis] - 1) * t->stride[axis];
      t->stride[axis] = -t->stride[axis];
    }
  }
};

int64_t span(const polyconv_tensor &t) {
  int64_t last = t.offset;
  for (int axis = 0; axis < 5; ++axis) last += std::max<int64_t>((t.size[axis] - 1) * t.stride[axis], 0);
  return last + 1;
}

// body(x, w, y) of every product: where its factors lie, or its sum.
template <class Body>
void for_products(const polyconv_layer &l, const Body &body) {
  const int64_t *const o = l.output.size, *const w = l.weights.size;
  for (int64_t n = 0; n < o[0]; ++n)
    for (int64_t k = 0; k < w[0]; ++k)
      for (int64_t c = 0; c < w[1]; ++c)
        for (int64_t p = 0; p < o[2] * o[3] * o[4]; ++p)
          for (int64_t t = 0; t < w[2] * w[3] * w[4]; ++t) {
            const int64_t to[3] = {p / o[4] / o[3], p / o[4] % o[3], p % o[4]};
            const int64_t tap[3] = {t / w[4] / w[3], t / w[4] % w[3], t % w[4]};
            int64_t i[3];
            for (int axis = 0; axis < 3; ++axis)
              i[axis] = to[axis] * l.stride[axis] + tap[axis] * l.dilation[axis] - l.pad_begin[axis];
            body(at(l.input, n, c, i[0], i[1], i[2]), at(l.weights, k, c, tap[0], tap[1], tap[2]),
                 at(l.output, n, k, to[0], to[1], to[2]));
          }
}

// A layer in its direction, into `written`, which holds zeros.
void run(const polyconv_layer &l, Numbers &x, Numbers &w, Numbers &y) {
  for_products(l, [&](int64_t in, int64_t tap, int64_t out) {
    if (l.direction == POLYCONV_FORWARD)
      number(y, out) += number(x, in) * number(w, tap);
    else if (l.direction == POLYCONV_BACKWARD_DATA)
      number(x, in) += number(y, out) * number(w, tap);
    else
      number(w, tap) += number(x, in) * number(y, out);
  });
}

// ---------------------------------------------------------------- matrices

// body(place in the tensor, place in the matrix) of every element.
template <class Body>
void for_elements(const PatchMatrix &m, int64_t row, const Body &body) {
  for (int64_t r = 0; r < m.rows(); ++r)
    for (int64_t e = 0; e < m.columns(); ++e) {
      int64_t place = m.offset, rest = r;
      for (int i = 3; i >= 0; --i) place += rest % m.row_size[i] * m.row_stride[i], rest /= m.row_size[i];
      rest = e;
      for (int i = 0; i < 4; ++i) place += rest % m.column_size[i] * m.column_stride[i], rest /= m.column_size[i];
      body(place, r * row + e);
    }
}

Numbers gathered(const PatchMatrix &m, int64_t row, const Numbers &tensor) {
  Numbers matrix(static_cast<size_t>(m.rows() * row));
  for_elements(m, row, [&](int64_t from, int64_t to) { number(matrix, to) = number(tensor, from); });
  return matrix;
}

void scatter(const PatchMatrix &m, int64_t row, const Numbers &matrix, Numbers &tensor) {
  for_elements(m, row, [&](int64_t to, int64_t from) { number(tensor, to) = number(matrix, from); });
}

// What a kernel does with a patch (common/rewrite/patch_kernel.cpp).
void run_patch(const polyconv_layer &l, const Patch &p, Numbers &x, Numbers &w, Numbers &y) {
  const PatchMatrix windows = windows_of(l, l.input, p.order), filters = filters_of(l.weights, p.order);
  Numbers windows_copy = p.in_place ? Numbers{} : gathered(windows, p.row, x);
  Numbers filters_copy = p.weights_in_place ? Numbers{} : gathered(filters, p.row, w);
  Numbers &from = p.in_place ? x : windows_copy, &with = p.weights_in_place ? w : filters_copy;
  if (l.direction == POLYCONV_FORWARD || p.layer.direction == POLYCONV_BACKWARD_DATA)
    return run(p.layer, from, with, y);
  if (l.direction == POLYCONV_BACKWARD_DATA) {
    run(p.layer, y, with, from);
    return p.in_place ? void() : scatter(windows, p.row, from, x);
  }
  run(p.layer, from, with, y);
  if (!p.weights_in_place) scatter(filters, p.row, with, w);
}

// One tap, or taps of one axis at a stride of 1.
void check_sizes(const polyconv_layer &l, const Patch &p) {
  const polyconv_layer &f = p.layer;
  const bool data = l.direction == POLYCONV_BACKWARD_DATA;
  CHECK(f.direction == (data ? static_cast<int32_t>(POLYCONV_FORWARD) : l.direction));
  CHECK(f.input.size[1] == f.weights.size[1]);
  CHECK(f.output.size[1] == f.weights.size[0]);
  for (int axis = 0; axis < 3; ++axis) {
    CHECK(f.stride[axis] == 1);
    CHECK(f.input.size[2 + axis] == f.output.size[2 + axis] + f.weights.size[2 + axis] - 1);
  }
  CHECK(f.weights.size[3] * f.weights.size[4] == 1);
  if (!p.in_place) CHECK(f.weights.size[2] == 1);
  for (int axis = 0; axis < 5; ++axis) CHECK(f.result.size[axis] == polyconv::sdk::written(f).size[axis]);
}

struct Counts {
  int copied = 0, seen = 0, with_taps = 0, weights_in_place = 0, one_row = 0, rows = 0;
};

void check_patch(Layers &layers, const polyconv_layer &l, const Patch &p, Counts *counts) {
  REQUIRE(p.row % (16 / polyconv::sdk::type_bytes(l.input.type)) == 0); // copies move whole 16 bytes, of filters too
  REQUIRE(p.row >= polyconv::sdk::taps(l) * l.weights.size[1]);
  Numbers x = layers.numbers(span(l.input)), w = layers.numbers(span(l.weights)), y = layers.numbers(span(l.output));
  for (Numbers *written : {&x, &w, &y})
    if (written == (l.direction == POLYCONV_FORWARD ? &y : l.direction == POLYCONV_BACKWARD_DATA ? &x : &w))
      std::fill(written->begin(), written->end(), 0.0);
  Numbers x2 = x, w2 = w, y2 = y;
  run(l, x, w, y);
  run_patch(l, p, x2, w2, y2);
  REQUIRE(x == x2);
  REQUIRE(w == w2);
  REQUIRE(y == y2);
  ++(p.in_place ? counts->seen : counts->copied);
  counts->with_taps += p.layer.weights.size[2] > 1;
  counts->weights_in_place += p.weights_in_place;
  counts->one_row += p.layer.output.size[0] == 1 && l.output.size[0] > 1;
}

polyconv_tensor dense(int32_t type, const int64_t (&size)[5], bool last) {
  polyconv_tensor t = {};
  t.type = type;
  int64_t stride = 1;
  for (const int axis : last ? kLast : kFirst) t.size[axis] = size[axis], t.stride[axis] = stride, stride *= size[axis];
  return t;
}

// f16, whose windows of s3 elements of c channels stand side by side, o of them along the axes.
polyconv_layer layer_of(int64_t n, int64_t c, int64_t k, const int64_t (&s)[3], const int64_t (&o)[3], bool last) {
  polyconv_layer l = {};
  l.struct_size = sizeof l;
  l.direction = POLYCONV_FORWARD, l.groups = 1;
  for (int axis = 0; axis < 3; ++axis) l.stride[axis] = o[axis] == 1 ? 1 : s[axis], l.dilation[axis] = 1;
  l.input = dense(POLYCONV_F16, {n, c, s[0] * o[0], s[1] * o[1], s[2] * o[2]}, last);
  l.weights = dense(POLYCONV_F16, {k, c, s[0], s[1], s[2]}, last);
  l.output = l.result = dense(POLYCONV_F16, {n, k, o[0], o[1], o[2]}, last);
  return l;
}

} // namespace

TEST_CASE("a layer of patches is one of one tap, in every direction, in place and through copies") {
  Layers layers;
  for (const int32_t direction : {POLYCONV_FORWARD, POLYCONV_BACKWARD_DATA, POLYCONV_BACKWARD_WEIGHTS}) {
    Counts counts;
    for (int round = 0; round < 1500; ++round) {
      const polyconv_layer l = layers.next(direction);
      polyconv::sdk::Offer offer = {};
      if (!has_patches(l, offer)) {
        CHECK(polyconv::sdk::taps(l) == 1);
        continue;
      }
      const Patch copied = copied_patch(l);
      check_sizes(l, copied);
      check_patch(layers, l, copied, &counts);
      Patch seen, rows;
      if (seen_patch(l, &seen)) check_sizes(l, seen), check_patch(layers, l, seen, &counts);
      Counts of_rows;
      if (patch_of_rows(l, &rows)) {
        CHECK(rows.layer.direction == direction);
        CHECK(rows.layer.weights.size[1] == l.weights.size[1] * l.weights.size[4]);
        check_patch(layers, l, rows, &of_rows);
        ++counts.rows;
      }
    }
    CAPTURE(direction);
    CHECK(counts.copied > 800);
    CHECK(counts.seen > 150);
    CHECK(counts.weights_in_place > 100);
    CHECK(counts.one_row > 50);
    CHECK(counts.rows > 60);
    CHECK((counts.with_taps > 20) == (direction != POLYCONV_BACKWARD_DATA));
  }
}

TEST_CASE("windows are seen in place where memory holds them so") {
  Patch p;
  // A patch embedding as images of one window: all is one pixel, in either layout, and the images are a row.
  for (const bool last : {false, true}) {
    const polyconv_layer embedding = layer_of(4096, 3, 1280, {2, 14, 14}, {1, 1, 1}, last);
    REQUIRE(seen_patch(embedding, &p));
    CHECK(p.weights_in_place);
    CHECK(p.layer.input.size[1] == 1176);
    CHECK(p.layer.input.size[4] == 4096);
    CHECK(polyconv::sdk::channels_last(p.layer.input));
    CHECK(polyconv::sdk::taps(p.layer) == 1);
  }
  // Rows of windows, channels last: columns and channels are one axis, rows of a window taps at a stride of 1.
  REQUIRE(seen_patch(layer_of(2, 128, 64, {1, 8, 8}, {1, 7, 7}, true), &p));
  CHECK(p.layer.weights.size[1] == 1024);
  CHECK(p.layer.weights.size[2] == 8);
  CHECK(p.layer.input.size[2] == 8);
  CHECK(p.layer.input.size[3] == 7);
  CHECK(p.weights_in_place);
  // One dimension: no taps remain.
  REQUIRE(seen_patch(layer_of(2, 512, 64, {1, 1, 2}, {1, 1, 499}, true), &p));
  CHECK(p.layer.weights.size[1] == 1024);
  CHECK(polyconv::sdk::taps(p.layer) == 1);
  // Blocks of 24 bytes of a row would be multiplied with zeros for the most part.
  CHECK_FALSE(seen_patch(layer_of(2, 3, 96, {1, 4, 4}, {1, 56, 56}, true), &p));
  // Channels first: rows of a window lie apart for every channel.
  CHECK_FALSE(seen_patch(layer_of(2, 128, 64, {1, 8, 8}, {1, 7, 7}, false), &p));
  // Three axes, of which two remain: rows of windows are pixels, with taps and strides along D and H.
  polyconv_layer volume = layer_of(2, 64, 64, {2, 2, 2}, {4, 4, 4}, true);
  CHECK_FALSE(seen_patch(volume, &p));
  REQUIRE(patch_of_rows(volume, &p));
  CHECK(p.layer.weights.size[1] == 128);
  CHECK(p.layer.input.size[4] == 4);
  CHECK(polyconv::sdk::taps(p.layer) == 4);
  CHECK(p.layer.stride[0] * p.layer.stride[1] * p.layer.stride[2] == 4);
  CHECK(p.weights_in_place);
  // So is the gradient of data, of which one output has every tap of its own.
  volume = layer_of(2, 64, 64, {1, 2, 2}, {1, 1, 1}, true);
  volume.direction = POLYCONV_BACKWARD_DATA, volume.result = volume.input;
  REQUIRE(patch_of_rows(volume, &p));
  CHECK(p.layer.direction == POLYCONV_BACKWARD_DATA);
  CHECK(p.layer.stride[1] == 2);
}

TEST_CASE("layers whose windows overlap, have holes or reach beyond the image are refused in words") {
  polyconv::sdk::Offer offer = {};
  const auto refused = [&](const polyconv_layer &l) {
    offer = {};
    return has_patches(l, offer) ? std::string() : std::string(offer.reason);
  };
  polyconv_layer l = layer_of(2, 8, 8, {1, 2, 2}, {1, 4, 4}, true);
  CHECK(refused(l).empty());
  l.stride[2] = 1;
  CHECK(refused(l) == "takes windows that do not overlap: strides from 2 on, not 1");
  l = layer_of(2, 8, 8, {1, 2, 2}, {1, 4, 4}, true);
  l.pad_begin[1] = 1;
  CHECK(refused(l) == "takes windows that lie in the image: no padding");
  l = layer_of(2, 8, 8, {1, 2, 2}, {1, 4, 4}, true);
  l.input.size[3] = 7;
  CHECK(refused(l) == "takes windows that lie in the image: no padding");
  l = layer_of(2, 8, 8, {1, 2, 2}, {1, 3, 3}, true);
  l.input.size[4] = 8, l.dilation[2] = 2, l.stride[2] = 2;
  CHECK(refused(l) == "takes windows without holes, not a dilation of 2");
  l = layer_of(2, 8, 8, {1, 2, 2}, {1, 4, 4}, true);
  l.groups = 2;
  CHECK(refused(l) == "takes one group, not 2");
  CHECK(refused(layer_of(2, 8, 8, {1, 1, 1}, {1, 4, 4}, true)).rfind("takes windows of several elements", 0) == 0);
}
