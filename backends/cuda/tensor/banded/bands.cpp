// bands.cpp - how cuda-tensor/banded cuts up a layer for sheets and tracks: bands, what lies where in shared
// memory, and who takes what.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "banded/place.hpp"
#include "common/machine.hpp"

namespace polyconv::cuda::banded {
namespace {

// Of one multiprocessor, and of a quarter of it; and how many there are.
constexpr double kClocks = 1.7; // in a nanosecond

// Bands follow each other as fast as their slowest stage; the first fills the stages.
double time_of_bands(double load, double multiply, double store, int64_t bands) {
  const double slowest = std::max({load, multiply, store});
  return (load + multiply + store + real(bands - 1) * slowest) / kClocks;
}

// Clocks until a band's results have left.
double store_clocks(const Geometry &g) {
  const double filters = std::min(g.filters, g.chunk * g.group), bytes = real(g.output_stage);
  return g.chunks * (1500 + bytes / 30 + (g.whole ? 0 : std::ceil(filters / 32) * 300)) - 900;
}

// ---------------------------------------------------------------- sheets

// Clocks of a quarter of a multiprocessor for the march of a tile.
double tile_clocks(const Form &f, int64_t steps) {
  const double products = f.products() * f.tiles * f.abreast();
  return 200 + real(steps) * std::max(6.5 * products, 24 + 2 * products + 10 * f.tiles * f.abreast());
}

// And of a warp from one tile to the next, most of which it waits: fitted to an H200.
double warp_clocks(const Form &f, int64_t steps) {
  return 1000 + real(steps) * (70 + 13 * f.products() * f.tiles * f.abreast());
}

// Rows without padding are copied as they lie: planes of channels, or all as one.
void place_input(const polyconv_layer &l, Geometry &g) {
  const int64_t w = g.input_row;
  const bool bare = g.pad_h == 0 && g.pad_w == 0 && g.x_row == w && g.output_w - 1 + g.taps_w <= w;
  const bool even = w % 2 == 0 && (l.input.size[0] == 1 || g.x_image % 2 == 0) &&
                    (g.channels == 1 || g.x_plane % 2 == 0) && l.input.offset % 2 == 0;
  const int64_t rows = g.strip - 1 + g.taps_h; // of a band
  const bool together = bare && even && g.strips == 1 && rows == g.input_h && g.x_plane == rows * w;
  g.runs = !bare || !even ? 0 : g.channels == 1 || together ? 1 : g.channels;
  g.pitch = g.runs > 0 ? small(w) : (g.output_w + g.taps_w) / 2 * 2;
  if (together) {
    g.plane = small(g.x_plane);
  } else {
    g.plane = small(ceil_div(rows * g.pitch, 8) * 8);
    if (g.runs > 0) g.plane += small((g.x_plane % 8 + 8) % 8); // as far from 16 bytes as in memory
  }
}

// The place of a band's input: stretches may end below its last row, and rows are read ahead.
int64_t input_stage(const Form &f, const Geometry &g) {
  const int64_t rows = int64_t{g.stretches} * f.abreast() * g.steps * f.rows + f.input_rows() - f.rows + f.rows_ahead();
  return ceil_div(int64_t{f.planes - 1} * g.plane + rows * g.pitch + 16, 8) * 8;
}

// How many lanes at most store into one bank, if filters are so many elements apart.
int conflicts(const Form &f, const Geometry &g, int64_t apart) {
  const int words = g.spread ? 1 : 2; // of a lane
  int most = 0, count[32] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const int64_t element = lane / 4 / f.rows * apart + lane / 4 % f.rows * g.output_w + lane % 4 * 2 * words;
    for (int i = 0; i < words; ++i) most = std::max(most, ++count[(element / 2 + i) % 32]);
  }
  return most;
}

// Planes that follow each other without a gap leave as one run, unless that puts their results into the same banks.
void place_output(const Form &f, int64_t size, Geometry &g) {
  const int64_t plane = int64_t{g.strip} * g.output_w;
  g.whole = g.strips == 1 && g.y_filter == plane && conflicts(f, g, plane) <= 4;
  g.waiting = small(plane);
  g.runs_leave = 1;
  if (g.whole) return;
  const int64_t unit = 16 / size;
  const int64_t least = plane + ((g.y_filter - plane) % unit + unit) % unit; // as far from 16 bytes as in memory
  g.waiting = small(least);
  for (int64_t apart = least; apart < least + 64; apart += unit)
    if (conflicts(f, g, apart) < conflicts(f, g, g.waiting)) g.waiting = small(apart);
}

// Stretches whose marches take least: their positions fill tiles, and their steps the band.
void cut_band(const Form &f, Geometry &g) {
  const int64_t all = ceil_div(g.strip, f.rows);
  double least = 0;
  for (int64_t stretches = 1; stretches == 1 || stretches * f.abreast() <= all; ++stretches) {
    const int64_t steps = ceil_div(all, stretches * f.abreast()), tiles = ceil_div(stretches * g.positions, kPositions);
    const double shares = real(tiles * g.groups), turns = std::ceil(shares / f.sheet_warps());
    const double time = std::max(turns * warp_clocks(f, steps), shares * tile_clocks(f, steps) / 4);
    if (stretches > 1 && time >= least) continue;
    least = time;
    g.stretches = small(stretches), g.steps = small(steps), g.tiles = small(tiles);
  }
  g.input_beside = g.stretches * g.steps * f.rows * g.pitch;
  g.output_beside = g.stretches * g.steps * f.rows * g.output_w;
}

// As many tiles a share as leave two shares for each warp in the chunks that are under way at once.
void cut_shares(Geometry &g) {
  constexpr int32_t kWanted = 32;
  const auto shares = [&](int32_t tiles) { return small(g.chunk * ceil_div(g.tiles, tiles)); };
  g.share_tiles = 1;
  while (g.share_tiles < g.tiles && shares(g.share_tiles + 1) * g.output_stages >= kWanted) ++g.share_tiles;
  g.shares = shares(g.share_tiles);
}

// Chunks as large as leave room for three stages of input and output, or two.
bool place_stages(const Form &f, int64_t size, Geometry &g) {
  const int64_t input = input_stage(f, g), room = kHopperShared - kBarrierBytes;
  for (int stages = 3; stages >= kLeastStages; --stages)
    for (int32_t chunks = 1; chunks <= g.groups; ++chunks) {
      g.chunk = small(ceil_div(g.groups, chunks));
      if (chunks > 1 && g.chunk == small(ceil_div(g.groups, chunks - 1))) continue;
      g.chunks = small(ceil_div(g.groups, g.chunk));
      const int64_t filters = std::min(g.filters, g.chunk * g.group);
      const int64_t output = ceil_div(filters * g.waiting * size + 16, 16) * 16;
      if (stages * (2 * input + output) > room || g.chunk * g.tiles * g.chunks >= 1 << 16) continue;
      g.input_stage = small(input), g.output_stage = small(output);
      g.input_stages = stages, g.output_first = small(stages * 2 * input);
      g.output_stages = small(std::min<int64_t>(kMostStages, (room - stages * 2 * input) / output));
      cut_shares(g);
      return true;
    }
  return false;
}

uint32_t magic_of(int32_t n) {
  return n == 1 ? 0 : static_cast<uint32_t>(((int64_t{1} << 32) + n - 1) / n);
}

} // namespace

