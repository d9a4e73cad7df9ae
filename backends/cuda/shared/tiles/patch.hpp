// patch.hpp - how cuda-shared/tiles cuts a layer into blocks.
//
// A thread computes a stripe: `outputs` one below the other in one column, for `channels` output channels. A block is
// `columns` by `stripes` such threads by `images`, one after the other without a gap: several images where one is
// small.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/pooling.hpp>

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::shared {

inline constexpr int kMostThreads = 256;
inline constexpr int64_t kSharedBytes = 48 << 10;
inline constexpr int64_t kMostChunk = 8; // input channels staged together: more would wait for nothing

struct PatchConfig {
  int width, threads;    // of a patch at most
  int outputs, channels; // of a thread
};

// Sizes in elements.
struct Patch {
  int32_t columns, stripes, images;            // threads of a block
  int32_t result_rows, result_columns;         // of a block, after pooling
  int32_t tiles_w, tiles_h;                    // of an image
  int32_t first_row, first_column;             // output at which tile 0 begins, perhaps in the pooling's padding
  int32_t row_step, column_step;               // outputs from tile to tile
  int32_t tile_rows, pitch, plane;             // what is staged of a channel and image: rows, from row to row, in all
  int32_t chunk, buffer;                       // input channels staged together, and what they take
  int32_t buffers;                             // 2: the next chunk is copied while one is summed
  int32_t group_in, group_out, channel_blocks; // channels of a group, and blocks that share them out
  int32_t input_type;
  int32_t plain; // a bias and a relu at most, and no pooling: stored from registers
  int32_t threads, shared_bytes;
  int64_t blocks;
};

using PatchLaunch = void (*)(const Conv<int32_t> &p, const Patch &s, const void *x, const void *weights, void *y,
                             cudaStream_t stream);

// The instance for a filter's size (0: any, at any stride and dilation) and a thread's outputs and channels; NULL where
// there is none.
template <int n>
PatchLaunch find_patch(int outputs, int channels);

// Fills the rest from columns, stripes and images; false where such a block does not fit.
inline bool complete(const polyconv_layer &l, const PatchConfig &config, Patch &s) {
  const sdk::PoolWindow down = sdk::pool_window(l, 1), across = sdk::pool_window(l, 2);
  const int64_t rows = int64_t{s.stripes} * config.outputs, in_group = l.weights.size[1];
  if (rows < down.size || s.columns < across.size) return false;
  s.result_rows = small(std::min((rows - down.size) / down.stride + 1, std::max<int64_t>(l.result.size[3], 1)));
  s.result_columns =
      small(std::min((s.columns - across.size) / across.stride + 1, std::max<int64_t>(l.result.size[4], 1)));
  s.tiles_h = small(ceil_div(l.result.size[3], s.result_rows));
  s.tiles_w = small(ceil_div(l.result.size[4], s.result_columns));
  s.first_row = small(-down.pad), s.first_column = small(-across.pad);
  s.row_step = small(s.result_rows * down.stride), s.column_step = small(s.result_columns * across.stride);
  const int64_t tile_rows = (rows - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
  const int64_t pitch = (s.columns - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  if (tile_rows * pitch > kSharedBytes) return false;
  s.tile_rows = small(tile_rows), s.pitch = small(pitch), s.plane = small(tile_rows * pitch);
  // Lanes that go on in the next image should meet the banks after those of the first.
  if (s.images > 1) s.plane += ((s.columns * s.stripes - s.plane) % 32 + 32) % 32;
  s.threads = (s.columns * s.stripes * s.images + 31) / 32 * 32;
  s.group_in = small(in_group), s.group_out = small(l.output.size[1] / l.groups);
  s.channel_blocks = small(ceil_div(s.group_out, config.channels));
  // Two buffers, or one where it holds all channels.
  const int64_t channel_bytes = 4 * (int64_t{s.images} * s.plane + sdk::taps(l) * config.channels);
  const int64_t sums = s.plain ? 0 : int64_t{s.images} * rows * s.columns * 4;
  if (channel_bytes > kSharedBytes || sums > kSharedBytes) return false;
  const int64_t all = std::min<int64_t>(in_group, kMostChunk);
  s.chunk = small(std::min(all, kSharedBytes / channel_bytes));
  s.buffers = s.chunk < in_group ? 2 : 1;
  if (s.buffers == 2) s.chunk = small(std::min<int64_t>(all, kSharedBytes / 2 / channel_bytes));
  if (s.chunk == 0) s.chunk = 1, s.buffers = 1;
  s.buffer = small(ceil_div(s.chunk * channel_bytes, 16) * 4); // aligned as vectors are
  const int64_t bytes = std::max(int64_t{s.buffers} * s.buffer * 4, sums);
  if (bytes > kSharedBytes) return false;
  s.shared_bytes = small(bytes);
  s.blocks = ceil_div(l.output.size[0], s.images) * l.groups * s.channel_blocks * s.tiles_h * s.tiles_w;
  return true;
}

// The block of a config: as wide as the config or the image, then as high, then of as many images as there are threads
// for; fewer where shared memory is too small. False where not even one row of threads fits.
inline bool make_patch(const polyconv_layer &l, const PatchConfig &config, Patch &s) {
  const sdk::PoolWindow down = sdk::pool_window(l, 1), across = sdk::pool_window(l, 2);
  const int64_t width = (std::max<int64_t>(l.result.size[4], 1) - 1) * across.stride + across.size;
  const int64_t height = (std::max<int64_t>(l.result.size[3], 1) - 1) * down.stride + down.size;
  // Nothing beyond these fits, and sums of them stay small.
  constexpr int64_t kLimit = kSharedBytes;
  if (l.weights.size[3] > kLimit || l.weights.size[4] > kLimit || l.stride[1] > kLimit || l.stride[2] > kLimit ||
      l.dilation[1] > kLimit || l.dilation[2] > kLimit || down.size > kLimit || across.size > kLimit)
    return false;
  s.columns = static_cast<int32_t>(std::min<int64_t>(config.width, width));
  const int64_t needed = ceil_div(height, config.outputs);
  const int64_t high = ceil_div(needed, std::max<int64_t>(config.threads / s.columns, 1)); // blocks below each other
  const auto whole = high == 1 && s.columns == width;
  for (int64_t stripes = ceil_div(needed, high); stripes > 0; stripes = stripes / 2) {
    s.stripes = static_cast<int32_t>(stripes);
    const int64_t most = whole && stripes == needed ? config.threads / (s.columns * stripes) : 1;
    for (int64_t images = std::clamp<int64_t>(most, 1, std::max<int64_t>(l.output.size[0], 1)); images > 0;
         images /= 2) {
      s.images = static_cast<int32_t>(images);
      if (complete(l, config, s)) return true;
    }
  }
  return false;
}

} // namespace polyconv::cuda::shared
