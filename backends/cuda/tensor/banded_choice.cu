// banded_choice.cu - how cuda-tensor/banded cuts up a layer on each of its instances, and which it takes.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cmath>

#include "banded.hpp"

namespace polyconv::cuda::banded {
namespace {

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
int32_t narrow(int64_t v) {
  return static_cast<int32_t>(v);
}

bool pixels_are_rows(const polyconv_layer &l) {
  return l.input.stride[1] == 1 && l.input.stride[4] == l.input.size[1] && l.input.size[1] > 1;
}

Geometry describe(const polyconv_layer &l) {
  Geometry g = {};
  g.inner = pixels_are_rows(l) ? narrow(l.input.size[1]) : 1;
  g.input_h = narrow(l.input.size[3]);
  g.input_row = narrow(l.input.size[4]) * g.inner;
  g.output_h = narrow(l.output.size[3]);
  g.output_w = narrow(l.output.size[4]);
  g.all_filters = narrow(l.weights.size[0]);
  g.channels = narrow(l.weights.size[1]);
  g.taps_h = narrow(l.weights.size[3]);
  g.taps_w = narrow(l.weights.size[4]);
  g.pad_h = narrow(l.pad_begin[1]);
  g.pad_w = narrow(l.pad_begin[2]);
  g.step_h = narrow(l.stride[1]);
  g.step_w = narrow(l.stride[2]);
  g.relu = l.epilogue.activation == POLYCONV_ACT_RELU;
  g.result_type = l.result.type;
  g.x_image = l.input.stride[0], g.x_plane = l.input.stride[1];
  g.x_row = l.input.stride[3], g.x_column = l.input.stride[4];
  g.y_image = l.result.stride[0], g.y_filter = l.result.stride[1];
  g.y_row = l.result.stride[3], g.y_column = l.result.stride[4];
  return g;
}

// Windows that begin at multiples of `align` elements from where an aligned row begins.
bool place_windows(const Form &f, int columns, int align, Geometry &g) {
  const int32_t before = g.pad_w * g.inner;
  g.columns = columns;
  g.filters = 16 / (f.rows * columns);
  g.move = columns * g.step_w * g.inner;
  g.shift = (align - before % align) % align;
  g.first = -before - g.shift;
  g.positions = narrow(ceil_div(g.output_w, columns));
  return g.shift + ((columns - 1) * g.step_w + g.taps_w) * g.inner <= 8 * f.words && g.move % align == 0;
}

// Whether every offset by whole images and rows, and by channels where `planes`, is a multiple of `many` elements.
bool in_vectors(const polyconv_tensor &t, int64_t many, bool planes) {
  return t.stride[3] % many == 0 && (!planes || t.size[1] == 1 || t.stride[1] % many == 0) &&
         (t.size[0] == 1 || t.stride[0] % many == 0) && t.offset % many == 0;
}

void cut_rows(const Form &f, int rows, Geometry &g) {
  g.groups = narrow(ceil_div(g.all_filters, g.filters * f.tiles));
  g.strips = narrow(ceil_div(g.output_h, rows));
  g.strip = g.strips == 1 ? g.output_h : narrow(ceil_div(ceil_div(g.output_h, g.strips), f.rows) * f.rows);
  g.strips = narrow(ceil_div(g.output_h, g.strip));
}

// ---------------------------------------------------------------- sheets

// How a band's rows lie in shared memory, and how many elements are copied there at once.
void place_input(const polyconv_layer &l, const Form &f, Geometry &g) {
  g.steps = narrow(ceil_div(g.strip, f.rows));
  const int64_t w = g.input_row, band = g.strips == 1 ? 0 : g.strip * w;
  const bool bare = g.pad_h == 0 && g.pad_w == 0 && g.x_row == w && g.output_w - 1 + g.taps_w <= w;
  g.in_one = 0;
  for (int many : {2, 4, 8})
    if (bare && w % 2 == 0 && g.input_h * w % many == 0 && band % many == 0 &&
        (l.input.size[0] == 1 || g.x_image % many == 0) && (g.channels == 1 || g.x_plane % many == 0))
      g.in_one = many;
  g.pitch = g.in_one > 0 ? narrow(w) : (g.output_w + g.taps_w) / 2 * 2;
  g.plane = narrow(ceil_div(int64_t{(g.steps - 1) * f.rows + f.input_rows()} * g.pitch + 8, 8) * 8);
}

// How many lanes at most store into one bank, if filters are so many elements apart.
int conflicts(const Form &f, const Geometry &g, int64_t apart) {
  int most = 0, count[32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const int64_t element = lane / 4 / f.rows * apart + lane / 4 % f.rows * g.output_w + lane % 4 * 4;
    most = std::max(most, ++count[element / 2 % 32]);
  }
  return most;
}

// Planes that follow each other without a gap leave as one run, unless that puts their results into the same banks.
void place_output(const polyconv_layer &l, const Form &f, Geometry &g) {
  const int64_t plane = int64_t{g.strip} * g.output_w;
  const bool one_image = l.output.size[0] == 1;
  g.whole = g.strips == 1 && g.y_filter == plane && conflicts(f, g, plane) <= 2;
  g.waiting = narrow(plane);
  if (!g.whole)
    for (int64_t apart = ceil_div(plane, 8) * 8, end = apart + 64; apart < end; apart += 8)
      if (g.waiting % 8 != 0 || conflicts(f, g, apart) < conflicts(f, g, g.waiting)) g.waiting = narrow(apart);
  g.out_one = 1;
  for (int many : {2, 4, 8})
    if ((one_image || g.y_image % many == 0) && (g.whole || (g.y_filter % many == 0 && plane % many == 0)) &&
        (g.groups == 1 || g.filters * f.tiles * g.y_filter % many == 0))
      g.out_one = many;
}

bool place_sheet(const polyconv_layer &l, const Variant &v, int rows, Choice &c) {
  const Form &f = v.form;
  Geometry &g = c.geometry;
  if (v.way == Way::kSheet && (g.output_w % 2 != 0 || l.result.type != l.input.type)) return false;
  if (g.step_w != 1 || g.y_column != 1 || g.y_row != g.output_w || !place_windows(f, 2, 1, g)) return false;
  cut_rows(f, rows, g);
  place_input(l, f, g);
  place_output(l, f, g);
  const int64_t filters = std::min<int64_t>(g.all_filters, g.filters * f.tiles);
  const int64_t shared = 2 * (int64_t{f.planes} * g.plane + filters * g.waiting);
  if (shared > kMostShared || int64_t{g.steps} * g.positions * g.positions >= INT32_MAX) return false;
  g.magic = g.positions == 1 ? 0 : static_cast<uint32_t>(((int64_t{1} << 32) + g.positions - 1) / g.positions);
  c.shared = static_cast<int>(shared);
  c.blocks = l.output.size[0] * g.strips * g.groups;
  return true;
}

// ---------------------------------------------------------------- marches

bool stores_together(const polyconv_layer &l, const Form &f, const Geometry &g) {
  const int many = f.pixels ? 2 * f.tiles : 2;
  if (l.result.type != l.input.type || !in_vectors(l.result, many, !f.pixels)) return false;
  return f.pixels ? g.all_filters % many == 0 && g.y_column % many == 0 : g.output_w % many == 0 && g.y_column == 1;
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
  g.tiles = narrow(ceil_div(g.positions, kPositions));
  const int64_t warps = l.output.size[0] * g.strips * g.groups * g.tiles;
  if (warps > INT32_MAX - 128) return false;
  g.warps = narrow(warps);
  c.blocks = ceil_div(warps, v.threads / 32);
  return true;
}

// ---------------------------------------------------------------- choice

bool serves(const polyconv_layer &l, const Variant &v) {
  const Form &f = v.form;
  const bool pixels = pixels_are_rows(l);
  if (!pixels && l.input.stride[4] != 1 && l.input.size[4] > 1) return false; // rows must be without gaps
  if (v.bf16 != (l.input.type == POLYCONV_BF16) || f.pixels != pixels || f.step != l.stride[1] ||
      f.taps < l.weights.size[3])
    return false;
  return pixels ? l.result.stride[1] == 1 || l.result.size[1] == 1 : f.planes >= l.weights.size[1];
}

double real(int64_t v) {
  return static_cast<double>(v);
}

// Nanoseconds of all multiprocessors together, fitted to the configs of seven layers on an H200: a sheet's tiles and
// blocks, a march's steps and warps.
double sheet_time(const Choice &c) {
  const Form &f = c.variant->form;
  const Geometry &g = c.geometry;
  const double tiles = real(c.blocks) * std::ceil(real(g.steps) * g.positions / kPositions);
  const double filters = std::min(g.all_filters, g.filters * f.tiles);
  return tiles * (0.028 + 0.0054 * f.products() * f.tiles + 0.088 * f.tiles) + real(c.blocks) * (0.3 + 0.85 * filters);
}
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
  const bool sheet = way == Way::kSheet || way == Way::kSheetSingly;
  const double rounds = std::max(1e-3, real(c.blocks) / (132.0 * c.variant->resident));
  const double waits = std::ceil(rounds) / rounds;
  const double bytes =
      2 * real(sdk::elements(l.input)) + (g.result_type == POLYCONV_F32 ? 4.0 : 2.0) * real(sdk::elements(l.result));
  const bool slow = way == Way::kMarchSingly || way == Way::kSheetSingly || (sheet && g.in_one == 0);
  const double spread = 0.03 * std::log2(std::max(1.0, g.strip / 32.0)); // rows under way that the L2 cache must hold
  return 4 + std::max((sheet ? sheet_time(c) : march_time(c)) * 1e-3 * waits, bytes / 3.3e6 * (1 + spread)) *
                 (slow ? 4 : 1);
}

void consider(const polyconv_layer &l, Choice &c, Choice &best) {
  if (c.blocks > INT32_MAX) return;
  c.us = estimate(l, c);
  if (best.variant == nullptr || c.us < best.us) best = c;
}

} // namespace

Choice choose(const polyconv_layer &l, int rows) {
  Choice best;
  const Variants sheets = sheet_variants(), marches = march_variants();
  for (const Variant *v = sheets.begin; v != sheets.begin + sheets.count; ++v) {
    Choice c;
    c.variant = v;
    c.geometry = describe(l);
    if (serves(l, *v) && place_sheet(l, *v, rows, c)) consider(l, c, best);
  }
  for (const Variant *v = marches.begin; v != marches.begin + marches.count; ++v)
    for (int columns : {1, 2, 4, 8}) {
      if (!serves(l, *v) || (columns == 1) != v->form.pixels || columns * v->form.rows > 16) continue;
      Choice c;
      c.variant = v;
      c.singly = v->way == Way::kMarch ? v + 1 : v; // as the list has them
      c.geometry = describe(l);
      if (place_march(l, *v, columns, rows, c)) consider(l, c, best);
    }
  return best;
}

} // namespace polyconv::cuda::banded
