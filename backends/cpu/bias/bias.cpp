// bias.cpp - see plan.hpp. Lines are summed in the arithmetic's type.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/bias/plan.hpp"
#include "cpu/common/load.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

constexpr int kBiasChunk = 256;

template <class From, class T>
POLYCONV_NOINLINE void bias_typed(const BiasPlan &p, const void *biased, int64_t split, double *totals) {
  const polyconv_tensor &t = p.biased;
  const Load<From, T> convert(0);
  const int64_t channels = t.size[1], lines = t.size[0] * t.size[2] * t.size[3];
  constexpr int kL = kLanes<T>;
  T row[kBiasChunk];
  const bool side_by_side = t.stride[1] == 1 && channels > 1;
  for (int64_t c = 0; c < channels; ++c) totals[c] = 0;
  for (int64_t line = split * lines / p.splits; line < (split + 1) * lines / p.splits; ++line) {
    const From *in = static_cast<const From *>(biased) + t.offset + line / t.size[3] / t.size[2] * t.stride[0] +
                     line / t.size[3] % t.size[2] * t.stride[2] + line % t.size[3] * t.stride[3];
    for (int64_t c = 0; c < channels; c += side_by_side ? kL : 1) {
      Vector<T> sum = {};
      if (side_by_side) {
        const int count = channels - c < kL ? static_cast<int>(channels - c) : kL;
        for (int64_t x = 0; x < t.size[4]; ++x) {
          const From *pixel = in + x * t.stride[4] + c;
          sum += count == kL ? convert.full(pixel) : convert.partial(pixel, count);
        }
        for (int lane = 0; lane < count; ++lane) totals[c + lane] += sum[lane];
        continue;
      }
      for (int64_t x = 0; x < t.size[4]; x += kBiasChunk) {
        const int64_t count = t.size[4] - x < kBiasChunk ? t.size[4] - x : kBiasChunk;
        load_run(convert, in + c * t.stride[1] + x * t.stride[4], t.stride[4], count, row);
        int64_t i = 0;
        for (; i + kL <= count; i += kL) sum += load(row + i);
        if (i < count) sum += load_partial(row + i, static_cast<int>(count - i));
      }
      for (int lane = 0; lane < kL; ++lane) totals[c] += sum[lane];
    }
  }
}

void bias_task(const BiasPlan &plan, const void *biased, int64_t split, double *totals) {
  switch (plan.biased.type) {
    case POLYCONV_F64: return bias_typed<double, double>(plan, biased, split, totals);
    case POLYCONV_F16: return bias_typed<f16, float>(plan, biased, split, totals);
    case POLYCONV_BF16: return bias_typed<bf16, float>(plan, biased, split, totals);
    default: return bias_typed<float, float>(plan, biased, split, totals);
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
