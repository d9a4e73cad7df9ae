// tensor_images.cu - chains of layers of few channels on small images, f16 and bf16, in one kernel: LeNets. A team of
// warps has an image, and everything between the layers lies in its shared memory (images.hpp). Sums that no result
// needs are not made.
//
// Floor: the products, most of which are zeros that fill up matrices: m16n8k16 for an image 490 of the net of strides,
// 390 of LeNet-5's pair on 28 x 28, 3100 of that on 86 x 86. Input and result take a sixth of that time or less.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/kernel.hpp"
#include "common/types.hpp"
#include "images/images.hpp"

#include <utility>

#include "layers.hpp"

namespace polyconv::cuda {
namespace images {
namespace {

using namespace halves;

// ---------------------------------------------------------------- what it takes

bool takes_pooling(const polyconv_layer &l, int window, int index, sdk::Offer &offer) {
  if (window == 1) return takes_no_pooling(l, index, offer);
  const polyconv_pool &pool = l.epilogue.pool;
  bool square = pool.kind == POLYCONV_POOL_MAX;
  for (int axis = 1; axis < 3; ++axis)
    square = square && pool.window[axis] == window && pool.stride[axis] == window && pool.pad_begin[axis] == 0 &&
             l.result.size[2 + axis] * window <= l.output.size[2 + axis];
  return square || offer.reject("layer %d: is to end with max pooling of %dx%d, side by side", index, window, window);
}

// Channels of the layer before and of this one; a frame of 4 channels holds no more than these.
bool takes_shape(const polyconv_layer &l, const Net &net, int index, sdk::Offer &offer) {
  const Shape &s = net.layer[index];
  const int out = index + 1 < net.layers ? std::min(s.out, net.layer[index + 1].in) : s.out;
  if (!takes_layer(l, index, offer) || !takes_no_residual(l, index, offer) ||
      !takes_taps(l, s.rows, s.columns, s.step, index, offer) || !takes_channels(l, s.in, out, index, offer) ||
      !takes_pooling(l, s.pool, index, offer))
    return false;
  return (l.pad_begin[1] <= 64 && l.pad_begin[2] <= 64) || offer.reject("layer %d: takes a padding of 64", index);
}

bool takes_net(const polyconv_request &request, const Net &net, sdk::Offer &offer) {
  for (int i = 0; i < net.layers; ++i)
    if (!takes_shape(*request.layers[i], net, i, offer)) return false;
  return takes_ends(request, offer);
}

// The net that a chain is, or -1, with the reason why the last one is not.
int net_of(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op == POLYCONV_OP_CONVOLVE) {
    offer.reject("fuses 2 or 4 layers, not %d", request.count);
    for (int i = 0; i < kNetCount; ++i)
      if (request.count == kNets[i].layers && takes_net(request, kNets[i], offer)) return i;
  } else {
    offer.reject("only convolves");
  }
  return -1;
}

// ---------------------------------------------------------------- shared memory

bool pads(const polyconv_layer &l) {
  return l.pad_begin[1] > 0 || l.pad_begin[2] > 0 || l.pad_end[1] > 0 || l.pad_end[2] > 0;
}

// What of a frame is there: the image that the layer before leaves, and what is read around it.
struct Extent {
  int64_t rows, columns; // of the image
  int64_t read_rows, read_columns;

