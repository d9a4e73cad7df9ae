// backward_weights.hpp - weights[k, c, tap] = sum over n and outputs o of output[n, k, o] input[n, c, what o reads
// through the tap]; bias[k] = sum of output[n, k, o], or of the input where the problem was transposed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/direction.hpp"

namespace polyconv::reference {

template <class Sum>
class BackwardWeights : Direction<double, Sum> {
  using Base = Direction<double, Sum>;
  using Base::axis, Base::in_per_group, Base::l, Base::out_per_group;

 public:
  using Base::Base;

  // One tap of one input channel and a few output channels; then one task for each element of the bias.
  int64_t tasks() const { return weight_tasks() + (l.epilogue.has_bias ? biased().size[sdk::kC] : 0); }

  void task(int64_t number) const {
    if (number >= weight_tasks()) return sum_bias(number - weight_tasks());
    const int64_t kw = digit(number, axis[2].taps);
    const int64_t kh = digit(number, axis[1].taps);
    const int64_t kd = digit(number, axis[0].taps);
    const int64_t c = digit(number, in_per_group);
    const int64_t k = digit(number, blocks(out_per_group, kChannels)) * kChannels;
    const int64_t group = number;
    Sum sums[kChannels] = {};
    const int64_t first = group * out_per_group + k, channels = std::min(kChannels, out_per_group - k);
    for (int64_t n = 0; n < l.output.size[0]; ++n)
      for (int64_t od = 0; od < axis[0].output; ++od)
        for (int64_t oh = 0; oh < axis[1].output; ++oh) {
          const Place read{n, group * in_per_group + c, axis[0].element(od, kd), axis[1].element(oh, kh), 0};
          add_row(read, {n, first, od, oh, 0}, kw, channels, sums);
        }
    for (int64_t i = 0; i < channels; ++i)
      sdk::store_as(this->a.weights[0], l.result.type, sdk::at(l.result, first + i, c, kd, kh, kw), rounded(sums[i]));
  }

 private:
  int64_t weight_tasks() const { return l.groups * blocks(out_per_group, kChannels) * in_per_group * sdk::taps(l); }

  const polyconv_tensor &biased() const { return l.bias_over_input ? l.input : l.output; }

  // Adds the products of one output row of `channels` channels, from `output` on, with what it reads of `input`.
  void add_row(const Place &input, const Place &output, int64_t kw, int64_t channels, Sum *sums) const {
    double read[kChunk], gradient[kChunk];
    for (int64_t begin = 0; begin < axis[2].output; begin += kChunk) {
      const int64_t end = std::min(begin + kChunk, axis[2].output);
      this->read_through(this->input(), input, kw, begin, end, read);
      for (int64_t i = 0; i < channels; ++i) {
        Place place = output;
        place.channel += i;
        place.w = begin;
        this->output().row(place, 1, end - begin, gradient);
        for (int64_t o = 0; o < end - begin; ++o) add_product(sums[i], read[o], gradient[o]);
      }
    }
  }

  void sum_bias(int64_t channel) const {
    const polyconv_tensor &t = biased();
    const Source<double> source{t, l.bias_over_input ? this->a.input : this->a.output, 0};
    Sum sum = {};
    double row[kChunk];
    Place p{};
    p.channel = channel;
    for (p.n = 0; p.n < t.size[sdk::kN]; ++p.n)
      for (p.d = 0; p.d < t.size[sdk::kD]; ++p.d)
        for (p.h = 0; p.h < t.size[sdk::kH]; ++p.h)
          for (p.w = 0; p.w < t.size[sdk::kW]; p.w += kChunk) {
            const int64_t count = std::min(kChunk, t.size[sdk::kW] - p.w);
            source.row(p, 1, count, row);
            for (int64_t i = 0; i < count; ++i) add_product(sum, row[i], 1.0);
          }
    sdk::store_as(this->a.bias[0], l.bias_type, channel, rounded(sum));
  }
};

} // namespace polyconv::reference
