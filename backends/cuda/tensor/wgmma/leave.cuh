// leave.cuh - tiles of the Hopper product: their shapes, their order, and how sums leave. A warp has 16 pixels of
// every product of its warpgroup. Where a result's pixels are equally far apart, it finishes a box of their channels,
// swizzles it into shared memory, and has the TMA carry it out while it goes on; else it stores element by element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "common/epilogue.cuh"
#include "common/ptx/hopper.cuh"
#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

// The boxes that a warp fills before it sends them: all, or so many that the next may be filled while they are read.
constexpr int boxes_of_set(int all, int fitting) {
  int set = all;
  while (set > 1 && (all % set != 0 || (set < all ? 2 * set : set) > fitting)) --set;
  return set;
}

// Row: bytes of a pixel's activations in a block of depth, WeightsRow of a channel's weights. Parts: groups of the
// layer that a block of depth has side by side, each with its share of the channels. Across: weights come as they lie
// where filters are neighbours, across the depth: rows of 64 filters, one for each channel of a block.
template <class Type, int Pixels, int Channels, int Groups, int Teams, int Blocks, bool Turned = false, int Row = 128,
          int WeightsRow = Row, int Parts = 1, bool Across = false>
struct TileOf {
  using T = Type;
  static constexpr bool turned = Turned;   // channels are the rows of products, pixels the columns
  static constexpr bool scattered = false; // the result's pixels are a column of its map, not a matrix
  static constexpr int pixels = Pixels, channels = Channels, blocks = Blocks;
  static constexpr int arrivals = 1;                                                 // at a full stage's barrier
  static constexpr int groups = Groups, teams = Teams, team_groups = Groups / Teams; // warpgroups that compute
  static constexpr int threads = 128 * (Groups + 1);                                 // theirs, then the producer's
  static constexpr int row = Row, depth = Row / sizeof(T); // of a block of depth: one row of swizzled memory
  static constexpr int rows = (Turned ? Channels : Pixels) / (64 * team_groups); // a warpgroup's products of 64 rows
  static constexpr int columns = Turned ? Pixels : Channels;
  static constexpr int weights_row = WeightsRow, parts = Parts;
  static constexpr bool across = Across;
  static constexpr int activation_bytes = Pixels * Row, stage_bytes = activation_bytes + Channels * WeightsRow;
  // A warp's boxes of 16 pixels on their way out: all of a tile, where three stages fit beside them, else sets of some.
  static constexpr int box = box_channels(Channels, sizeof(T)), row_bytes = box * sizeof(T), box_bytes = 16 * row_bytes;
  static constexpr int most_bytes = 233472 / Blocks - 1024 - 1024 - 256; // less the system's, alignment, barriers
  static constexpr int tile_boxes = rows * Channels / box;
  static constexpr int fitting_boxes = (most_bytes - 3 * stage_bytes) / (4 * Groups * box_bytes);
  static constexpr int set_boxes = boxes_of_set(tile_boxes, fitting_boxes); // they leave together
  static constexpr int sets = std::max(1, std::min(fitting_boxes, tile_boxes) / set_boxes), boxes = sets * set_boxes;
  static constexpr int pass_pixels = turned_pass_pixels(Pixels, sizeof(T)); // of a turned tile, which leave at once
  static constexpr int leave_bytes =
      Turned ? Groups * rows * pass_pixels * 64 * int{sizeof(T)} : 4 * Groups * boxes * box_bytes;
  static constexpr int stages = std::min(8, (most_bytes - leave_bytes) / stage_bytes);
  static constexpr int shared_bytes = stages * stage_bytes + leave_bytes + 1024 + 256;
  // Registers of a thread: at launch, which the compiler knows, then of producers and consumers.
  static constexpr int registers = 65536 / Blocks / threads / 8 * 8, producer_registers = 40;
  static constexpr int consumer_registers = consumer_registers_of(registers * threads, producer_registers, Groups);
  static_assert(!Across || (Row == 128 && WeightsRow == 128 && Parts == 1 && Channels % 64 == 0 && sizeof(T) == 2),
                "no rows of 64 filters");
  static_assert(rows * 64 * team_groups == (Turned ? Channels : Pixels) && Channels % 32 == 0 && stages >= 3 &&
                    boxes >= 1,
                "not a tile");
};

