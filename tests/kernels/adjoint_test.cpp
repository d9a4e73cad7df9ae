// adjoint_test.cpp - sdk/adjoint.hpp by itself: the forward layers that it makes of a gradient give that gradient, on
// small whole numbers, for strides, dilations, paddings and groups of every kind.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/sdk/adjoint.hpp>

#include <random>
#include <vector>

using namespace polyconv::sdk;

namespace {

using Numbers = std::vector<double>;

polyconv_tensor dense(int64_t n, int64_t c, const int64_t (&size)[3], bool channels_last) {
  polyconv_tensor t = {};
  const int64_t sizes[5] = {n, c, size[0], size[1], size[2]};
  const int first[5] = {4, 3, 2, 1, 0}, last[5] = {1, 4, 3, 2, 0};
  int64_t stride = 1;
  for (int i = 0; i < 5; ++i) t.size[i] = sizes[i];
  for (const int axis : channels_last ? last : first) t.stride[axis] = stride, stride *= sizes[axis];
  return t;
}

// A problem of one to three axes; nothing of it is large.
polyconv_layer random_layer(std::mt19937 &random) {
  const auto pick = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % (high - low + 1)); };
  polyconv_layer l = {};
  l.direction = POLYCONV_BACKWARD_DATA;
  l.groups = pick(1, 2);
  int64_t in[3], taps[3], out[3];
  for (int axis = 0; axis < 3; ++axis) {
    taps[axis] = axis == 0 ? 1 : pick(1, 4);
    l.stride[axis] = axis == 0 ? 1 : pick(1, 4);
    l.dilation[axis] = pick(1, 4);
    l.pad_begin[axis] = axis == 0 ? 0 : pick(0, 5);
    out[axis] = axis == 0 ? pick(1, 2) : pick(1, 5);
    const int64_t reach = (out[axis] - 1) * l.stride[axis] + (taps[axis] - 1) * l.dilation[axis] + 1;
    in[axis] =
        std::max<int64_t>(reach - l.pad_begin[axis] + pick(0, l.stride[axis] - 1), 1); // some outputs drop the end
  }
  const bool last = pick(0, 1) == 1;
  const int64_t channels = pick(1, 2), filters = pick(1, 3);
  l.input = dense(2, l.groups * channels, in, last);
  l.weights = dense(l.groups * filters, channels, taps, last);
  l.output = dense(2, l.groups * filters, out, last);
  l.result = l.input;
  return l;
}

// body(n, k, c in the group, o, r): every product of a layer, and the coordinates that it reads at.
template <class Body>
void for_products(const polyconv_layer &l, const Body &body) {
  const int64_t *const o = l.output.size, *const w = l.weights.size;
  for (int64_t n = 0; n < o[kN]; ++n)
    for (int64_t k = 0; k < w[kK]; ++k)
      for (int64_t c = 0; c < w[kC]; ++c)
        for (int64_t p = 0; p < spatial(l.output); ++p)
          for (int64_t t = 0; t < taps(l); ++t) {
            const int64_t at[3] = {p / o[kW] / o[kH], p / o[kW] % o[kH], p % o[kW]};
            const int64_t tap[3] = {t / w[kW] / w[kH], t / w[kW] % w[kH], t % w[kW]};
            int64_t i[3];
            bool inside = true;
            for (int axis = 0; axis < 3; ++axis) {
              i[axis] = at[axis] * l.stride[axis] + tap[axis] * l.dilation[axis] - l.pad_begin[axis];
              inside = inside && i[axis] >= 0 && i[axis] < l.input.size[kD + axis];
            }
            if (inside) body(n, k, c, at, tap, i);
          }
}

int64_t channel_of(const polyconv_layer &l, int64_t k, int64_t c) {
  return k / (l.weights.size[kK] / l.groups) * l.weights.size[kC] + c;
}

Numbers gradient(const polyconv_layer &l, const Numbers &y, const Numbers &w) {
  Numbers x(static_cast<size_t>(elements(l.input)));
  for_products(l, [&](int64_t n, int64_t k, int64_t c, const auto &o, const auto &r, const auto &i) {
    x[static_cast<size_t>(at(l.input, n, channel_of(l, k, c), i[0], i[1], i[2]))] +=
        y[static_cast<size_t>(at(l.output, n, k, o[0], o[1], o[2]))] *
        w[static_cast<size_t>(at(l.weights, k, c, r[0], r[1], r[2]))];
  });
  return x;
}

void forward(const AdjointPart &part, const Numbers &y, const Numbers &w, Numbers &x) {
  const polyconv_layer &l = part.layer;
  for_products(l, [&](int64_t n, int64_t k, int64_t c, const auto &o, const auto &r, const auto &i) {
    x[static_cast<size_t>(part.result + at(l.result, n, k, o[0], o[1], o[2]))] +=
        y[static_cast<size_t>(part.input + at(l.input, n, channel_of(l, k, c), i[0], i[1], i[2]))] *
        w[static_cast<size_t>(at(l.weights, k, c, r[0], r[1], r[2]))];
  });
}

} // namespace

TEST_CASE("the parts of a gradient are forward layers that make it up") {
  std::mt19937 random(5);
  int strided = 0, grouped = 0;
  for (int round = 0; round < 2000; ++round) {
    const polyconv_layer l = random_layer(random);
    if (!adjoint_weights_are_strided(l)) continue;
    const auto fill = [&](int64_t count) {
      Numbers numbers(static_cast<size_t>(count));
      for (double &v : numbers) v = static_cast<double>(random() % 7) - 3;
      return numbers;
    };
    const Numbers y = fill(elements(l.output)), w = fill(elements(l.weights));
    Numbers x(static_cast<size_t>(elements(l.input)));
    int64_t inputs = 0;
    for (int64_t number = 0; number < adjoint_parts(l); ++number) {
      const AdjointPart part = adjoint_part(l, number);
      inputs += elements(part.layer.result);
      if (part.is_empty || !part.has_taps || spatial(part.layer.input) == 0) continue;
      for (int axis = 0; axis < 3; ++axis) {
        CHECK(part.layer.pad_begin[axis] >= 0);
        CHECK(part.layer.pad_end[axis] >= 0);
      }
      forward(part, y, w, x);
    }
    REQUIRE(inputs == elements(l.input));
    REQUIRE(x == gradient(l, y, w));
    strided += adjoint_parts(l) > 1, grouped += l.groups > 1;
  }
  CHECK(strided > 500);
  CHECK(grouped > 200);
}
