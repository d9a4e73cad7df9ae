// wgmma_cost.cpp - see wgmma_cost.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "wgmma/wgmma_cost.hpp"

#include <algorithm>
#include <cmath>

#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "pixel_matrix.hpp"

namespace polyconv::cuda::wgmma {
namespace {

int64_t pixels_of(const polyconv_layer &l) {
  return l.output.size[0] * sdk::spatial(l.output);
}

// Bytes of a block of depth of a tile.
double step_bytes(const Shape &shape) {
  return (shape.pixels + shape.channels) * shape.row;
}

// Of a tap's blocks of depth, how much is multiplied.
double filling(const polyconv_layer &l, const Shape &shape) {
  const double steps = shape.row / 32, blocks = real(depth_blocks(l, shape.row) / std::max<int64_t>(1, sdk::taps(l)));
  return 1 - (steps - real(last_steps(l, shape.row))) / (steps * std::max(1.0, blocks));
}

// How much of the depth a tile multiplies: taps along the third axis beside the image for all of its pixels are left
// out (leave.cuh), which those of one plane have alike.
double taps_left(const polyconv_layer &l, const Shape &shape) {
  const int64_t planes = l.output.size[2], taps = l.weights.size[2];
  if (taps == 1) return 1;
  int64_t met = 0;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t element = plane * l.stride[0] + tap * l.dilation[0] - l.pad_begin[0];
      met += element >= 0 && element < l.input.size[2] ? 1 : 0;
    }
  const double several = std::min(1.0, shape.pixels / real(l.output.size[3] * l.output.size[4])); // tiles of two planes
  const double part = real(met) / real(planes * taps);
  return part + (1 - part) * several;
}

constexpr double kTap = 230; // clocks of the thread that fetches

// Its clocks: its products', its fetch's, by rate or, where few bytes are under way, by latency, or what both take of
// shared memory. `sharing`: blocks of the multiprocessor that run; `filled`: how much of it is multiplied.
double step_clocks(const Shape &shape, double sharing, double filled = 1, double tap_blocks = 0) {
  const double fetch = step_bytes(shape),
               products = filled * shape.pixels * shape.channels * shape.row / 4096.0 / shape.parts;
  const int32_t rows = shape.turned ? shape.channels : shape.pixels;
  const int32_t columns = (shape.pixels + shape.channels - rows) / shape.parts; // of an instruction
  const double shared = fetch + filled * rows / 64.0 * shape.row / 32 * (2048 + 32 * columns);
  const double latency = 1590 * fetch * shape.blocks / 180e3 / sharing;
  // A pixel of 64 bytes takes the TMA as long as one of 128 that all multiprocessors ask for.
  double asked = shape.row < 128 ? shape.pixels * 2.7 : 0;
  // A thread finds each tap, and asks for its blocks (0: of one tap): 9 layers of several taps on an H200.
  if (tap_blocks > 0) asked = std::max(asked, 235 + kTap / tap_blocks);
  return std::max({products, fetch / 79, asked, shared / 144, latency}) * (shape.teams > 1 ? 1.03 : 1.0);
}

// Clocks of a multiprocessor for its tiles in a config. A second team or block of the multiprocessor multiplies while
// the first one's tile leaves. Clusters want all of their blocks at once, and some multiprocessors stay without. Turned
// shapes share weights in pairs, which saves power, and power is what large layers run out of.
double clocks(const polyconv_layer &l, const Config &config) {
  constexpr double kFirst = 830; // until the first bytes are there
  const Shape shape = shape_of(l, config.shape);
  const double tiles =
      real(ceil_div(pixels_of(l), shape.pixels) * ceil_div(l.output.size[1], shape.channels) * config.splits);
  const double steps = real(ceil_div(depth_blocks(l, shape.row), config.splits)) * taps_left(l, shape),
               filled = filling(l, shape);
  const double tap_blocks = sdk::taps(l) > 1 ? real(depth_blocks(l, shape.row) / sdk::taps(l)) : 0;
  const double bytes = shape.pixels * shape.channels * real(element_bytes(l));
  const bool in_pieces = !shape.turned && bytes > 65536; // what leaves has no room beside three stages
  const double leaving = 300 + bytes / 47 + (in_pieces ? 1000 : 0);
  if (shape.shared) {
    const double waves = std::ceil(tiles / (shape.blocks * (config.splits == 2 ? kHopperMultiprocessors : 112)));
    constexpr double kSecondCache = 8000; // bytes a clock, to all
    const double step = std::max({step_clocks(shape, 1, filled, tap_blocks),
                                  step_clocks(shape, 2, filled, tap_blocks) * (tiles > kHopperMultiprocessors ? 2 : 1),
                                  std::min<double>(tiles, kHopperMultiprocessors) * step_bytes(shape) / kSecondCache});
    return waves * (steps * step + leaving + kFirst);
  }
  const double turns =
      tiles <= kHopperMultiprocessors ? 1 : std::ceil(tiles / (kHopperMultiprocessors * shape.blocks)) * shape.blocks;
  const double sharing = shape.turned && turns > 1 ? 0.98 : 1;
  const double multiplying =
      steps * step_clocks(shape, std::min<double>(shape.blocks, turns), filled, tap_blocks) * sharing;
  // TF32, where one of the two teams has work: 3 layers on an H200.
  const bool alone = turns <= 1 && shape.teams > 1 && element_bytes(l) == 4;
  const bool square = shape.pixels == 128 && shape.channels == 128;
  const double slow = !alone ? 1 : shape.turned ? (tap_blocks > 0 ? 1.45 : 1) : square ? 1.2 : 1;
  if (turns > 1 && shape.teams > 1) {
    const double moving = (steps * step_bytes(shape) + bytes) / 52.3;
    return kFirst + turns * std::max({multiplying, (multiplying + leaving + 600) / 2, moving}) + leaving;
  }
  return kFirst + turns * (slow * multiplying + (turns > 1 ? leaving / shape.blocks : leaving));
}

// What is more than the tile's own end is finished one by one; of that, a residual is read two values at a time.
double finishing_us(const polyconv_layer &l) {
  const double outputs = real(sdk::elements(l.output));
  if (!leaves_in_pairs(l)) return 13 + outputs / 86e3;
  return l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE ? 0 : outputs / 430e3;
}

// How many times as long fetches take where pixels begin within a sector of 32 bytes: every tap asks for one sector
// more of each. Of 98 layers of several taps on an H100; of two of one tap, whose neighbours share it, on an H200.
double misalignment(const polyconv_layer &l, const Shape &shape) {
  if (row_of(l.input) * element_bytes(l) % 32 == 0) return 1;
  return sdk::taps(l) > 1 ? 1.8 : shape.turned ? 1.4 : 1.1;
}

// Pixels of fewer than 64 bytes share what memory sends at a time, and the TMA asks for each of them; it writes those
// of results sooner (10 layers of up to 31 filters on an H200).
double narrow_us(const polyconv_layer &l) {
  if (l.input.size[1] * element_bytes(l) < 64) return real(pixels_of(l)) / 15e3;
  return l.result.size[1] * element_bytes(l) < 64 ? real(pixels_of(l)) / 150e3 : 0;
}

// Results whose pixels end within a sector of 32 bytes write it in two parts, and those of several boxes wait for more
// of them. Four layers on an H200; of fewer pixels than these the second cache hides it.
double parted_us(const polyconv_layer &l) {
  const int64_t bytes = l.result.size[1] * sdk::type_bytes(l.result.type);
  const double pixels = real(pixels_of(l));
  if (bytes % 32 == 0 || bytes >= 1024 || pixels < 40e3) return 0;
  return pixels * (bytes > 128 ? 0.11e-3 : 0.04e-3);
}

} // namespace

