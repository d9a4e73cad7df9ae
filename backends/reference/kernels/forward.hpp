// forward.hpp - output[n, k, o] = sum over c and taps of input[n, c, o stride + tap dilation - pad] weights[k, c, tap].
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/direction.hpp"

namespace polyconv::reference {

template <class Value, class Sum>
class Forward : Direction<Value, Sum> {
  using Base = Direction<Value, Sum>;
  using Base::axis, Base::in_per_group, Base::l, Base::out_per_group;

 public:
  using Base::Base;

  int64_t tasks() const {
    return l.output.size[0] * l.groups * blocks(out_per_group, kChannels) * axis[0].output * axis[1].output *
           blocks(axis[2].output, kChunk);
  }

  void task(int64_t number) const {
    Block<Sum> block;
    Place place{};
    block.begin = digit(number, blocks(axis[2].output, kChunk)) * kChunk;
    block.end = std::min(block.begin + kChunk, axis[2].output);
    place.h = digit(number, axis[1].output);
    place.d = digit(number, axis[0].output);
    const int64_t k = digit(number, blocks(out_per_group, kChannels)) * kChannels;
    const int64_t group = digit(number, l.groups);
    place.n = number;
    block.first = group * out_per_group + k;
    block.channels = std::min(kChannels, out_per_group - k);
    sum(group, place, block);
    finish_block(Finish(l, this->a), block, place);
  }

 private:
  void sum(int64_t group, const Place &place, Block<Sum> &block) const {
    block.clear();
    Value row[kChunk];
    for (int64_t c = 0; c < in_per_group; ++c)
      for (int64_t kd = 0; kd < axis[0].taps; ++kd)
        for (int64_t kh = 0; kh < axis[1].taps; ++kh) {
          const Place read{place.n, group * in_per_group + c, axis[0].element(place.d, kd),
                           axis[1].element(place.h, kh), 0};
          for (int64_t kw = 0; kw < axis[2].taps; ++kw) {
            this->read_through(this->input(), read, kw, block.begin, block.end, row);
            const Multiplied<Value, Sum> multiplied(row, block.end - block.begin);
            for (int64_t i = 0; i < block.channels; ++i)
              multiplied.add(block.sums[i], 1, this->weight(block.first + i, c, kd, kh, kw));
          }
        }
  }
};

} // namespace polyconv::reference
