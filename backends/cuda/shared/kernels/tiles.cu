// tiles.cu - forward in two dimensions: a block stages the inputs of a patch of outputs, halo included, and the weights
// of a few output channels in shared memory, some input channels at a time, and every input is then read from there by
// all the taps and channels that want it.
//
// Floor: max(2 N K P Q C R S / FMA rate, compulsory bytes / copy rate). The halo is read again by neighbouring blocks,
// and each product of a thread with one output channel costs a load from shared memory: four channels share it where
// there are as many. SPDX-License-Identifier: Apache-2.0
#include "common/async.cuh"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kMostThreads = 256;
constexpr int kSharedBytes = 48 << 10;

// A config: the width of a patch in outputs, of threads below each other, and of outputs a thread, rows apart.
struct Config {
  int width, rows, outputs;
};
constexpr Config kConfigs[] = {{16, 16, 1}, {25, 10, 1}, {25, 10, 4}, {32, 8, 1}, {32, 8, 2}, {32, 8, 4}, {64, 4, 4}};
constexpr const char *kNames[] = {"16x16", "25x10", "25x40", "32x8", "32x16", "32x32", "64x16"};
constexpr int kConfigCount = 7;

// The patch of a block. Sizes in elements.
struct Patch {
  int32_t width, rows, height;          // outputs, threads below each other, outputs below each other
  int32_t tile_width, tile_height;      // inputs, halo included
  int32_t chunk;                        // input channels staged together
  int32_t group_in, group_out;          // channels of a group
  int32_t across, down, channel_blocks; // blocks of an image, and of a group
};

// One element's epilogue; not inlined, as a thread has up to sixteen.
template <class Sum>
__device__ __noinline__ void store_sum(const Conv<int64_t> *p, void *result, Sum sum, Place<int64_t> at) {
  finish_and_store(*p, result, sum, at);
}

// Input channels [first, first + channels) of the group's patch.
template <class From>
__device__ void stage_inputs(const Conv<int64_t> &p, const Patch &s, const From *x, float *tile, int64_t n,
                             int64_t first, int channels, int64_t top, int64_t left) {
  const int plane = s.tile_width * s.tile_height;
  for (int i = threadIdx.x; i < channels * plane; i += blockDim.x) {
    const int c = i / plane, line = i % plane / s.tile_width;
    int64_t h = top + line, w = left + i % plane % s.tile_width;
    const bool within = h >= 0 && h < p.input.size[3] && w >= 0 && w < p.input.size[4];
    if (!within) {
      h = sdk::padded_index(h, p.input.size[3], p.pad_mode);
      w = sdk::padded_index(w, p.input.size[4], p.pad_mode);
    }
    if (h < 0 || w < 0) {
      tile[i] = p.template padding<float>();
      continue;
    }
    const From *from = x + p.input.at(n, first + c, 0, h, w);
    if constexpr (std::is_same_v<From, float>)
      copy_async<4>(tile + i, from, true);
    else
      tile[i] = static_cast<float>(value(*from));
  }
}

// Their weights for Channels output channels, side by side; zeros beyond the group's last.
template <class From, int Channels>
__device__ void stage_weights(const Conv<int64_t> &p, const From *w, float *staged, int64_t first_out, int present,
                              int64_t first, int channels) {
  const int columns = static_cast<int>(p.weights.size[4]), taps = static_cast<int>(p.weights.size[3]) * columns;
  for (int i = threadIdx.x; i < channels * taps * Channels; i += blockDim.x) {
    const int k = i % Channels, tap = i / Channels % taps, c = i / Channels / taps;
    staged[i] =
        k < present
            ? static_cast<float>(value(w[p.weights.at(first_out + k, first + c, 0, tap / columns, tap % columns)]))
            : 0.f;
  }
}

