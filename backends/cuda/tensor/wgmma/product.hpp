// product.hpp - what the host knows of the Hopper product: its geometry as a kernel argument, tile shapes as
// configs, and the launch. A convolution is result[pixel][channel] = sum over depth of activation[pixel][depth] *
// weights[channel][depth], where pixel counts N D H W of the output and depth counts taps, then input channels. Depth
// goes in blocks of 128 bytes, or 64, that keep to one tap; the last block of a tap ends in zeros. With groups a tile's
// channels are of one group, and its activations begin at that group's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap
#include <cuda_runtime.h>

#include <polyconv/sdk/kernel.hpp>

#include "common/conv.cuh"
#include "common/device/check.hpp"
#include "common/device/launch.hpp"
#include "common/divider.cuh"

namespace polyconv::cuda::wgmma {

// How the taps of an axis read it. At stride 2 its even and its odd elements are maps of their own ("phases"), in which
// neighbouring outputs read neighbours: the TMA walks those faster than every second element.
struct Walk {
  int32_t dilation, pad, phases;
  int32_t step;     // between the elements that neighbouring outputs read, in a phase
  int32_t first[2]; // element of a phase that output 0 reads first, of all of the phase's taps

  struct Tap {
    int32_t phase, shift; // shift: beyond `first`
  };
  __host__ __device__ Tap at(int32_t tap) const {
    const int32_t element = tap * dilation - pad;
    if (phases == 1) return {0, element - first[0]};
    return {element & 1, (element >> 1) - first_of(element & 1)};
  }
  // A choice, for to find the one or the other in an argument takes a load that is awaited.
  __host__ __device__ int32_t first_of(int32_t phase) const { return phase == 0 ? first[0] : first[1]; }
};

// Registers of a consumer's thread: of a block's `all`, what `producers` warpgroups leave that keep `kept` a thread.
constexpr int consumer_registers_of(int all, int kept, int consumers, int producers = 1) {
  const int each = (all - kept * 128 * producers) / (128 * consumers) / 8 * 8;
  return each < 240 ? each : 240;
}

struct Product {
  CUtensorMap activations[4], weights, last_weights, results; // first: aligned to 64 bytes; [phase of H][phase of W]
  Conv<int64_t> conv;                                         // for the epilogue
  void *result = nullptr;
  float *partials = nullptr; // with splits: sums of [split][pixel][partials_row], for add_partials; else NULL
  int32_t partials_row = 0;
  int64_t result_begin = 0, result_row = 0; // elements to the first pixel, from one to the next; where plain
  int64_t residual_row = 0;                 // likewise
  int32_t pixels = 0, channels = 0;
  int32_t depth_blocks = 0, tap_blocks = 0; // of all taps, of one
  int32_t last_steps = 0;                   // instructions of a tap's last block
  int32_t group_channels = 0;               // of the input
  int32_t missing = 0; // rows that boxes of last_weights, those of the last tile of channels, do not have
  int32_t taps[3] = {}, out[3] = {};
  Walk walk[3] = {};
  int32_t leaves_out = 0; // taps along the third axis that a tile meets beside the image
  int32_t flat = 0;       // images have two axes: the map of activations has four dimensions, not five
  int32_t splits = 1;     // of depth
  int32_t pixel_tiles = 0, channel_tiles = 0;
  int32_t pixels_next = 0; // neighbouring turns share channels, and so weights, else pixels
  int32_t boxes = 0;       // the result leaves through the map of results
  // A division on the device takes 0.1 us, and what a tile is needs nine.
  Divider by_pixel_tiles = {}, by_channel_tiles = {}, by_splits = {}, by_tap_blocks = {}, by_taps[3] = {},
          by_out[3] = {}, by_group = {}; // by_group: of channels of the output
  int32_t plain = 0;         // so, and nothing but bias, residual and a relu, clipped or not, is between sum and result
  int32_t new_weights = 0;   // what is ahead in the stream may still write them
  int32_t taps_reversed = 0; // of weights across the depth: their map has taps in reverse
};

// Weights as products read them: rows of so many channels, elements from one tap's to the next and from one filter's.
struct WeightRows {
  int64_t channels, tap, filter;
};
// How a kernel gets the weights of a layer. Raw ones where each run has new ones: as rows of channels, or across, as
// rows of filters, if its tile can.
enum class WeightsWay { kPacked, kRows, kAcross };

// A block's tile, pixels x channels; the warpgroups that compute; the teams that they form, which take a tile each; the
// blocks that share a multiprocessor; whether channels are the rows of products, as turned.cuh tells.
struct Shape {
  int32_t pixels, channels, groups, teams, blocks;
  bool turned;
  bool shared;       // splits are a cluster's blocks
  int32_t row = 128; // bytes of a pixel in a block of depth
  int32_t parts = 1; // groups of the layer that lie side by side in a block of depth, and in a tile's channels
};
// Then the bytes of a block of depth: 64 for layers of so few channels that half of 128 would be zeros; and the parts.
#define POLYCONV_WGMMA_TILES(tile)                                                                                   \
  tile(128, 256, 2, 1, 1, false, 128, 1) tile(256, 128, 2, 1, 1, true, 128, 1) tile(192, 128, 2, 1, 1, true, 128, 1) \
      tile(256, 160, 2, 1, 1, false, 128, 1) tile(128, 128, 2, 2, 1, false, 128, 1)                                  \
          tile(128, 160, 2, 2, 1, false, 128, 1) tile(256, 64, 2, 2, 1, true, 128, 1)                                \
              tile(64, 128, 2, 2, 1, false, 128, 1) tile(64, 64, 1, 1, 1, false, 128, 1)                             \
                  tile(128, 160, 2, 1, 1, false, 128, 1) tile(256, 32, 2, 2, 1, false, 128, 1)                       \
                      tile(256, 64, 2, 2, 1, true, 64, 1) tile(256, 64, 2, 2, 1, false, 128, 2)                      \
                          tile(256, 64, 2, 2, 1, false, 128, 4) tile(256, 96, 2, 1, 1, false, 128, 1)
// The channels of a tile: those of a block of depth, where it has several groups.
constexpr int32_t tile_channels(int32_t channels, int32_t row, int32_t parts, int64_t element_bytes) {
  return parts == 1 ? channels : row / static_cast<int32_t>(element_bytes);
}
// Those that clusters share: pixels x channels, the warpgroups that compute, blocks.
#define POLYCONV_WGMMA_SHARED_TILES(tile) tile(64, 64, 1, 2) tile(64, 160, 1, 1)
#define POLYCONV_WGMMA_SHAPE(pixels, channels, groups, teams, blocks, turned, row, parts) \
  {pixels, channels, groups, teams, blocks, turned, false, row, parts},
#define POLYCONV_WGMMA_SHARED_SHAPE(pixels, channels, groups, blocks) \
  {pixels, channels, groups, 1, blocks, false, true},
inline constexpr Shape kShapes[] = {POLYCONV_WGMMA_TILES(POLYCONV_WGMMA_SHAPE)
                                        POLYCONV_WGMMA_SHARED_TILES(POLYCONV_WGMMA_SHARED_SHAPE)};
// Configs: a shape by its place, the splits of depth, and the name's parts before and after the depth of a block. First
// those with blocks of 128 bytes, then of 64, then those of several groups, of as many channels as a block is deep.
#define POLYCONV_WGMMA_CONFIGS(config)                                                                              \
  config(0, 1, "128x256", "") config(1, 1, "256x128", "c") config(2, 1, "192x128", "c") config(3, 1, "256x160", "") \
      config(4, 1, "128x128", "t2") config(5, 1, "128x160", "t2") config(6, 1, "256x64", "ct2")                     \
          config(7, 1, "64x128", "t2") config(8, 1, "64x64", "") config(9, 1, "128x160", "")                        \
              config(15, 4, "64x64", "s4") config(15, 8, "64x64", "s8") config(16, 2, "64x160", "s2")               \
                  config(5, 4, "128x160", "t2k4") config(10, 1, "256x32", "t2") config(14, 1, "256x96", "")
#define POLYCONV_WGMMA_NARROW_CONFIGS(config) config(11, 1, "256x64", "ct2")
#define POLYCONV_WGMMA_GROUPED_CONFIGS(config) config(12, 1, "256x", "t2g2") config(13, 1, "256x", "t2g4")
struct Config {
  int shape, splits;
};
#define POLYCONV_WGMMA_CONFIG(shape, splits, name, suffix) {shape, splits},
inline constexpr Config kConfigs[] = {POLYCONV_WGMMA_CONFIGS(POLYCONV_WGMMA_CONFIG) POLYCONV_WGMMA_NARROW_CONFIGS(
    POLYCONV_WGMMA_CONFIG) POLYCONV_WGMMA_GROUPED_CONFIGS(POLYCONV_WGMMA_CONFIG)};
inline constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs, kMostSplits = 16; // of any kernel
// Blocks of a cluster add up equal shares, in units of 8 channels.
constexpr bool shares_are_equal() {
  for (const Config &config : kConfigs)
    if (kShapes[config.shape].shared && kShapes[config.shape].channels / 8 % config.splits != 0) return false;
  return true;
}
static_assert(shares_are_equal());

// Channels of a box of results.
constexpr int box_channels(int channels, int bytes) {
  return bytes == 2 && channels % 64 == 0 ? 64 : 32;
}

// Pixels of a turned tile whose sums leave together: in 32 KiB for each 64 channels at most.
constexpr int turned_pass_pixels(int pixels, int bytes) {
  return pixels * 2 / bytes;
}

// What the maps must hold: the coordinate of the last output's first tap, from the image's end.
int64_t upper_corner(const polyconv_layer &layer, int axis);
// Whether the third axis, of depth, does nothing.
bool is_flat(const polyconv_layer &layer);
Walk walk_of(const polyconv_layer &layer, int axis);

int64_t element_bytes(const polyconv_layer &layer);     // of input and weights
Shape shape_of(const polyconv_layer &layer, int which); // of kShapes, with the channels that the layer's type gives it
// Whether a tile's sums can leave in boxes with nothing but bias and relu, which turned tiles must. A result may have
// more channels than the output, up to whole 16 bytes: they are written, and a bias then has a value for them.
bool leaves_plainly(const polyconv_layer &layer);
// Likewise for tiles that are not turned and not shared: they may have a residual, and a relu that is clipped.
bool leaves_in_pairs(polyconv_layer layer);
// `fenced`: for products that fetch weights before they wait, which would read too early what has no fence behind it.
const char *packed_format(const polyconv_layer &layer, bool fenced = true);
int64_t packed_channels(const polyconv_layer &layer); // of a tap, in whole sectors of 32 bytes
int64_t packed_bytes(const polyconv_layer &layer);
WeightRows packed_rows(const polyconv_layer &layer);
WeightRows raw_rows(const polyconv_layer &layer);
WeightsWay weights_way(const polyconv_request &request, bool takes_across);
constexpr bool takes_across(const Shape &shape) {
  return shape.row == 128 && shape.parts == 1 && shape.channels % 64 == 0;
}
void offer_weights(const polyconv_request &request, WeightsWay way, sdk::Offer &offer);
// Weights across: the element that lies first, and whether that is of the last tap.
struct AcrossBegin {
  int64_t element;
  bool taps_reversed;
};
AcrossBegin across_begin(const polyconv_layer &layer);
// In one launch, of some layers that see the same raw weights. Products wait for it before they fetch weights.
inline constexpr int kMostPacked = 8;
struct PackedLayer {
  const polyconv_layer *layer;
  void *packed;
};
void pack_new_weights(const PackedLayer *layers, int count, const void *raw, cudaStream_t stream);
// Lets no later kernel begin before what is ahead has ended, so that products may fetch weights before they wait.
void fence_weights(cudaStream_t stream);
// Both, of one layer.
void pack_weights(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);

// The geometry of a layer and a run's pointers, without the maps.
Product make_product(const polyconv_layer &layer, const polyconv_arguments &arguments, const Shape &shape, int splits);
int64_t partials_row(const polyconv_layer &layer); // channels, in whole 16 bytes
void add_partials(const Product &product, cudaStream_t stream);

// The whole run where the input or raw weights do not begin at whole 16 bytes.
void multiply_unaligned(const polyconv_layer &layer, const polyconv_arguments &arguments, cudaStream_t stream,
                        bool raw = false);

// The kernel of a type and shape; `prepare` lets it use its shared memory.
struct Launcher {
  void (*prepare)();
  void (*launch)(const Product &product, int multiprocessors, cudaStream_t stream);
};
template <class T>
Launcher launcher_of(int shape);
// Likewise for weights across, of a shape that takes them; of halves.
template <class T>
Launcher across_launcher_of(int shape);

// Whether 16 bytes of a pixel's channels can be moved at once, were the pointer aligned to them.
bool has_whole_vectors(const polyconv_tensor &t);

// What a plan asks (choice.cpp): blocks of depth; bytes of partial sums; whether everything but the types suits;
// whether depth can be split so (`chosen`: somebody wants that, and hears why not).
int64_t depth_blocks(const polyconv_layer &layer, int32_t row = 128);
int64_t last_steps(const polyconv_layer &layer, int32_t row); // instructions along the depth of a tap's last block
double block_clocks(const Shape &shape); // of one of a tile, where the multiprocessor's other blocks run too
int64_t partials_bytes(const polyconv_layer &layer, int splits);
bool takes(const polyconv_request &request, sdk::Offer &offer);
// Of that: what does not ask for a layout; whether sizes and numbers of tiles fit.
bool takes_forward(const polyconv_layer &layer, sdk::Offer &offer);
bool fits_tiles(const polyconv_layer &layer, sdk::Offer &offer);
bool can_split(const polyconv_layer &layer, int splits, int64_t limit, sdk::Offer *chosen);

// What the kernels of all types offer alike, once types and math are settled.
bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::wgmma
