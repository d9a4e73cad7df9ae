// direction.hpp - what the three directions of the reference share. Each direction is a class with tasks() and task(i):
// one task computes a few channels of a piece of a row of the result. A task's sums run in the order of its loops
// alone, so no bit depends on how many threads share the tasks.
//
// Value and Sum are double and double, double and Compensated, or int32_t and uint32_t.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/finish.hpp"
#include "kernels/rows.hpp"

namespace polyconv::reference {

inline constexpr int64_t kChannels = 8; // result channels that share what was read

inline int64_t blocks(int64_t size, int64_t block) {
  return (size + block - 1) / block;
}

// Takes the next digit of a task's number.
inline int64_t digit(int64_t &number, int64_t base) {
  const int64_t result = number % base;
  number /= base;
  return result;
}

// A tensor that is read, as plain numbers.
template <class Value>
struct Source {
  const polyconv_tensor &tensor;
  const void *base;
  Value zero_point;

  // values[i] = element (n, c, d, h, w + i step), less the zero point.
  void row(const Place &p, int64_t step, int64_t count, Value *values) const {
    read_row(base, tensor.type, at(tensor, p), tensor.stride[sdk::kW] * step, count, values);
    for (int64_t i = 0; i < count; ++i) values[i] -= zero_point;
  }
  Value element(const Place &p) const { return sdk::load_as<Value>(base, tensor.type, at(tensor, p)) - zero_point; }
};

// Sums of up to kChannels channels, from `first` on, of results [begin, end) of a row.
template <class Sum>
struct Block {
  int64_t first, channels, begin, end;
  Sum sums[kChannels][kChunk];

  void clear() {
    for (auto &channel : sums)
      for (Sum &sum : channel) sum = Sum{};
  }
};

template <class Sum>
void finish_block(const Finish &finish, const Block<Sum> &block, Place place) {
  for (int64_t i = 0; i < block.channels; ++i) {
    place.channel = block.first + i;
    for (place.w = block.begin; place.w < block.end; ++place.w) finish(block.sums[i][place.w - block.begin], place);
  }
}

template <class Value, class Sum>
class Direction {
 public:
  Direction(const polyconv_layer &layer, const polyconv_arguments &arguments)
      : l(layer),
        a(arguments),
        axis{{layer, 0}, {layer, 1}, {layer, 2}},
        in_per_group(layer.weights.size[sdk::kC]),
        out_per_group(layer.weights.size[sdk::kK] / layer.groups) {}

 protected:
  static constexpr bool kQuantised = std::is_same_v<Value, int32_t>;

  // The zero point belongs to the tensor that an integer row reads: input forwards, output backwards.
  Source<Value> input() const { return {l.input, a.input, kQuantised ? Value(l.input_zero_point) : Value(0)}; }
  Source<Value> output() const { return {l.output, a.output, kQuantised ? Value(l.input_zero_point) : Value(0)}; }

  Value weight(int64_t k, int64_t c, int64_t kd, int64_t kh, int64_t kw) const {
    const int64_t i = sdk::at(l.weights, k, c, kd, kh, kw);
    const Value value = sdk::load_as<Value>(a.weights[0], l.weights.type, i);
    if (!kQuantised) return value;
    if ((l.traits & POLYCONV_TRAIT_WEIGHTS_ZERO_POINTS) == 0) return value - Value(l.weights_zero_point);
    // One for each channel of the result, which is the input of a transposed problem's adjoint.
    const int64_t channel = l.direction == POLYCONV_FORWARD ? k : k / out_per_group * in_per_group + c;
    return value - sdk::load_as<Value>(a.weights_zero_point[0], l.weights.type, channel);
  }

  // What outputs [begin, end) of a row read through tap kw from input row (n, channel, d, h), where d or h is -1 in
  // the padding.
  void read_through(const Source<Value> &source, Place p, int64_t kw, int64_t begin, int64_t end, Value *values) const {
    const bool padded_row = p.d < 0 || p.h < 0;
    // Padding with zeros means zero after the zero point.
    const Value padding =
        l.pad_mode == POLYCONV_PAD_CONSTANT ? static_cast<Value>(l.pad_value) - source.zero_point : Value(0);
    const auto outside = [&](int64_t o) {
      p.w = padded_row ? -1 : axis[2].element(o, kw);
      values[o - begin] = p.w < 0 ? padding : source.element(p);
    };
    const Range inside = padded_row ? Range{end, end} : axis[2].reading(kw, 0, axis[2].input);
    const int64_t from = std::clamp(inside.begin, begin, end), to = std::clamp(inside.end, from, end);
    for (int64_t o = begin; o < from; ++o) outside(o);
    for (int64_t o = to; o < end; ++o) outside(o);
    p.w = axis[2].coordinate(from, kw);
    if (from < to) source.row(p, axis[2].stride, to - from, values + (from - begin));
  }

  const polyconv_layer &l;
  const polyconv_arguments &a;
  const Axis axis[3];
  const int64_t in_per_group, out_per_group;
};

} // namespace polyconv::reference
