// forward_plan.cu - how the forward product by patches is cut, its time, and its weights.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "common/device/check.hpp"
#include "common/instance.hpp"
#include "patches/forward.hpp"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kTogether = 2; // blocks that share a multiprocessor

// Clocks of a multiprocessor for a patch: chunks of 16 bytes on their way into shared memory; what its warps read of
// them, four clocks for 512 bytes; that all wait for all; and results, element by element.
double patch_clocks(const ForwardProduct &p) {
  const double copying = p.x.width == 16 ? 0.35 : p.x.width == 8 ? 0.5 : p.x.width == 4 ? 0.9 : 1.6;
  const double weights = p.channel_slices > 1 ? real(p.rows()) * 0.35 : 0;
  const double chunks = p.channels / 8 * (real(p.patches.positions) * copying + weights);
  const double steps = real(p.patches.pixels) / 16, eights = p.filters / 8;
  const double reads = p.patches.all_taps() * p.channels / 16 * steps * (4.6 + eights * 1.6);
  return p.channel_slices * (chunks + 1.3 * reads + 250) + 300 + steps * eights * 25;
}

bool fits(const ForwardProduct &p) {
  return p.patches.positions <= kLentShared / 32 && p.rows() <= kLentShared / 32 &&
         p.patches.pixels <= kForwardPixels && p.shared_bytes() <= kLentShared;
}

__global__ void __launch_bounds__(256) pack(const View<int64_t> weights, const __grid_constant__ ForwardProduct p,
                                            const uint16_t *raw, uint16_t *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * 256;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < count; i += step) {
    const int64_t row = i / p.channels, all_rows = row / p.filters, slices = all_rows / p.patches.all_taps();
    const int64_t tap = all_rows - slices * p.patches.all_taps(), filters = slices / p.channel_slices;
    const int64_t channel = (slices - filters * p.channel_slices) * p.channels + i - row * p.channels;
    const int64_t group = filters / p.filter_slices;
    const int64_t filter = (filters - group * p.filter_slices) * p.filters + row - all_rows * p.filters;
    const int64_t line = tap / p.patches.taps[2];
    packed[i] = 0;
    if (filter < p.group_filters && channel < p.group_channels)
      packed[i] = raw[weights.at(group * p.group_filters + filter, channel, line / p.patches.taps[1],
                                 line % p.patches.taps[1], tap - line * p.patches.taps[2])];
  }
}

} // namespace

ForwardProduct make_forward(const polyconv_layer &l, const ForwardShape &shape) {
  ForwardProduct p = {Conv<int64_t>(l, {})};
  p.groups = small(l.groups);
  p.group_channels = small(l.weights.size[1]), p.group_filters = small(l.output.size[1] / l.groups);
  p.filters = 8 * shape.eights, p.channels = shape.channels;
  p.filter_slices = small(ceil_div(p.group_filters, p.filters));
  p.channel_slices = small(ceil_div(p.group_channels, p.channels));
  p.x.width = slab_width(l.input, l.groups == 1 ? 0 : l.weights.size[1]);
  p.patches = make_patches(l);
  choose_patches(&p.patches, [&] { return fits(p) ? p.patches.count * patch_clocks(p) : 0; });
  const int64_t workers = int64_t{kHopperMultiprocessors} * kTogether, slices = int64_t{p.filter_slices} * p.groups;
  p.shares = small(std::clamp<int64_t>(workers / slices, 1, std::max(p.patches.count, 1)));
  return p;
}

double forward_us(const polyconv_layer &l, const ForwardProduct &p) {
  const double slices = real(p.filter_slices) * p.groups, blocks = slices * p.shares;
  const double rounds = std::ceil(blocks / (kHopperMultiprocessors * kTogether));
  const double beside = blocks <= kHopperMultiprocessors ? 1.3 : kTogether;
  const double multiplying =
      rounds * beside * real(ceil_div(p.patches.count, p.shares)) * patch_clocks(p) / kHopperClocks;
  const double x = 2 * real(sdk::elements(l.input)), y = 2 * real(sdk::elements(l.output));
  const double moving = std::max((x + y) / 3.8e6, x * p.filter_slices / 5.5e6);
  return 6 + 1.65 * std::max(multiplying, moving) + 0.3 * std::min(multiplying, moving); // 17 layers on an H200
}

void pack_forward(const polyconv_layer &l, const ForwardProduct &p, const void *raw, void *packed,
                  cudaStream_t stream) {
  const int64_t count = p.packed_bytes() / 2;
  pack<<<blocks_for(count, 256), 256, 0, stream>>>(View<int64_t>(l.weights), p, static_cast<const uint16_t *>(raw),
                                                   static_cast<uint16_t *>(packed), count);
  check_launch("the weights of cuda-tensor/mma_patches");
}

} // namespace polyconv::cuda::tensor