// The share of one turn: a tile and a range of its blocks of depth. Splits go last.
template <class Tile>
struct Turn {
  int32_t pixel, channel, split, first, last;

  __device__ Turn(const Product &p, int32_t turn) {
    const Divider by_near = p.pixels_next ? p.by_pixel_tiles : p.by_channel_tiles;
    const Divider by_far = p.pixels_next ? p.by_channel_tiles : p.by_pixel_tiles;
    const int32_t rest = by_near(turn);
    split = by_far(rest);
    const int32_t at_near = turn - rest * by_near.by, at_far = rest - split * by_far.by;
    pixel = (p.pixels_next ? at_near : at_far) * Tile::pixels;
    channel = (p.pixels_next ? at_far : at_near) * Tile::channels;
    const int32_t least = p.by_splits(p.depth_blocks),
                  more = p.depth_blocks - least * p.splits; // the first have one more
    first = split * least + min(split, more);
    last = first + least + (split < more ? 1 : 0);
    if (p.leaves_out) leave_out(p);
  }
  __device__ static int32_t count(const Product &p) { return p.pixel_tiles * p.channel_tiles * p.splits; }
  // Rows of the tile's weights that are not fetched: sums of theirs are nobody's.
  __device__ int32_t missing(const Product &p) const { return channel + Tile::channels > p.channels ? p.missing : 0; }
  __device__ const CUtensorMap *weights(const Product &p) const {
    return missing(p) > 0 ? &p.last_weights : &p.weights;
  }

 private:
  // Taps along the third axis that lie beside the image for every pixel of the tile: they would add zeros. They come
  // first and last. One block stays, for sums to begin with.
  __device__ void leave_out(const Product &p) {
    const int32_t end = min(pixel + Tile::pixels, p.pixels) - 1;
    const int32_t front = p.by_out[1](p.by_out[2](pixel)), back = p.by_out[1](p.by_out[2](end));
    const int32_t image = p.by_out[0](front);
    if (p.by_out[0](back) != image) return;
    const Walk &walk = p.walk[0];
    const auto element = [&](int32_t plane, int32_t tap) {
      return (plane - image * p.out[0]) * walk.step + tap * walk.dilation - walk.pad;
    };
    const auto size = static_cast<int32_t>(p.conv.input.size[2]);
    int32_t begin = 0, stop = p.taps[0];
    while (begin < stop && element(back, begin) < 0) ++begin;
    while (begin < stop && element(front, stop - 1) >= size) --stop;
    const int32_t blocks = p.taps[1] * p.taps[2] * p.tap_blocks; // of a tap of the third axis
    begin = max(first, begin * blocks), stop = min(last, stop * blocks);
    last = begin < stop ? stop : first + 1;
    first = begin < stop ? begin : first;
  }
};

// A box of results leaves for pixels from `pixel` on.
template <class Tile>
__device__ inline void store_results(const Product &p, uint32_t from, int32_t channel, int32_t pixel) {
  if constexpr (Tile::scattered) {
    const int32_t row = p.by_out[2](pixel), plane = p.by_out[1](row), w = pixel - row * p.out[2],
                  h = row - plane * p.out[1];
    const int32_t image = p.by_out[0](plane);
    if (p.flat)
      ptx::store_pixels(&p.results, from, channel, w, h, image);
    else
      ptx::store_pixels(&p.results, from, channel, w, h, plane - image * p.out[0], image);
  } else {
    ptx::store_box(&p.results, from, channel, pixel);
  }
}

// A thread's part of 32 channels and 16 pixels: value i belongs to pixel t / 4 + i / 8 * 8 of the warp's and to the
// channel of channel_of.
using Values = float[16];

__device__ inline int32_t channel_of(int32_t channel, int i) {
  return channel + static_cast<int32_t>(threadIdx.x % 4) * 2 + i % 8 / 2 * 8 + i % 2;
}