// Taps: the size of a square filter, unrolled; 0 for any other.
template <class Row, int Taps, int Outputs, int Channels>
__global__ void __launch_bounds__(kMostThreads, 3)
    convolve(const __grid_constant__ Conv<int64_t> p, const __grid_constant__ Patch s, const typename Row::A *x,
             const typename Row::B *w, void *y) {
  extern __shared__ __align__(16) float shared[];
  const int lines = Taps ? Taps : static_cast<int>(p.weights.size[3]);
  const int columns = Taps ? Taps : static_cast<int>(p.weights.size[4]);
  float *const weights = shared; // first, so that vectors of channels are aligned
  float *const tile = shared + s.chunk * lines * columns * Channels;

  unsigned block = blockIdx.x;
  const int64_t left = static_cast<int64_t>(block % s.across) * s.width;
  block /= s.across;
  const int64_t top = static_cast<int64_t>(block % s.down) * s.height;
  block /= s.down;
  const auto channel = static_cast<int>(block % s.channel_blocks) * Channels;
  block /= s.channel_blocks;
  const int64_t group = block % p.groups, n = block / p.groups;
  const int64_t first_out = group * s.group_out + channel;
  const int present = min(Channels, s.group_out - channel);

  const int column = static_cast<int>(threadIdx.x) % s.width, line = static_cast<int>(threadIdx.x) / s.width;
  const auto step_h = static_cast<int>(p.stride[1]), dilation_h = static_cast<int>(p.dilation[1]);
  const auto step_w = static_cast<int>(p.stride[2]), dilation_w = static_cast<int>(p.dilation[2]);
  float sums[Outputs][Channels] = {};
  for (int first = 0; first < s.group_in; first += s.chunk) {
    const int channels = min(s.chunk, s.group_in - first);
    stage_inputs(p, s, x, tile, n, group * s.group_in + first, channels, top * step_h - p.pad[1],
                 left * step_w - p.pad[2]);
    stage_weights<typename Row::B, Channels>(p, w, weights, first_out, present, first, channels);
    await_copies();
    __syncthreads();
    for (int c = 0; c < channels; ++c) {
      const float *const inputs = tile + c * s.tile_width * s.tile_height + column * step_w;
      const float *const filter = weights + c * lines * columns * Channels;
#pragma unroll
      for (int r = 0; r < lines; ++r)
#pragma unroll
        for (int q = 0; q < columns; ++q) {
          float factor[Channels];
#pragma unroll
          for (int k = 0; k < Channels; ++k) factor[k] = filter[(r * columns + q) * Channels + k];
#pragma unroll
          for (int o = 0; o < Outputs; ++o) {
            const float v = inputs[((line + o * s.rows) * step_h + r * dilation_h) * s.tile_width + q * dilation_w];
#pragma unroll
            for (int k = 0; k < Channels; ++k) sums[o][k] = fmaf(v, factor[k], sums[o][k]);
          }
        }
    }
    __syncthreads();
  }

  const int64_t at_w = left + column;
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
    const int64_t at_h = top + line + o * s.rows;
#pragma unroll
    for (int k = 0; k < Channels; ++k)
      if (k < present && at_h < p.output.size[3] && at_w < p.output.size[4])
        store_sum(&p, y, sums[o][k], Place<int64_t>{n, first_out + k, 0, at_h, at_w});
  }
}

// ---------------------------------------------------------------- the patch of a layer

int channels_of(const polyconv_layer &l) {
  return l.output.size[1] / l.groups >= 3 ? 4 : 1;
}

int64_t staged_bytes(const polyconv_layer &l, int64_t tile_elements) { // of one input channel
  return (tile_elements + l.weights.size[3] * l.weights.size[4] * channels_of(l)) * int64_t(sizeof(float));
}

