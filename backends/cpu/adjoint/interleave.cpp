// interleave.cpp - see interleave.hpp. Compiled for the baseline CPU: memory decides.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/adjoint/interleave.hpp"

#include "cpu/common/count.hpp"

#include <cstring>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// to[2 i] = even[i], to[2 i + 1] = odd[i], which may be NULL for zeros.
template <class Bits>
void merge_two(const Bits *even, const Bits *odd, int64_t columns, Bits *to) {
  const int64_t pairs = columns / 2;
  if (odd)
    for (int64_t i = 0; i < pairs; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
  else
    for (int64_t i = 0; i < pairs; ++i) to[2 * i] = even[i], to[2 * i + 1] = 0;
  if (columns % 2) to[columns - 1] = even[pairs];
}

// to[i * step + phase] = from[phase][i]
template <class Bits>
void merge(const void *const *from, int64_t step, int64_t columns, void *line) {
  Bits *to = static_cast<Bits *>(line);
  if (step == 2 && from[0])
    return merge_two(static_cast<const Bits *>(from[0]), static_cast<const Bits *>(from[1]), columns, to);
  for (int64_t phase = 0; phase < step; ++phase) {
    const Bits *some = static_cast<const Bits *>(from[phase]);
    for (int64_t i = phase, x = 0; i < columns; i += step, ++x) to[i] = some ? some[x] : Bits(0);
  }
}

void merge_line(int64_t bytes, const void *const *from, int64_t step, int64_t columns, void *line) {
  switch (bytes) {
    case 1: return merge<uint8_t>(from, step, columns, line);
    case 2: return merge<uint16_t>(from, step, columns, line);
    case 4: return merge<uint32_t>(from, step, columns, line);
    default: return merge<uint64_t>(from, step, columns, line);
  }
}

} // namespace

bool interleaves(const polyconv_layer &l) {
  return l.stride[2] > 1 && l.result.stride[kW] == 1 && l.result.size[kW] > 1 && l.result.stride[kC] != 1;
}

void interleave(const polyconv_layer &l, const PartResults &parts, char *result, int64_t first, int64_t last) {
  const polyconv_tensor &t = l.result;
  const int64_t bytes = type_bytes(t.type), step = l.stride[2], width = t.size[kW];
  for (int64_t i = first; i < last; ++i) {
    const int64_t h = i % t.size[kH], d = i / t.size[kH] % t.size[kD], plane = i / t.size[kH] / t.size[kD];
    const int64_t depth = d % l.stride[0], row = h % l.stride[1];
    const int64_t depths = ceil_div(t.size[kD] - depth, l.stride[0]), rows = ceil_div(t.size[kH] - row, l.stride[1]);
    const int64_t line = (plane * depths + d / l.stride[0]) * rows + h / l.stride[1];
    const void *from[sdk::kMostAdjointParts];
    for (int64_t phase = 0; phase < step; ++phase) {
      const char *part = parts.of[(depth * l.stride[1] + row) * step + phase];
      from[phase] = part ? part + line * ceil_div(width - phase, step) * bytes : nullptr;
    }
    const int64_t place = at(t, plane / t.size[kC], plane % t.size[kC], d, h, 0);
    merge_line(bytes, from, step, width, result + place * bytes);
  }
}

void zero_lines(const polyconv_tensor &t, char *result, int64_t first, int64_t last) {
  const auto bytes = type_bytes(t.type);
  const bool side_by_side = t.stride[kC] == 1;
  for (int64_t i = first; i < last; ++i) {
    const int64_t h = i % t.size[kH], d = i / t.size[kH] % t.size[kD], n = i / t.size[kH] / t.size[kD];
    for (int64_t w = 0; w < t.size[kW]; ++w)
      for (int64_t c = 0; c < t.size[kC]; c += side_by_side ? t.size[kC] : 1)
        std::memset(result + at(t, n, c, d, h, w) * bytes, 0,
                    static_cast<size_t>(bytes * (side_by_side ? t.size[kC] : 1)));
  }
}

} // namespace polyconv::cpu
