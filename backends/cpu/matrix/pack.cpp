// pack.cpp - brings weights into the order of the matrix kernel's tiles. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/matrix/driver.hpp"

#include "cpu/common/parts.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cmath>

namespace polyconv::cpu {
namespace {

// One group's weights in memory.
struct Raw {
  const MatrixPlan &p;
  const polyconv_layer &layer;
  const void *data;
  int64_t group;

  // Index of output channel 0 of the group; `channel` of a stored pixel. -1: no tap's.
  int64_t index(int64_t tap, int64_t channel) const {
    const polyconv_tensor &w = layer.weights;
    if (p.gathered) tap = channel / p.group_in;
    int64_t line = tap / w.size[sdk::kW], column = tap % w.size[sdk::kW];
    if (p.merged) {
      const int64_t pixel = channel / p.group_in, row = tap % p.line_taps * p.joined + pixel / w.size[sdk::kW];
      if (row >= w.size[sdk::kH]) return -1;
      line = tap / p.line_taps * w.size[sdk::kH] + row, column = pixel % w.size[sdk::kW];
    }
    return sdk::at(w, group * p.group_out, channel % p.group_in, line / w.size[sdk::kH], line % w.size[sdk::kH],
                   column);
  }
};

// A finite number is rounded to a finite one: what would be Inf is cut off.
sdk::bf16 finite_part(float v) {
  const sdk::bf16 rounded = sdk::to_bf16(v);
  const bool beyond = std::isfinite(v) && !std::isfinite(sdk::to_float(rounded));
  return beyond ? sdk::bf16{static_cast<uint16_t>(rounded.bits - 1)} : rounded;
}

struct Floats { // as 1 to 3 bf16, each what rounding left of those before
  typedef uint16_t Stored;
  static constexpr int64_t kPer = 2;
  static void store(const Raw &raw, int64_t index, int64_t parts, uint16_t *out) {
    float rest = sdk::load_as<float>(raw.data, raw.layer.weights.type, index);
    for (int64_t part = 0; part < parts; ++part, out += 2 * kMatrixTileBytes / 2) {
      const sdk::bf16 rounded = parts > 1 ? finite_part(rest) : sdk::to_bf16(rest);
      *out = rounded.bits;
      rest -= sdk::to_float(rounded);
    }
  }
};

struct Integers { // u8 with zero point 128 becomes s8
  typedef uint8_t Stored;
  static constexpr int64_t kPer = 4;
  static void store(const Raw &raw, int64_t index, int64_t, uint8_t *out) {
    *out = static_cast<uint8_t>(static_cast<const uint8_t *>(raw.data)[index] ^ raw.layer.weights_zero_point);
  }
};

// Elements from the first tile of a panel to the one that holds output channel k.
template <class Kind>
constexpr int64_t tile_at(int64_t k) {
  return k / kMatrixRows * (kMatrixTileBytes / static_cast<int64_t>(sizeof(typename Kind::Stored)));
}

template <class Kind>
void pack_panel(const Raw &raw, int64_t panel, char *out) {
  const MatrixPlan &p = raw.p;
  const int64_t parts = matrix_parts(p.products), first = panel * kMatrixPanel;
  const int64_t filled = std::min<int64_t>(kMatrixPanel, p.group_out - first);
  const int64_t stride = raw.layer.weights.stride[sdk::kK];
  std::fill(out, out + p.panel_bytes, char(0));
  for (int64_t tap = 0; tap < p.tap_count; ++tap)
    for (int64_t c = 0; c < p.channels; ++c) {
      const int64_t chunk_channels = matrix_chunk_channels(p.products), in_chunk = c % chunk_channels;
      char *chunk = out + (c / chunk_channels * p.tap_count + tap) * parts * 2 * kMatrixTileBytes;
      auto *row = reinterpret_cast<typename Kind::Stored *>(chunk + in_chunk / Kind::kPer * kMatrixRowBytes) +
                  in_chunk % Kind::kPer;
      const int64_t begin = raw.index(tap, c), index = begin + first * stride;
      if (begin < 0) continue;
      for (int64_t k = 0; k < filled; ++k)
        Kind::store(raw, index + k * stride, parts, row + tile_at<Kind>(k) + k % kMatrixRows * Kind::kPer);
    }
}

// Behind the panel: the sum of each output channel's weights.
void add_sums(const MatrixPlan &p, char *panel) {
  int32_t *sums = reinterpret_cast<int32_t *>(panel + p.panel_bytes - 2 * kMatrixRowBytes);
  const auto *weights = reinterpret_cast<const uint8_t *>(panel);
  for (int64_t i = 0; i < p.panel_bytes - 2 * kMatrixRowBytes; ++i) {
    const int32_t weight = p.signed_weights ? static_cast<int8_t>(weights[i]) : weights[i];
    sums[i / kMatrixTileBytes % 2 * kMatrixRows + i % kMatrixRowBytes / 4] += weight;
  }
}

} // namespace

void matrix_pack(const MatrixPlan &p, const polyconv_layer &layer, const std::unique_ptr<sdk::Parallel> &parallel,
                 const void *raw, void *packed) {
  run_each(parallel, p.groups * p.panels, threads_of(parallel), [&](int64_t, int64_t i) {
    const Raw group = {p, layer, raw, i / p.panels};
    char *panel = static_cast<char *>(packed) + i * p.panel_bytes;
    if (p.products != MatrixProducts::kIntegers) return pack_panel<Floats>(group, i % p.panels, panel);
    pack_panel<Integers>(group, i % p.panels, panel);
    add_sums(p, panel);
  });
}

} // namespace polyconv::cpu
