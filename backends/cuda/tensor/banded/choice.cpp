// choice.cpp - how cuda-tensor/banded cuts up a layer on each of its instances, and which it takes.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cmath>

#include "banded/place.hpp"
#include "common/machine.hpp"

namespace polyconv::cuda::banded {
namespace {

bool pixels_are_rows(const polyconv_layer &l) {
  return l.input.stride[1] == 1 && l.input.stride[4] == l.input.size[1] && l.input.size[1] > 1;
}

Geometry describe(const polyconv_layer &l) {
  Geometry g = {};
  static_cast<few::Shape &>(g) = few::shape_of(l);
  g.inner = pixels_are_rows(l) ? small(l.input.size[1]) : 1;
  g.input_row = g.input_w * g.inner;
  g.result_type = l.result.type;
  return g;
}

// Whether every offset by whole images and rows, and by channels where `planes`, is a multiple of `many` elements.
bool in_vectors(const polyconv_tensor &t, int64_t many, bool planes) {
  return t.stride[3] % many == 0 && (!planes || t.size[1] == 1 || t.stride[1] % many == 0) &&
         (t.size[0] == 1 || t.stride[0] % many == 0) && t.offset % many == 0;
}

// ---------------------------------------------------------------- marches

bool stores_together(const polyconv_layer &l, const Form &f, const Geometry &g) {
  const int many = f.pixels ? 2 * f.tiles : 2;
  if (l.result.type != l.input.type || !in_vectors(l.result, many, !f.pixels)) return false;
  return f.pixels ? g.filters % many == 0 && g.y_column % many == 0 : g.output_w % many == 0 && g.y_column == 1;
}

bool place_march(const polyconv_layer &l, const Variant &v, int columns, int rows, Choice &c) {
  const Form &f = v.form;
  Geometry &g = c.geometry;
  const bool quick = v.way == Way::kMarch;
  if (!place_windows(f, columns, !quick ? 1 : f.pixels ? 2 : 4, g)) return false;
  if (quick) {
    const int64_t pieces = ceil_div((g.first & 7) + 7 * g.move + 8 * f.words, 8);
    if (pieces > 12 || pieces * f.rows * f.step > 32 || g.input_row % 8 != 0 || !in_vectors(l.input, 8, g.inner == 1) ||
        !stores_together(l, f, g))
      return false;
  }
  cut_rows(f, rows, g);
  g.spread = quick && !f.pixels;
  g.tiles = small(ceil_div(g.positions, kPositions));
  const int64_t warps = l.output.size[0] * g.strips * g.groups * g.tiles;
  if (warps > INT32_MAX - 128) return false;
  g.warps = small(warps);
  c.blocks = ceil_div(warps, v.threads / 32);
  return true;
}

// ---------------------------------------------------------------- choice

bool serves(const polyconv_layer &l, const Variant &v) {
  const Form &f = v.form;
  const bool pixels = pixels_are_rows(l);
  if (v.type != l.input.type || f.step != l.stride[1] || f.taps < l.weights.size[3]) return false;
  if (is_tracks(v.way)) return f.planes >= l.weights.size[1];
  if (f.pixels != pixels || (!pixels && l.input.stride[4] != 1 && l.input.size[4] > 1)) return false; // gaps in rows
  if (pixels) return l.result.stride[1] == 1 || l.result.size[1] == 1;
  return f.planes >= l.weights.size[1] && (f.planes > 1) == (l.weights.size[1] > 1);
}

// Nanoseconds of all multiprocessors together, fitted to the configs of seven layers on an H200: a march's steps and
// warps.
double march_time(const Choice &c) {
  const Form &f = c.variant->form;
  const Geometry &g = c.geometry;
  const double products = f.products() * f.tiles, steps = std::ceil(real(g.strip) / f.rows);
  return real(g.warps) * (steps * (0.05 + 0.0085 * products) + 0.4 + 0.04 * products);
}
// Microseconds: that, in whole rounds of blocks, or the bytes.
double estimate(const polyconv_layer &l, const Choice &c) {
  const Geometry &g = c.geometry;
  const Way way = c.variant->way;
  const double rounds = std::max(1e-3, real(c.blocks) / (kHopperMultiprocessors * 1.0 * c.variant->resident));
  const auto size = [](const polyconv_tensor &t) { return t.type == POLYCONV_F32 ? 4.0 : 2.0; };
  const double bytes = size(l.input) * real(sdk::elements(l.input)) + size(l.result) * real(sdk::elements(l.result));
  if (is_sheet(way) || is_tracks(way)) {
    const bool tracks = is_tracks(way);
    const double time = (tracks ? track_time(c) : sheet_time(c)) * 1e-3;
    // Neither hides the other altogether. Sheets take longer to begin.
    return (tracks ? 2 : 5) + std::pow(std::pow(time, 4) + std::pow(bytes / 3.85e6, 4), 0.25);
  }
  const double waits = std::ceil(rounds) / rounds;
  const double spread = 0.03 * std::log2(std::max(1.0, g.strip / 32.0)); // rows under way that the L2 cache must hold
  return 2 + std::max(march_time(c) * 1e-3 * waits, bytes / 3.3e6 * (1 + spread)) * (way == Way::kMarchSingly ? 4 : 1);
}

void consider(const polyconv_layer &l, Choice &c, Choice &best) {
  if (c.blocks > INT32_MAX) return;
  c.us = estimate(l, c);
  if (best.variant == nullptr || c.us < best.us) best = c;
}

} // namespace

Choice choose(const polyconv_layer &l, int rows, bool hopper) {
  Choice best;
  const auto begin = [&](const Variant &v) {
    Choice c;
    c.variant = &v;
    c.singly = v.way == Way::kMarch ? &v + 1 : &v; // as the list has them
    c.geometry = describe(l);
    return c;
  };
  for (const Variant &v : sheet_variants())
    if (Choice c = begin(v); hopper && serves(l, v) && place_sheet(l, rows, c)) consider(l, c, best);
  for (const Variant &v : track_variants())
    if (Choice c = begin(v); hopper && serves(l, v) && place_tracks(l, rows, c)) consider(l, c, best);
  for (const Variant &v : march_variants())
    for (int columns : {1, 2, 4, 8}) {
      if (!serves(l, v) || (columns == 1) != v.form.pixels || columns * v.form.rows > 16) continue;
      if (Choice c = begin(v); place_march(l, v, columns, rows, c)) consider(l, c, best);
    }
  return best;
}

} // namespace polyconv::cuda::banded
