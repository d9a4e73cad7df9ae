// patch_plan.cpp - how the gradient of weights by patches is cut: slices, patches and shares of the depth, and its
// time.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/machine.hpp"
#include "weights/patch.hpp"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kWarps = 16;                        // of a multiprocessor, as registers allow
constexpr int kUsualWarps = 8;                    // of a block: those that turns leave share pixels
constexpr int64_t kLongestSum = int64_t{1} << 17; // pixels: so many roundings stay below those of the result

bool is_power_of_two(int64_t v) {
  return v > 0 && (v & (v - 1)) == 0;
}

// Whether slices hold whole groups, of which each block of filters is multiplied with its own channels.
bool is_diagonal(const polyconv_layer &l, const PatchShape &shape) {
  const int64_t channels = l.weights.size[1];
  return l.groups > 1 && l.weights.size[0] == l.groups * channels && is_power_of_two(channels) &&
         channels <= 16 * shape.channel_blocks && shape.filter_blocks >= shape.channel_blocks && shape.pieces == 1;
}

void set_slices(const polyconv_layer &l, const PatchShape &shape, PatchProduct *p) {
  const int64_t channels = l.weights.size[1], filters = l.weights.size[0] / l.groups;
  p->group_channels = small(channels), p->group_filters = small(filters);
  p->diagonal = is_diagonal(l, shape) ? 1 : 0;
  p->filter_blocks = shape.filter_blocks;
  p->filters = 16 * shape.filter_blocks;
  const int32_t piece = p->diagonal ? p->filters : 16 * shape.channel_blocks;
  while (1 << p->row_shift < (p->diagonal ? channels : piece)) ++p->row_shift;
  while (1 << p->pieces_shift < shape.pieces) ++p->pieces_shift;
  p->channels = piece * shape.pieces;
  p->filter_slices = small(ceil_div(p->diagonal ? l.weights.size[0] : filters, p->filters));
  p->channel_slices = p->diagonal ? 1 : small(ceil_div(channels, p->channels));
  const int32_t turns = p->all_turns(), most = most_turns(shape.channel_blocks), warps = kWarps / shape.filter_blocks;
  p->turn_slices = small(ceil_div(turns, warps * most));
  p->slice_turns = small(ceil_div(turns, p->turn_slices));
  p->turn_warps = small(ceil_div(p->slice_turns, most));
  p->pixel_warps = std::max(1, kUsualWarps / (p->filter_blocks * p->turn_warps));
  const int64_t tiles = int64_t{p->filter_slices} * p->channel_slices * p->turn_slices * (p->diagonal ? 1 : l.groups);
  p->all_tiles = small(std::min<int64_t>(tiles, 1 << 30));
}

int32_t x_width(const polyconv_layer &l, bool diagonal) {
  return slab_width(l.input, diagonal || l.groups == 1 ? 0 : l.weights.size[1]);
}
int32_t dy_width(const polyconv_layer &l, bool diagonal) {
  return slab_width(l.output, diagonal || l.groups == 1 ? 0 : l.weights.size[0] / l.groups);
}

// Clocks of a multiprocessor for a chunk of 16 bytes on its way into shared memory.
double chunk_clocks(int32_t width) {
  return width == 16 ? 0.35 : width == 8 ? 0.5 : width == 4 ? 0.7 : 1.4;
}

// Likewise for a patch: its chunks; what its warps read of them, four clocks for 512 bytes; and that all wait for all.
double patch_clocks(const PatchProduct &p, const PatchShape &shape) {
  const double chunks = real(p.patches.positions) * p.channels / 8 * chunk_clocks(p.x.width) +
                        real(p.patches.pixels) * p.filters / 8 * chunk_clocks(p.dy.width);
  const double reads =
      real(p.patches.pixels) / 16 * shape.filter_blocks * (p.turn_warps + shape.channel_blocks * p.slice_turns);
  return chunks + reads * 4.6 + 200;
}