// Of a chunk of 32 channels, as the products leave them.
__device__ inline void take(const float *sums, Values &v) {
#pragma unroll
  for (int i = 0; i < 16; ++i) v[i] = sums[i % 8 / 2 * 4 + i / 8 * 2 + i % 2];
}

// ---------------------------------------------------------------- out through shared memory

// The warp's place in its block, as the compiler knows it to be the same for all of its threads: what the TMA is told
// is then not looked for thread by thread.
__device__ inline uint32_t warp_in_block() {
  return __shfl_sync(~0u, threadIdx.x / 32, 0);
}

// A warp's boxes. Those of a set are filled one by one and sent together: what makes them visible to the TMA is slow.
template <class Tile>
class Outlet {
  using T = typename Tile::T;

 public:
  __device__ explicit Outlet(uint32_t memory) : first_(memory + warp_in_block() * (Tile::boxes * Tile::box_bytes)) {
    // Swizzled as the TMA expects it: the 16 bytes of 8 channels change places with the row.
    if constexpr (sizeof(T) == 4) { // pairs of channels of row t / 4
      const uint32_t row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
      mine_ = row * 128 + (quad / 2 ^ row) * 16 + quad % 2 * 8;
    } else { // rows of matrices, and those 8 channels on
      const uint32_t row = threadIdx.x % 16, swizzle = Tile::row_bytes == 128 ? row % 8 : row / 2 % 4;
      mine_ = row * Tile::row_bytes + (threadIdx.x % 32 / 16 ^ swizzle) * 16;
    }
  }

  // Waits until the boxes that come next have been read.
  __device__ void open() const {
    if (threadIdx.x % 32 == 0) ptx::stores_read<Tile::sets - 1>();
    __syncwarp();
  }
  // 32 channels of 16 pixels into box `index` of the tile, rounded to its type.
  __device__ void put(const Values &v, int index, int chunk, bool relu) const {
    const uint32_t to = box_at(index);
    if constexpr (sizeof(T) == 4) {
      const float least = relu ? 0.0f : -INFINITY;
#pragma unroll
      for (int i = 0; i < 16; i += 2)
        ptx::store_pair(to + (mine_ ^ i % 8 / 2 * 32) + i / 8 * 1024, ptx::greater(v[i], least),
                        ptx::greater(v[i + 1], least));
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        uint32_t w[4]; // pairs of: upper 8 pixels, lower 8; then 8 channels on
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const int at = j % 2 * 8 + i * 4 + j / 2 * 2;
          w[j] = ptx::pack_pair<T>(v[at], v[at + 1], relu);
        }
        ptx::store_matrices(to + (mine_ ^ (chunk * 4 + i * 2) * 16), w[0], w[1], w[2], w[3]);
      }
    }
  }
  // Sends `count` boxes of the tile from the one of `index` on; `channel` and `pixel`: where it begins for this warp.
  __device__ void send(const Product &p, int32_t channel, int32_t pixel, int index, int count) {
    constexpr int kAcross = Tile::channels / Tile::box;
    ptx::fence_for_tma();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int i = 0; i < count; ++i) {
        const int32_t c = channel + (index + i) % kAcross * Tile::box;
        if (c < p.channels) store_results<Tile>(p, box_at(index + i), c, pixel + (index + i) / kAcross * 64);
      }
      ptx::stores_commit();
    }
    if (!kRepeats && index + count == Tile::tile_boxes) next_ = (next_ + Tile::tile_boxes) % Tile::boxes;
  }
  // Nobody may leave before the TMA has read all boxes.
  __device__ void close() const {
    if (threadIdx.x % 32 == 0) ptx::stores_read<0>();
  }

 private:
  static constexpr bool kRepeats = Tile::tile_boxes % Tile::boxes == 0; // every tile begins with the same box
  __device__ uint32_t box_at(int index) const {
    return first_ + ((kRepeats ? 0 : next_) + index) % Tile::boxes * Tile::box_bytes;
  }

  uint32_t first_, mine_, next_ = 0; // mine_: where in a box this thread's stores begin
};

// ---------------------------------------------------------------- element by element