// Results whose rows are no whole 16 bytes leave element by element, and every one of a tile's columns is asked for.
double scattering_us(const polyconv_layer &l, const Shape &shape) {
  const bool boxes = l.result.size[1] * sdk::type_bytes(l.result.type) % 16 == 0;
  return boxes ? 0 : real(pixels_of(l)) * shape.channels / 340e3; // two layers of 2 and 3 filters on an H100
}

double block_clocks(const Shape &shape) {
  return step_clocks(shape, shape.blocks);
}

// What multiplies, and what moves, half hidden by the longer of the two. Fitted to the f16 layers of ResNet-50
// (batches 1 and 128), VGG-16 (128) and Stable Diffusion's U-Net (8) on an H200, and again, since ends are short, to
// 76 of ResNet-50 (1, 128), MobileNetV2 (1) and the U-Net (8): of the configs of each, the one that it chooses
// took 2.0 % longer than the fastest on average, 23 % at most. Leaving once more, since tiles are found without
// divisions, to 36 layers: 1.4 %, before 1.9, but for pixels of 48 bytes, which other kernels take.
double product_us(const polyconv_layer &l, int config) {
  const auto [which, splits] = kConfigs[config];
  const Shape shape = shape_of(l, which);
  // A few clusters add up sooner than many.
  const double tiles = real(ceil_div(pixels_of(l), shape.pixels) * ceil_div(l.output.size[1], shape.channels));
  const double crowd = std::clamp((tiles - 4) / 4, 0.0, 1.0);
  const double elements = real(sdk::elements(l.input)) + real(sdk::elements(l.output)) + real(sdk::elements(l.weights));
  const double volume = is_flat(l) || sdk::taps(l) == 1 ? 1 : 1.2; // maps of five axes are walked slower
  const double multiplying = volume * misalignment(l, shape) * clocks(l, kConfigs[config]) / kHopperWgmmaClocks,
               moving = elements * real(element_bytes(l)) / 6.02e6;
  const double adding = splits == 1    ? 0
                        : shape.shared ? 0.9 + 0.17 * splits * crowd + (shape.channels - 64) / 37.0
                                       : 1.5 + real(partials_bytes(l, splits)) / 1.06e6;
  return 1.3 + std::max(multiplying, moving) + 0.456 * std::min(multiplying, moving) + adding + finishing_us(l) +
         narrow_us(l) + parted_us(l) + scattering_us(l, shape);
}

} // namespace polyconv::cuda::wgmma
