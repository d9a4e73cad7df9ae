// wgmma_product.hpp - what the host knows of the Hopper product: its geometry as a kernel argument, tile shapes as
// configs, and the launch. A convolution is result[pixel][channel] = sum over depth of activation[pixel][depth] *
// weights[channel][depth], where pixel counts N D H W of the output and depth counts taps, then input channels. Depth
// goes in blocks of 128 bytes that keep to one tap; the last block of a tap ends in zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap
#include <cuda_runtime.h>

#include <polyconv/sdk/kernel.hpp>

#include "common/check.hpp"
#include "common/conv.cuh"

namespace polyconv::cuda::wgmma {

struct Product {
  CUtensorMap activations, weights, results; // first: they are aligned to 64 bytes
  Conv<int64_t> conv;                        // for the epilogue
  void *result = nullptr;
  float *partials = nullptr; // with splits: sums of [split][pixel][partials_row], for add_partials; else NULL
  int32_t partials_row = 0;
  int32_t pixels = 0, channels = 0;
  int32_t depth_blocks = 0, tap_blocks = 0; // of all taps, of one
  int32_t taps[3] = {}, out[3] = {}, stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int32_t flat = 0;   // images have two axes: the map of activations has four dimensions, not five
  int32_t splits = 1; // of depth
  int32_t pixel_tiles = 0, channel_tiles = 0;
  int32_t boxes = 0; // the result leaves through the map of results
  int32_t plain = 0; // so, and nothing but bias and relu is between sum and result
};

// A block's tile, pixels x channels; the warpgroups that compute; the teams that they form, which take a tile each; the
// blocks that share a multiprocessor.
struct Shape {
  int32_t pixels, channels, groups, teams, blocks;
};
#define POLYCONV_WGMMA_TILES(tile)                                                                      \
  tile(128, 256, 2, 1, 1) tile(256, 128, 2, 1, 1) tile(192, 128, 3, 1, 1) tile(256, 160, 2, 1, 1) tile( \
      128, 128, 2, 2, 1) tile(128, 160, 2, 2, 1) tile(256, 64, 2, 2, 1) tile(64, 128, 2, 2, 1) tile(64, 64, 1, 1, 3)
#define POLYCONV_WGMMA_SHAPE(pixels, channels, groups, teams, blocks) {pixels, channels, groups, teams, blocks},
inline constexpr Shape kShapes[] = {POLYCONV_WGMMA_TILES(POLYCONV_WGMMA_SHAPE)};
// Configs: a shape by its place, the splits of depth, and the name's parts before and after the depth of a block.
#define POLYCONV_WGMMA_CONFIGS(config)                                                                            \
  config(0, 1, "128x256", "") config(1, 1, "256x128", "") config(2, 1, "192x128", "") config(3, 1, "256x160", "") \
      config(4, 1, "128x128", "t2") config(5, 1, "128x160", "t2") config(6, 1, "256x64", "t2")                    \
          config(7, 1, "64x128", "t2") config(8, 1, "64x64", "") config(5, 2, "128x160", "t2k2")                  \
              config(5, 4, "128x160", "t2k4") config(6, 2, "256x64", "t2k2") config(8, 2, "64x64", "k2")          \
                  config(8, 4, "64x64", "k4") config(8, 8, "64x64", "k8") config(8, 16, "64x64", "k16")
struct Config {
  int shape, splits;
};
#define POLYCONV_WGMMA_CONFIG(shape, splits, name, suffix) {shape, splits},
inline constexpr Config kConfigs[] = {POLYCONV_WGMMA_CONFIGS(POLYCONV_WGMMA_CONFIG)};
inline constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs, kMostSplits = 16;

// Channels of a box of results.
constexpr int box_channels(int channels, int bytes) {
  return bytes == 2 && channels % 64 == 0 ? 64 : 32;
}

// The driver's encoders of tensor maps; throws where the driver has none. They run on the host alone.
class MapEncoders {
 public:
  MapEncoders();
  // `exact`: f32 stays as it is, and is not rounded to TF32.
  void activations(const polyconv_layer &layer, const void *input, const Shape &shape, CUtensorMap *map,
                   bool exact = false) const;
  void weights(const polyconv_layer &layer, const void *packed, const Shape &shape, CUtensorMap *map) const;
  void parts(const polyconv_layer &layer, const void *packed, const Shape &shape, CUtensorMap *map) const;
  void results(const polyconv_layer &layer, const void *result, const Shape &shape, CUtensorMap *map) const;

 private:
  decltype(&cuTensorMapEncodeIm2col) im2col_;
  decltype(&cuTensorMapEncodeTiled) tiled_;
};

// What the maps must hold: the coordinate of the last output's first tap, from the image's end.
int64_t upper_corner(const polyconv_layer &layer, int axis);
// Whether the third axis, of depth, does nothing.
bool is_flat(const polyconv_layer &layer);

int64_t element_bytes(const polyconv_layer &layer); // of input and weights
int64_t packed_bytes(const polyconv_layer &layer);
void pack_weights(const polyconv_layer &layer, const void *raw, void *packed, cudaStream_t stream);

// The geometry of a layer and a run's pointers, without the maps.
Product make_product(const polyconv_layer &layer, const polyconv_arguments &arguments, const Shape &shape, int splits);
int64_t partials_row(const polyconv_layer &layer); // channels, in whole 16 bytes
void add_partials(const Product &product, cudaStream_t stream);

// The whole run where the input does not begin at whole 16 bytes.
void multiply_unaligned(const polyconv_layer &layer, const polyconv_arguments &arguments, cudaStream_t stream);

// Launches a kernel that begins while what is ahead of it in the stream still ends, and waits for it itself. (9.0 and
// on)
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, int threads, int shared_bytes, cudaStream_t stream,
                  const Arguments &...arguments) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks), config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes), config.stream = stream;
  config.attrs = &early, config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching cuda-tensor's wgmma");
}

// The kernel of a type and shape; `prepare` lets it use its shared memory.
struct Launcher {
  void (*prepare)();
  void (*launch)(const Product &product, int multiprocessors, cudaStream_t stream);
};
Launcher product_f16(int shape);
Launcher product_bf16(int shape);
Launcher product_tf32(int shape);

// What a plan asks (wgmma_choice.cu): blocks of depth; bytes of partial sums; whether everything but the types suits;
// whether depth can be split so (`chosen`: somebody wants that, and hears why not).
int64_t depth_blocks(const polyconv_layer &layer);
int64_t partials_bytes(const polyconv_layer &layer, int splits);
bool takes(const polyconv_request &request, sdk::Offer &offer);
bool can_split(const polyconv_layer &layer, int splits, int64_t limit, sdk::Offer *chosen);

// What the kernels of all types offer alike, once types and math are settled.
bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config);

} // namespace polyconv::cuda::wgmma