__device__ inline Place<int64_t> place_of_pixel(const Product &p, int32_t pixel) {
  const int32_t row = p.by_out[2](pixel), plane = p.by_out[1](row), image = p.by_out[0](plane);
  return {image, 0, plane - image * p.out[0], row - plane * p.out[1], pixel - row * p.out[2]};
}

// Everything that an epilogue can be, one value after the other, which go round in their registers. Stores them where
// the result does not leave in boxes. `first`: the warp's first pixel.
__device__ inline void finish_each(const Product &p, Values &v, int32_t first, int32_t channel) {
#pragma unroll 1
  for (int half = 0; half < 2; ++half) {
    const int32_t pixel = first + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * half;
    Place<int64_t> at = place_of_pixel(p, pixel);
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
      at.c = channel_of(channel, i);
      float finished = v[0];
      if (pixel < p.pixels && at.c < p.channels) {
        finished = finish(p.conv, finished, at);
        if (!p.boxes) put(p.conv, p.result, finished, at);
      }
#pragma unroll
      for (int j = 0; j < 15; ++j) v[j] = v[j + 1];
      v[15] = finished;
    }
  }
}

__device__ inline void store_partials(const Product &p, const Values &v, int32_t first, int32_t channel,
                                      int32_t split) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t pixel = first + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * half;
    float *to = p.partials + (static_cast<int64_t>(split) * p.pixels + pixel) * p.partials_row;
#pragma unroll
    for (int i = 8 * half; i < 8 * half + 8; i += 2) {
      const int32_t c = channel_of(channel, i);
      if (pixel < p.pixels && c < p.partials_row) *reinterpret_cast<float2 *>(to + c) = make_float2(v[i], v[i + 1]);
    }
  }
}

// ---------------------------------------------------------------- a tile leaves

// Two neighbouring values.
template <class T>
__device__ inline float2 load_pair(const T *from) {
  if constexpr (sizeof(T) == 4) {
    return *reinterpret_cast<const float2 *>(from);
  } else {
    const auto bits = *reinterpret_cast<const uint32_t *>(from);
    T pair[2];
    memcpy(pair, &bits, sizeof pair);
    return make_float2(static_cast<float>(pair[0]), static_cast<float>(pair[1]));
  }
}

// Adds the residual to 32 channels of 16 pixels.
template <class T>
__device__ inline void add_residual(const Product &p, Values &v, int32_t first, int32_t channel) {
  const T *residual = static_cast<const T *>(p.conv.epilogue.residual) + p.conv.residual.offset;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int32_t pixel = first + static_cast<int32_t>(threadIdx.x % 32 / 4) + 8 * half;
    const T *row = residual + pixel * p.residual_row;
#pragma unroll
    for (int i = 8 * half; i < 8 * half + 8; i += 2) {
      const int32_t c = channel_of(channel, i);
      if (pixel >= p.pixels || c >= p.channels) continue;
      const float2 pair = load_pair(row + c);
      v[i] += p.conv.epilogue.residual_scale * pair.x, v[i + 1] += p.conv.epilogue.residual_scale * pair.y;
    }
  }
}

// What is between a sum and its result, beside a relu.
enum class Ending { kBare, kBias, kAll }; // nothing; a bias; a bias, a residual and a clipped relu, or some of them

__device__ __forceinline__ void add_bias(const Product &p, Values &v, int32_t channel) {
  const auto *bias = static_cast<const float *>(p.conv.epilogue.bias);
#pragma unroll
  for (int i = 0; i < 8; i += 2) {
    const int32_t c = channel_of(channel, i);
    const float2 pair = c < p.channels ? *reinterpret_cast<const float2 *>(bias + c) : float2{};
    v[i] += pair.x, v[i + 1] += pair.y, v[i + 8] += pair.x, v[i + 9] += pair.y;
  }
}

