// rows.hpp - reading: a piece of a row of any tensor as plain numbers, and which coordinates a convolution reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>
#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/padding.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <type_traits>

namespace polyconv::reference {

inline constexpr int64_t kChunk = 128; // results of a row that are summed together

template <class T>
inline T number(T stored) {
  return stored;
}
inline float number(sdk::f16 stored) {
  return sdk::to_float(stored);
}
inline float number(sdk::bf16 stored) {
  return sdk::to_float(stored);
}

// values[i] = element i of a row that begins at `first` and has a stride.
template <class Value>
void read_row(const void *base, int32_t type, int64_t first, int64_t stride, int64_t count, Value *values) {
  const auto copy = [&](auto typed) {
    const auto *p = static_cast<const decltype(typed) *>(base) + first;
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<Value>(number(p[i * stride]));
  };
  switch (type) {
    case POLYCONV_F64: return copy(double{});
    case POLYCONV_F32: return copy(float{});
    case POLYCONV_F16: return copy(sdk::f16{});
    case POLYCONV_BF16: return copy(sdk::bf16{});
    case POLYCONV_S32: return copy(int32_t{});
    case POLYCONV_S8: return copy(int8_t{});
    case POLYCONV_U8: return copy(uint8_t{});
    case POLYCONV_U16: return copy(uint16_t{});
    default: return;
  }
}

struct Range {
  int64_t begin, end;
};

// One spatial axis of a layer: output o reads, with tap t, the input coordinate o stride + t dilation - pad. What
// negative padding crops off is never reached; what lies outside folds back into the rest, of `view` elements.
struct Axis {
  int64_t stride, dilation, pad, input, output, taps;
  int64_t cropped, view;
  int32_t mode;

  Axis(const polyconv_layer &l, int axis)
      : stride(l.stride[axis]),
        dilation(l.dilation[axis]),
        pad(l.pad_begin[axis]),
        input(l.input.size[2 + axis]),
        output(l.output.size[2 + axis]),
        taps(l.weights.size[2 + axis]),
        cropped(std::max<int64_t>(-pad, 0)),
        view(input - cropped - std::max<int64_t>(-l.pad_end[axis], 0)),
        mode(l.pad_mode) {}

  int64_t coordinate(int64_t o, int64_t tap) const { return o * stride + tap * dilation - pad; }

  // The input element behind a coordinate, or -1 for the padding value.
  int64_t element(int64_t o, int64_t tap) const {
    const int64_t index = sdk::padded_index(coordinate(o, tap) - cropped, view, mode);
    return index < 0 ? index : index + cropped;
  }

  // The outputs whose coordinate lies in [begin, end).
  Range reading(int64_t tap, int64_t begin, int64_t end) const {
    const auto first_at = [&](int64_t limit) { // the first output whose coordinate is at least `limit`
      const int64_t distance = limit - coordinate(0, tap);
      return distance <= 0 ? 0 : std::min(output, (distance + stride - 1) / stride);
    };
    return {first_at(begin), first_at(end)};
  }

  // Calls visit(o, i) for every output whose coordinate lies outside the input and is folded back to an element i.
  template <class Visit>
  void folded(int64_t tap, const Visit &visit) const {
    if (mode == POLYCONV_PAD_ZERO || mode == POLYCONV_PAD_CONSTANT) return;
    const Range inside = reading(tap, 0, input);
    for (int64_t o = 0; o < inside.begin; ++o) visit(o, element(o, tap));
    for (int64_t o = inside.end; o < output; ++o) visit(o, element(o, tap));
  }

  // Calls visit(o) for every output that reads input element i with this tap.
  template <class Visit>
  void readers(int64_t i, int64_t tap, const Visit &visit) const {
    const Range direct = reading(tap, i, i + 1);
    for (int64_t o = direct.begin; o < direct.end; ++o) visit(o);
    folded(tap, [&](int64_t o, int64_t element) {
      if (element == i) visit(o);
    });
  }
};

} // namespace polyconv::reference