bool place_sheet(const polyconv_layer &l, int rows, Choice &c) {
  const Form &f = c.variant->form;
  Geometry &g = c.geometry;
  const bool even = g.output_w % 2 == 0 && l.result.offset % 2 == 0 && (g.filters == 1 || g.y_filter % 2 == 0) &&
                    (l.output.size[0] == 1 || g.y_image % 2 == 0);
  if (c.variant->way == Way::kSheet && (!even || l.result.type != l.input.type)) return false;
  if (g.step_w != 1 || g.y_column != 1 || g.y_row != g.output_w || !place_windows(f, 2, 1, g)) return false;
  const int64_t places = l.result.stride[0] | l.result.stride[1] | g.output_w;
  g.spread = c.variant->way != Way::kSheet || places % 4 != 0;
  cut_rows(f, rows, g);
  if (int64_t{g.strip} * std::max(g.input_row, g.output_w) > kHopperShared) return false;
  place_input(l, g);
  place_output(f, sdk::type_bytes(l.result.type), g);
  cut_band(f, g);
  const int64_t bands = l.output.size[0] * g.strips;
  if (bands > INT32_MAX / 2 || !place_stages(f, sdk::type_bytes(l.result.type), g)) return false;
  g.bands = small(bands);
  g.magic = magic_of(g.positions), g.pitch_magic = magic_of(g.pitch);
  c.shared = kBarrierBytes + g.output_first + g.output_stages * g.output_stage;
  c.blocks = bands; // at most: as many as there are multiprocessors
  return true;
}