  Extent(const Chain &p, const Shape &s, int index)
      : rows(index == 0 ? p.size[0] : p.layer[index - 1].rows),
        columns(index == 0 ? p.size[1] : p.layer[index - 1].columns) {
    const Layer &l = p.layer[index];
    read_rows = (int64_t{l.rows} * s.pool - 1) * s.step + s.rows + s.ahead();
    read_columns = (int64_t{l.strips} * 16 - 1) * s.step + (s.in == 1 ? 8 : s.columns + s.columns % 2);
  }
};

// Two copies of a frame, half of the banks apart, for lanes that read both at once; their bytes.
int64_t place_twice(const Extent &e, const Shape &s, int64_t at, Layer &l) {
  const int64_t item = s.in * 2;
  l.left = small(std::max<int64_t>(up(l.pad[1], 2), 2));
  l.frame = small(at);
  l.row_bytes = small(up(std::max(l.left - l.pad[1] + e.read_columns, l.left + e.columns) * item, s.in == 1 ? 4 : 16));
  const int64_t bytes = std::max(e.read_rows, l.pad[0] + e.rows) * l.row_bytes;
  l.second = small(up(bytes + 64, 128) - 64);
  return up(l.second + bytes, 16);
}

// One; what is read beside its last row is own memory too.
int64_t place_once(const Extent &e, const polyconv_layer &layer, const Shape &s, int64_t at, Layer &l) {
  const int64_t columns = up(l.pad[1] + e.columns + std::max<int64_t>(layer.pad_end[2], 0), 16);
  l.frame = small(at), l.row_bytes = small(columns * s.in * 2);
  return std::max(e.read_rows, e.rows + l.pad[0]) * l.row_bytes +
         up(std::max<int64_t>(e.read_columns - columns, 0) * s.in * 2, 16);
}

// The input, then frames in two places by turns: one without padding may lie where the one before the last was. The
// result waits behind the last frame.
void place(const polyconv_layer *const *l, const Net &net, Chain &p) {
  int64_t end = place_twice(Extent(p, net.layer[0], 0), net.layer[0], 0, p.layer[0]), room[2] = {};
  int32_t bare[2] = {-1, -1}; // where the last frame without padding began
  for (int i = 1; i < net.layers; ++i) {
    const Shape &s = net.layer[i];
    Layer &layer = p.layer[i];
    const Extent e(p, s, i);
    const int64_t bytes = s.in == 4 ? place_twice(e, s, end, layer) : place_once(e, *l[i], s, end, layer);
    const bool again = bare[i % 2] >= 0 && !pads(*l[i]) && bytes <= room[i % 2];
    if (again) layer.frame = bare[i % 2];
    p.waiting = small(layer.frame + bytes);
    if (again && i + 1 == net.layers && bytes + p.results * 2 <= room[i % 2]) continue;
    if (!again) bare[i % 2] = pads(*l[i]) ? -1 : layer.frame, room[i % 2] = bytes, end += bytes;
    if (i + 1 == net.layers) p.waiting = small(end), end += p.results * 2;
  }
  p.image_bytes = small(up(end + 64, 16));
}

// ---------------------------------------------------------------- plan

// The rows and columns of each layer that the next one reads, from the last layer on.
void use_layers(const polyconv_layer *const *l, const Net &net, Chain &p) {
  for (int i = net.layers - 1; i >= 0; --i) {
    Layer &layer = p.layer[i];
    int32_t used[2];
    for (int axis = 0; axis < 2; ++axis) {
      used[axis] = small(l[i]->result.size[3 + axis]);
      layer.pad[axis] = small(l[i]->pad_begin[1 + axis]);
      if (i + 1 == net.layers) continue;
      const Shape &next = net.layer[i + 1];
      const int64_t sums = int64_t{axis == 0 ? p.layer[i + 1].rows : p.layer[i + 1].columns} * next.pool;
      const int64_t read =
          (sums - 1) * next.step + (axis == 0 ? next.rows : next.columns) - l[i + 1]->pad_begin[1 + axis];
      used[axis] = small(std::clamp<int64_t>(read, 0, used[axis]));
    }
    layer.rows = used[0], layer.columns = used[1], layer.results = small(l[i]->output.size[1]);
    layer.low = low_of(*l[i]), layer.high = high_of(*l[i]);
    const Shape &s = net.layer[i];
    layer.strips = small(ceil_div(int64_t{layer.columns} * s.pool, 16));
    const int32_t units = layer.strips * (s.in == 4 ? 1 : s.out / 8);
    layer.shares = units % net.warps == 0 ? 1 : net.warps;
    layer.words = s.blocks() * kBlockWords;
  }
}

// Everything but the pointers, with as many images as there is room for, but one at least.
Chain plan(const polyconv_request &request, const Net &net) {
  const polyconv_layer *const *l = request.layers;
  const polyconv_tensor &result = l[net.layers - 1]->result;
  Chain p;
  p.batch = small(l[0]->input.size[0]);
  for (int i = 0; i < 2; ++i) p.size[i] = small(l[0]->input.size[3 + i]);
  p.pairs = p.size[1] % 2 == 0;
  p.results = small(result.size[1] * result.size[3] * result.size[4]);
  const bool last = !sdk::channels_first(result);
  p.channel_step = small(last ? 1 : result.size[3] * result.size[4]);
  p.pixel_step = small(last ? result.size[1] : 1);
  use_layers(l, net, p);
  place(l, net, p);
  const int64_t room = chain::most_shared(request) - common_bytes(net);
  p.teams = small(std::clamp<int64_t>(room / p.image_bytes, 1, net.most_teams));
  return p;
}

int64_t shared_bytes(const Chain &p, const Net &net) {
  return common_bytes(net) + int64_t{p.teams} * p.image_bytes;
}

// Matrix instructions of an image.
double products(const Chain &p, const Net &net) {
  double all = 0;
  for (int i = 0; i < net.layers; ++i) {
    const Shape &s = net.layer[i];
    all += real(p.layer[i].rows) * s.pool * p.layer[i].strips * (s.out / 8) * s.rows * s.row_blocks() / 2.0;
  }
  return all;
}

// ---------------------------------------------------------------- weights

constexpr int kThreads = 256;

// Blocks of 8 x 8 in the order in which warps ask for them: rows of taps, blocks of the depth, 8 channels out; two
// values a lane. Depth counts taps, then channels. Elements are copied as they are: any type of 16 bits.
__global__ void __launch_bounds__(kThreads)
    pack_blocks(const View<int64_t> weights, const Shape shape, const uint16_t *raw, uint16_t *packed, int count) {
  const auto i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= count) return;
  const int lane = i / 2 % kBlockWords, block = i / 2 / kBlockWords, groups = shape.out / 8;
  const int depth = block / groups % shape.row_blocks() * 8 + lane % 4 * 2 + i % 2;
  const int r = block / groups / shape.row_blocks(), out = block % groups * 8 + lane / 4;
  const int s = depth / shape.in, c = depth % shape.in;
  const bool there = out < weights.size[0] && c < weights.size[1] && s < shape.columns;
  packed[i] = there ? raw[weights.at(out, c, 0, r, s)] : uint16_t{0};
}

void pack_shape(const polyconv_layer &l, const Shape &shape, const void *raw, void *packed, cudaStream_t stream) {
  const int count = shape.blocks() * kBlockWords * 2;
  pack_blocks<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), shape, static_cast<const uint16_t *>(raw), static_cast<uint16_t *>(packed), count);
  check_launch("the packing of cuda-chain/tensor_images");
}