// False where not even one input channel fits; `bytes` is the shared memory of a block.
bool make_patch(const polyconv_layer &l, const Config &config, Patch &s, int64_t &bytes) {
  const int64_t height = config.rows * config.outputs;
  const int64_t tile_width = (config.width - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  const int64_t tile_height = (height - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
  if (tile_width > kSharedBytes || tile_height > kSharedBytes || l.weights.size[3] > kSharedBytes ||
      l.weights.size[4] > kSharedBytes)
    return false;
  bytes = staged_bytes(l, tile_width * tile_height);
  if (bytes > kSharedBytes) return false;
  const auto small = [](int64_t v) { return static_cast<int32_t>(v); };
  const auto parts = [&](int64_t count, int64_t of) { return small((count + of - 1) / of); };
  s = {};
  s.width = config.width, s.rows = config.rows, s.height = small(height);
  s.tile_width = small(tile_width), s.tile_height = small(tile_height);
  s.group_in = small(l.weights.size[1]);
  s.group_out = small(l.output.size[1] / l.groups);
  // Half of the memory, so that blocks enough share a multiprocessor; at most eight channels, as more wait for nothing.
  s.chunk = small(std::clamp<int64_t>(kSharedBytes / 2 / bytes, 1, std::min<int64_t>(8, l.weights.size[1])));
  bytes *= s.chunk;
  s.across = parts(l.output.size[4], config.width);
  s.down = parts(l.output.size[3], height);
  s.channel_blocks = parts(s.group_out, channels_of(l));
  return true;
}

double blocks_of(const polyconv_layer &l, const Patch &s) {
  return static_cast<double>(s.across) * s.down * s.channel_blocks * static_cast<double>(l.groups) *
         static_cast<double>(l.output.size[0]);
}

// Products at the rate at which shared memory feeds them, lanes outside the image included, and the compulsory bytes.
double tiles_us(const polyconv_layer &l, const Patch &s, const Config &config) {
  const int channels = channels_of(l);
  const double loads = 1.0 / channels + 1.0 / config.outputs; // a product, in loads of 4 bytes
  const double products =
      blocks_of(l, s) * config.width * s.height * channels * s.group_in * static_cast<double>(sdk::taps(l));
  const double bytes = 4 * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  return 4 + products * (1 + 1.5 * loads) / 20e6 + bytes / 2.5e6 + blocks_of(l, s) * 0.002;
}

// ---------------------------------------------------------------- plan and run

class Tiles final : public CudaInstance {
 public:
  Tiles(const polyconv_request &request, int config) : CudaInstance(request), config_(kConfigs[config]) {
    make_patch(layer_, config_, patch_, bytes_);
  }

 private:
  template <class Row, int Taps, int Outputs>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const auto kernel = channels_of(layer_) == 4 ? convolve<Row, Taps, Outputs, 4> : convolve<Row, Taps, Outputs, 1>;
    kernel<<<static_cast<unsigned>(blocks_of(layer_, patch_)), config_.width * config_.rows,
             static_cast<size_t>(bytes_), stream>>>(Conv<int64_t>(layer_, a), patch_,
                                                    static_cast<const typename Row::A *>(a.input),
                                                    static_cast<const typename Row::B *>(a.weights[0]), a.output);
  }

  template <class Row, int Taps>
  void launch_outputs(const polyconv_arguments &a, cudaStream_t stream) const {
    if (config_.outputs == 1) return launch_as<Row, Taps, 1>(a, stream);
    if (config_.outputs == 2) return launch_as<Row, Taps, 2>(a, stream);
    launch_as<Row, Taps, 4>(a, stream);
  }

  template <class Row>
  void launch_row(const polyconv_arguments &a, cudaStream_t stream) const {
    const int64_t taps = layer_.weights.size[3] == layer_.weights.size[4] ? layer_.weights.size[3] : 0;
    if (taps == 3) return launch_outputs<Row, 3>(a, stream);
    if (taps == 5) return launch_outputs<Row, 5>(a, stream);
    if (taps == 7) return launch_outputs<Row, 7>(a, stream);
    launch_outputs<Row, 0>(a, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    switch (layer_.input.type) {
      case POLYCONV_F32: launch_row<Row<float, float, float>>(a, stream); break;
      case POLYCONV_F16: launch_row<Row<__half, __half, float>>(a, stream); break;
      case POLYCONV_BF16: launch_row<Row<__nv_bfloat16, __nv_bfloat16, float>>(a, stream); break;
      default: launch_row<Row<uint8_t, float, float>>(a, stream); break;
    }
    check_launch("cuda-shared/tiles");
  }

  const Config config_;
  Patch patch_ = {};
  int64_t bytes_ = 0;
};

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", request.count);
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  const int32_t a = l.input.type, b = l.weights.type;
  const bool same = a == b && (a == POLYCONV_F32 || a == POLYCONV_F16 || a == POLYCONV_BF16);
  if (!same && !(a == POLYCONV_U8 && b == POLYCONV_F32))
    return offer.reject("takes f32, f16 and bf16, and u8 images with f32 weights");
  if (l.input.size[2] != 1 || l.weights.size[2] != 1 || l.output.size[2] != 1 || l.pad_begin[0] != 0)
    return offer.reject("its tiles are of two dimensions, not three");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  constexpr int64_t kLimit = 1 << 30;
  if (l.output.size[1] > kLimit || l.input.size[1] > kLimit || l.output.size[3] > kLimit || l.output.size[4] > kLimit ||
      l.stride[1] > kLimit || l.stride[2] > kLimit || l.dilation[1] > kLimit || l.dilation[2] > kLimit)
    return offer.reject("takes sizes, strides and dilations of at most 2^30");
  return true;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  bool many = false;
  offer.estimate_us = 0;
  for (int i = config < 0 ? 0 : config; i < (config < 0 ? kConfigCount : config + 1); ++i) {
    Patch patch;
    int64_t bytes = 0;
    if (!make_patch(l, kConfigs[i], patch, bytes)) continue;
    if (!(blocks_of(l, patch) < INT32_MAX)) {
      many = true;
      continue;
    }
    const double us = tiles_us(l, patch, kConfigs[i]);
    if (offer.estimate_us == 0 || us < offer.estimate_us) offer.estimate_us = us, offer.config = i;
  }
  if (offer.estimate_us > 0) return true;
  if (many) return offer.reject("has at most 2^31 patches");
  return offer.reject("a patch and its halo do not fit into %d bytes of shared memory", kSharedBytes);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Tiles>(request, config);
}

} // namespace

extern const sdk::Kernel kernel_tiles;
const sdk::Kernel kernel_tiles = {"tiles", 0, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