double sheet_time(const Choice &c) {
  const Form &f = c.variant->form;
  const Geometry &g = c.geometry;
  const double elements = real(g.channels) * (g.strip - 1 + g.taps_h) * g.pitch;
  const double load = g.runs > 0 ? 700 + elements / 8 : 1200 + std::ceil(elements / 768) * 3500;
  const double tiles = real(g.groups) * g.tiles, alone = warp_clocks(f, g.steps);
  double multiply =
      std::max({tiles * tile_clocks(f, g.steps) / 4, g.share_tiles * alone, tiles * alone / f.sheet_warps()});
  if (c.variant->way == Way::kSheetSingly) multiply *= 3;
  if (g.output_stages == 2) multiply += 1800; // a stage is free when the next chunk is on its way: they take turns
  // Of several planes, groups take longer than that: 1.3 times as long where there are two, 3.1 where there are eight.
  const double planes = f.planes > 1 ? 0.7 + 0.3 * g.groups : 1;
  return planes * time_of_bands(load, multiply, store_clocks(g), ceil_div(g.bands, kHopperMultiprocessors));
}

// ---------------------------------------------------------------- tracks

// The place of a band's input, in bytes.
int64_t track_input(const Geometry &g, const Form &f, int64_t size) {
  const int64_t pixels = (int64_t{g.stretches} * f.rows + g.taps_h - 1) * g.pitch;
  return ceil_div(pixels * g.plane * size, 16) * 16;
}

bool place_tracks(const polyconv_layer &l, int rows, Choice &c) {
  const Form &f = c.variant->form;
  Geometry &g = c.geometry;
  const int64_t size = sdk::type_bytes(l.input.type), unit = 8 / size;
  g.plane = small(ceil_div(g.channels, unit) * unit);
  const bool parts = c.variant->way == Way::kTracksInParts;
  if (ceil_div(g.taps_w * g.plane * size, 32) > f.words || g.taps_h < f.rows || (g.taps_h % 2 == 0 && !parts) ||
      l.result.type != l.input.type || g.y_column != 1 || g.y_row != g.output_w)
    return false;
  g.columns = 1, g.tile_filters = 8, g.positions = g.output_w;
  cut_rows(f, rows, g);
  g.chunk = g.chunks = 1;
  g.steps = f.rows, g.stretches = small(ceil_div(g.strip, f.rows));
  g.pitch = (g.output_w - 1) * g.step_w + g.taps_w;
  const int64_t tracks = int64_t{g.stretches} * g.positions, bands = l.output.size[0] * g.strips;
  if (bands > INT32_MAX / 2 || tracks > 1 << 16 || g.groups > 64) return false;
  g.bands = small(bands), g.tiles = small(ceil_div(tracks, 64));
  place_output(f, size, g);
  g.magic = magic_of(g.positions);
  const int64_t input = track_input(g, f, size), weights = int64_t{g.taps_h} * g.group * f.words * 32,
                output = ceil_div(std::min(g.group, g.filters) * g.waiting * size + 16, 16) * 16;
  const int64_t room = kHopperShared - kBarrierBytes - weights;
  g.output_stages = kLeastStages;
  g.input_stages = room >= 3 * input + 2 * output ? 3 : kLeastStages;
  if (room < kLeastStages * (input + output)) return false;
  g.input_stage = small(input / size), g.output_stage = small(output);
  c.shared = static_cast<int>(kBarrierBytes + weights + input * g.input_stages + output * g.output_stages);
  c.blocks = bands;
  return true;
}

double track_time(const Choice &c) {
  const Form &f = c.variant->form;
  const Geometry &g = c.geometry;
  const double pixels = (real(g.stretches) * f.rows + g.taps_h - 1) * g.pitch;
  const double load = 500 + std::ceil(pixels / (3 * 224)) * real(g.plane * sdk::type_bytes(g.result_type)) / 8 * 1100;
  const double products = f.words * (real(f.rows) * g.taps_h * std::max(4 * f.tiles, 8) + (f.rows + g.taps_h) * 8);
  const double multiply = std::max(g.tiles * (products + 600), 2500.0);
  const int64_t blocks = std::max(1, kHopperMultiprocessors / g.groups);
  return 1.3 * time_of_bands(load, multiply, store_clocks(g), ceil_div(g.bands, blocks)); // as measured
}

} // namespace polyconv::cuda::banded