// ---------------------------------------------------------------- offer and run

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  const int which = net_of(request, offer);
  if (which < 0) return false;
  const Net &net = kNets[which];
  // What a frame holds is counted in 32 bits.
  if (sdk::spatial(request.layers[0]->input) > 1 << 20)
    return offer.reject("layer 0: takes images of 2^20 pixels, not of %" PRId64,
                        sdk::spatial(request.layers[0]->input));
  const Chain p = plan(request, net);
  offer.shared_bytes = shared_bytes(p, net);
  if (!fits_shared(offer.shared_bytes, request, offer)) return false;
  for (int i = 0; i < net.layers; ++i) {
    const Shape &s = net.layer[i];
    char format[POLYCONV_FORMAT_SIZE];
    std::snprintf(format, sizeof format, "cuda_chain_images_%d_%d:1", s.in, s.out);
    offer.set_weights(i, format, int64_t{s.blocks()} * kBlockWords * 4);
  }
  offer.blocks = std::clamp(p.batch, 1, kHopperMultiprocessors);
  offer.threads = p.teams * net.threads();
  offer.occupancy = static_cast<float>(p.teams * net.threads()) / 2048;
  // An image of a multiprocessor, or one that is alone.
  const double image = products(p, net) * net.ns * 1e-3;
  offer.estimate_us = 3.6 + std::max(2 * image, image * real(ceil_div(p.batch, offer.blocks)));
  offer.say("%d warps an image, %d images a block, %d bytes each", net.warps, p.teams, p.image_bytes);
  return true;
}

template <int... i>
Kernel kernel_of(int which, int32_t type, std::integer_sequence<int, i...>) {
  constexpr Kernel (*kKernels[])(int32_t) = {fused<i>...};
  return kKernels[which](type);
}

class Images final : public chain::ChainInstance {
 public:
  explicit Images(const polyconv_request &request) : ChainInstance(request), net_(net_of(request)) {
    const DeviceScope scope(device_);
    chain_ = plan(request, kNets[net_]);
    kernel_ = kernel_of(net_, layers_[0].input.type, std::make_integer_sequence<int, kNetCount>());
    allow_shared(kernel_, block_shared_bytes(device_));
    blocks_ = std::clamp(chain_.batch, 1, multiprocessors_of(device_));
  }

 private:
  static int net_of(const polyconv_request &request) {
    sdk::Offer unheard = {};
    return images::net_of(request, unheard);
  }

  void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                  cudaStream_t stream) override {
    pack_shape(layer, kNets[net_].layer[number], raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Chain p = chain_;
    const Net &net = kNets[net_];
    p.input = a.input, p.result = a.output;
    if (!aligned(a.input, 4)) p.pairs = 0;
    const int32_t row_words = p.pairs ? p.size[1] / 2 : p.size[1];
    p.by_words = Quotient(row_words);
    p.held = p.size[0] * row_words <= kHeldWords * net.threads();
    for (int i = 0; i < net.layers; ++i) {
      p.layer[i].weights = a.weights[i];
      if (layers_[i].epilogue.has_bias) p.layer[i].bias = static_cast<const float *>(a.bias[i]);
    }
    kernel_<<<static_cast<unsigned>(blocks_), p.teams * net.threads(), static_cast<size_t>(shared_bytes(p, net)),
              stream>>>(p);
    check_launch("cuda-chain/tensor_images");
  }

  const int net_;
  Chain chain_;
  Kernel kernel_ = nullptr;
  int blocks_ = 0;
};

constexpr const char *kConfigs[] = {"warps"};

} // namespace
} // namespace images

POLYCONV_DEFINE_KERNEL(tensor_images, images::kConfigs, images::supports, instance_of<images::Images>);

} // namespace polyconv::cuda