// Whether a block holds a patch.
bool fits(const PatchShape &shape, PatchProduct *p) {
  if (p->patches.positions > kLentShared / 32) return false; // the rest is counted in 32 bits
  p->tables_at = std::max(2 * p->stage_bytes(), p->leaving_bytes(shape.channel_blocks));
  return p->shared_bytes() <= kLentShared;
}

// Blocks that share a multiprocessor.
int32_t blocks_together(const PatchProduct &p) {
  return std::clamp(std::min(kWarps / p.warps(), kHopperShared / (p.shared_bytes() + 1024)), 1, 8);
}

int32_t splits_of(const PatchProduct &p) {
  const int64_t workers = int64_t{kHopperMultiprocessors} * blocks_together(p);
  const int64_t pixels = int64_t{p.patches.count} * p.patches.pixels / p.pixel_warps;
  const int64_t splits = std::max(workers / std::max(p.all_tiles, 1), ceil_div(pixels, kLongestSum));
  return small(std::clamp<int64_t>(splits, 1, std::max(p.patches.count, 1)));
}

} // namespace

PatchProduct make_patch_product(const polyconv_layer &l, const PatchShape &shape) {
  PatchProduct p = {{}, {}, View<int64_t>(l.weights)};
  p.result_type = l.result.type;
  p.patches = make_patches(l);
  set_slices(l, shape, &p);
  p.x.width = x_width(l, p.diagonal), p.dy.width = dy_width(l, p.diagonal);
  choose_patches(&p.patches, [&] { return fits(shape, &p) ? p.patches.count * patch_clocks(p, shape) : 0; });
  if (p.patches.pixels > 0 && fits(shape, &p)) p.splits = splits_of(p);
  return p;
}

int64_t patch_pieces_bytes(const PatchProduct &p) {
  return p.splits == 1 ? 0 : aligned_bytes(int64_t{p.all_tiles} * p.splits * p.quads() * 16);
}

double patch_us(const polyconv_layer &l, const PatchProduct &p, const PatchShape &shape) {
  const int32_t together = blocks_together(p);
  const double blocks = real(p.all_tiles) * p.splits;
  const double rounds = std::ceil(blocks / (kHopperMultiprocessors * together));
  const double beside = std::min<double>(together, std::ceil(blocks / kHopperMultiprocessors)); // on a multiprocessor
  const double each = real(ceil_div(p.patches.count, p.splits));
  // On small images, patches are hardly larger than windows: of 48 depthwise layers those took up to four times as
  // long, strided ones most.
  const double strides = real(l.stride[0] * l.stride[1] * l.stride[2]);
  const double halo = std::min(3.0, real(sdk::taps(l)) * strides / real(sdk::spatial(l.output)));
  // Fitted to 48 layers in all shapes on an H200: what a block waits for is half as much again; alone, more. Nine
  // layers of several tiles a group took 1.2 to 2.9 times as long.
  const double multiplying = rounds * beside * each * patch_clocks(p, shape) * (beside == 1 ? 2 : 1.55) *
                             (p.diagonal     ? 1.25 * (1 + halo)
                              : l.groups > 1 ? 2.2
                                             : 1) /
                             kHopperClocks;
  const double x = 2 * real(sdk::elements(l.input)), dy = 2 * real(sdk::elements(l.output));
  const double slices = p.diagonal ? 1 : p.filter_slices, other = p.diagonal ? 1 : p.channel_slices;
  const double moving = std::max((x + dy) / 3.8e6, (x * slices + dy * other) * p.turn_slices / 5.5e6);
  // A gradient of 103 million weights took 675 microseconds to store.
  const double adding = p.splits == 1 ? 2 * real(sdk::elements(l.weights)) / 0.35e6
                                      : 2.5 + real(patch_pieces_bytes(p)) / 1.5e6 + p.splits * 0.01;
  return 5 + std::max(multiplying, moving) + 0.2 * std::min(multiplying, moving) + adding;
}

} // namespace polyconv::cuda::tensor
