// backward_data.hpp - input[n, c, i] = sum over k, taps and the outputs o that read i through the tap (padding folded
// back included) of output[n, k, o] weights[k, c, tap].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/direction.hpp"

namespace polyconv::reference {

template <class Value, class Sum>
class BackwardData : Direction<Value, Sum> {
  using Base = Direction<Value, Sum>;
  using Base::axis, Base::in_per_group, Base::l, Base::out_per_group;

 public:
  using Base::Base;

  int64_t tasks() const {
    return l.input.size[0] * l.groups * blocks(in_per_group, kChannels) * axis[0].input * axis[1].input *
           blocks(axis[2].input, kChunk);
  }

  void task(int64_t number) const {
    Block<Sum> block;
    Place place{};
    block.begin = digit(number, blocks(axis[2].input, kChunk)) * kChunk;
    block.end = std::min(block.begin + kChunk, axis[2].input);
    place.h = digit(number, axis[1].input);
    place.d = digit(number, axis[0].input);
    const int64_t c = digit(number, blocks(in_per_group, kChannels)) * kChannels;
    const int64_t group = digit(number, l.groups);
    place.n = number;
    block.first = group * in_per_group + c;
    block.channels = std::min(kChannels, in_per_group - c);
    sum(group, c, place, block);
    finish_block(Finish(l, this->a), block, place);
  }

 private:
  void sum(int64_t group, int64_t c, const Place &place, Block<Sum> &block) const {
    block.clear();
    for (int64_t k = group * out_per_group; k < (group + 1) * out_per_group; ++k)
      for (int64_t kd = 0; kd < axis[0].taps; ++kd)
        axis[0].readers(place.d, kd, [&](int64_t od) {
          for (int64_t kh = 0; kh < axis[1].taps; ++kh)
            axis[1].readers(place.h, kh, [&](int64_t oh) {
              for (int64_t kw = 0; kw < axis[2].taps; ++kw) {
                Value weights[kChannels];
                for (int64_t i = 0; i < block.channels; ++i) weights[i] = this->weight(k, c + i, kd, kh, kw);
                add_row({place.n, k, od, oh, 0}, kw, weights, block);
              }
            });
        });
  }

  // Adds what output row (n, k, od, oh) gives, through tap kw, to the inputs of the block.
  void add_row(Place read, int64_t kw, const Value *weights, Block<Sum> &block) const {
    const Axis &w = axis[2];
    const Source<Value> output = this->output();
    const Range direct = w.reading(kw, block.begin, block.end);
    Value row[kChunk];
    if (direct.begin < direct.end) {
      const int64_t count = direct.end - direct.begin;
      read.w = direct.begin;
      output.row(read, 1, count, row);
      const Multiplied<Value, Sum> multiplied(row, count);
      for (int64_t i = 0; i < block.channels; ++i)
        multiplied.add(block.sums[i] + (w.coordinate(direct.begin, kw) - block.begin), w.stride, weights[i]);
    }
    w.folded(kw, [&](int64_t o, int64_t element) {
      if (element < block.begin || element >= block.end) return;
      read.w = o;
      const Value value = output.element(read);
      for (int64_t i = 0; i < block.channels; ++i) add_product(block.sums[i][element - block.begin], value, weights[i]);
    });
  }
};

} // namespace polyconv::reference