// What most layers have, everything unrolled, with no branch for each of a tile's boxes: two warps share a scheduler,
// and every instruction counts twice. A tile ends rarely, so that its instructions are not at hand: those of what does
// not happen would be fetched as well.
template <class Tile, Ending Ends>
__device__ inline void leave_plainly(const Product &p, const float (&sums)[Tile::rows][Tile::channels / 2],
                                     int32_t first, int32_t pixel, Outlet<Tile> &outlet) {
  constexpr int kAcross = Tile::channels / Tile::box, kSet = Tile::set_boxes;
  const auto &e = p.conv.epilogue;
  const bool relu = e.activation != POLYCONV_ACT_NONE;
#pragma unroll
  for (int index = 0; index < Tile::tile_boxes; ++index) {
    const int box = index % kAcross;
    if (index % kSet == 0) outlet.open();
#pragma unroll
    for (int chunk = 0; chunk < Tile::box / 32; ++chunk) {
      const int32_t channel = first + box * Tile::box + 32 * chunk;
      if (Ends != Ending::kBare && channel >= p.channels) break; // loads stay behind it: sooner, they take registers
      Values v;
      take(sums[index / kAcross] + box * (Tile::box / 2) + chunk * 16, v);
      if (Ends == Ending::kBias || (Ends == Ending::kAll && e.bias != nullptr)) add_bias(p, v, channel);
      if constexpr (Ends == Ending::kAll) {
        if (e.residual != nullptr) add_residual<typename Tile::T>(p, v, pixel + index / kAcross * 64, channel);
        if (e.activation == POLYCONV_ACT_CLIPPED_RELU) {
#pragma unroll
          for (float &value : v) value = ptx::lesser(value, e.alpha);
        }
      }
      outlet.put(v, index, chunk, relu);
    }
    if (index % kSet == kSet - 1) outlet.send(p, first, pixel, index - kSet + 1, kSet);
  }
}

// 32 channels of 16 pixels of a tile: registers have no index.
template <class Tile>
__device__ inline void take_chunk(const float (&sums)[Tile::rows][Tile::channels / 2], int index, Values &v) {
  constexpr int kChunks = Tile::channels / 32;
#pragma unroll
  for (int which = 0; which < Tile::rows * kChunks; ++which)
    if (which == index) take(sums[which / kChunks] + 16 * (which % kChunks), v);
}

// Anything else, 32 channels after the other.
template <class Tile>
__device__ inline void leave_slowly(const Product &p, const float (&sums)[Tile::rows][Tile::channels / 2],
                                    const Turn<Tile> &turn, int32_t first, Outlet<Tile> &outlet) {
  constexpr int kChunks = Tile::channels / 32, kBox = Tile::box / 32;
#pragma unroll 1
  for (int index = 0; index < Tile::rows * kChunks; ++index) {
    const int chunk = index % kChunks;
    const int32_t channel = turn.channel + 32 * chunk, pixel = first + index / kChunks * 64;
    Values v;
    take_chunk<Tile>(sums, index, v);
    if (p.partials != nullptr) {
      store_partials(p, v, pixel, channel, turn.split);
      continue;
    }
    if (p.boxes && chunk % kBox == 0) outlet.open();
    finish_each(p, v, pixel, channel);
    if (!p.boxes) continue;
    outlet.put(v, index / kBox, chunk % kBox, false);
    if (chunk % kBox == kBox - 1) outlet.send(p, turn.channel, first, index / kBox, 1);
  }
}

template <class Tile>
__device__ inline void leave(const Product &p, const float (&sums)[Tile::rows][Tile::channels / 2],
                             const Turn<Tile> &turn, int member, Outlet<Tile> &outlet) {
  const int32_t pixel = turn.pixel + member * Tile::rows * 64 + static_cast<int32_t>(warp_in_block() % 4 * 16);
  const auto &e = p.conv.epilogue;
  if (p.plain && (e.residual != nullptr || e.activation == POLYCONV_ACT_CLIPPED_RELU))
    leave_plainly<Tile, Ending::kAll>(p, sums, turn.channel, pixel, outlet);
  else if (p.plain && e.bias != nullptr)
    leave_plainly<Tile, Ending::kBias>(p, sums, turn.channel, pixel, outlet);
  else if (p.plain)
    leave_plainly<Tile, Ending::kBare>(p, sums, turn.channel, pixel, outlet);
  else
    leave_slowly<Tile>(p, sums, turn, pixel, outlet);
}

} // namespace polyconv::cuda::wgmma
