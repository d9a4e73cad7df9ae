// tensor_pooled.cu - the two pooled layers of the LeNet of 86 x 86 pixels, f16 and bf16, in one kernel: an image a
// block, what lies between in shared memory. Sums that no result needs are not made.
//
// Floor: the products, about 3100 m16n8k16 for an image, half of the first layer's with channels that are not there.
// Input and result take an eighth of that time.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "images/pooled.hpp"

#include "images/images.hpp"

namespace polyconv::cuda {
namespace {

using namespace pooled;
using namespace halves;

constexpr int kMostTogether = 3;

bool takes_pooling(const polyconv_layer &l, int window, int index, sdk::Offer &offer) {
  const polyconv_pool &pool = l.epilogue.pool;
  const bool square = pool.kind == POLYCONV_POOL_MAX && pool.window[1] == window && pool.window[2] == window &&
                      pool.stride[1] == window && pool.stride[2] == window && pool.pad_begin[1] == 0 &&
                      pool.pad_begin[2] == 0 && l.result.size[3] * window <= l.output.size[3] &&
                      l.result.size[4] * window <= l.output.size[4];
  return square || offer.reject("layer %d: is to end with max pooling of %dx%d, side by side", index, window, window);
}

// Bytes between the copies: half of the banks further on, for lanes of even and odd places read at once.
int32_t copy_distance(int64_t bytes) {
  return small(up(bytes + 64, 128) - 64);
}

// Where a layer's input lies, from `at` on: so many rows and columns are read, an element of `item` bytes each, and the
// image is so large; the bytes of both copies.
int64_t place_frame(const polyconv_layer &l, int64_t rows, int64_t columns, const int64_t (&image)[2], int64_t item,
                    int64_t at, Layer &layer) {
  for (int axis = 0; axis < 2; ++axis) layer.pad[axis] = small(l.pad_begin[1 + axis]);
  layer.left = small(std::max<int64_t>(up(layer.pad[1], 2), 2));
  layer.frame = small(at);
  layer.row_bytes = small(up(std::max(layer.left - layer.pad[1] + columns, layer.left + image[1]) * item, 16));
  layer.second = copy_distance(std::max(rows, layer.pad[0] + image[0]) * layer.row_bytes);
  return 2 * int64_t{layer.second} + 64;
}

// ---------------------------------------------------------------- plan and offer

// i / words is i * magic >> 20.
int32_t magic_of(int words) {
  return small(ceil_div(1 << 20, std::max(words, 1)));
}

int together_of(const Chain &p) {
  return static_cast<int>(std::clamp<int64_t>((228 << 10) / (p.bytes + 1024), 1, kMostTogether));
}

// The LeNet of 86 x 86 pixels: an image a block.
struct Pooled {
  using Chain = pooled::Chain;
  using Kernel = pooled::Kernel;
  static constexpr int layers = 2;
  static constexpr const char *name = "cuda-chain/tensor_pooled";

  // Everything but the pointers.
  static Chain plan(const polyconv_request &request) {
    const polyconv_layer *const *l = request.layers;
    Chain p;
    p.batch = small(l[0]->input.size[0]);
    int64_t used[2], image[2]; // pooled rows and columns of the first layer that are read; its input's
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t read = l[1]->result.size[3 + axis] * kPools[1] + kShapes[1].rows - 1 - l[1]->pad_begin[1 + axis];
      used[axis] = std::clamp<int64_t>(read, 0, l[0]->result.size[3 + axis]);
      image[axis] = l[0]->input.size[3 + axis], p.size[axis] = small(image[axis]);
    }
    p.pairs = p.size[1] % 2 == 0;
    p.row_magic = magic_of(p.pairs ? p.size[1] / 2 : p.size[1]);
    Layer &first = p.layer[0], &second = p.layer[1];
    first.rows = small(used[0]), first.columns = small(used[1]);
    second.rows = small(l[1]->result.size[3]), second.columns = small(l[1]->result.size[4]);
    for (int i = 0; i < 2; ++i) {
      p.layer[i].low = low_of(*l[i]), p.layer[i].high = high_of(*l[i]);
      p.layer[i].results = small(l[i]->output.size[1]);
    }
    int64_t at = place_frame(*l[0], used[0] * 2 + 6, up(used[1] * 2, 16) + 8, image, 2, 0, first);
    at += place_frame(*l[1], second.rows * 4 + 6, up(second.columns * 4, 16) + 8, used, kPosition, at, second);
    p.results = second.results * second.rows * second.columns;
    const bool last = !sdk::channels_first(l[1]->result);
    p.channel_step = last ? 1 : second.rows * second.columns;
    p.pixel_step = last ? second.results : 1;
    p.waiting = small(at), at = up(at + p.results * 2, 16);
    p.biases = small(at), at += 2 * few::kBiases * 4;
    p.weights = small(at), at += (blocks_of(0) + blocks_of(1)) * few::kBlockWords * 4;
    p.bytes = small(at);
    return p;
  }

  static bool takes(const polyconv_request &request, sdk::Offer &offer) {
    for (int i = 0; i < 2; ++i) {
      const polyconv_layer &l = *request.layers[i];
      const few::Shape &shape = kShapes[i];
      if (!takes_layer(l, i, offer) || !takes_no_residual(l, i, offer) ||
          !takes_taps(l, shape.rows, shape.columns, shape.step, i, offer) ||
          !takes_channels(l, shape.in, i == 0 ? kShapes[1].in : shape.out, i, offer) ||
          !takes_pooling(l, kPools[i], i, offer))
        return false;
      if (l.pad_begin[1] > 64 || l.pad_begin[2] > 64) return offer.reject("layer %d: takes a padding of 64", i);
    }
    if (!takes_ends(request, offer)) return false;
    const polyconv_tensor &input = request.layers[0]->input;
    // Row numbers come from a multiplication that is exact so far.
    if (input.size[3] * input.size[4] > 1 << 16 || input.size[3] * input.size[4] * input.size[4] >= 1 << 20)
      return offer.reject("layer 0: takes images of about 100 x 100 pixels, not of %" PRId64 " x %" PRId64,
                          input.size[3], input.size[4]);
    return true;
  }

  static void tell(const Chain &p, sdk::Offer &offer) {
    for (int i = 0; i < layers; ++i)
      offer.set_weights(i, i == 0 ? "cuda_chain_few_1_8:1" : "cuda_chain_pooled:1",
                        int64_t{blocks_of(i)} * few::kBlockWords * 4);
    const int together = together_of(p);
    // Matrix instructions of an image, each 5.3 clocks of a multiprocessor.
    const double products = p.layer[0].rows * 2.0 * real(ceil_div(p.layer[0].columns, 8)) * 3.5 +
                            p.layer[1].rows * 4.0 * real(ceil_div(p.layer[1].columns, 4)) * 28;
    offer.estimate_us = 2 + std::ceil(p.batch / real(offer.blocks)) * together * products * 5.3 / kHopperClocks;
    offer.occupancy = static_cast<float>(together * kWarps) / 64;
    offer.say("an image a block, %dx%d of the pooled image between", p.layer[0].rows, p.layer[0].columns);
  }

  static Kernel find(int32_t type) { return pooled::find(type); }
  static void pack(const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream) {
    pooled::pack(l, layer, raw, packed, stream);
  }
  static void without_pairs(Chain &p) { p.pairs = 0, p.row_magic = magic_of(p.size[1]); }
  static int blocks(const Chain &p, int multiprocessors) {
    return std::clamp(p.batch, 1, multiprocessors * together_of(p));
  }
  static int threads(const Chain &) { return kWarps * 32; }
  static int64_t shared_bytes(const Chain &p) { return p.bytes; }
};

constexpr const char *kConfigs[] = {"block"};

} // namespace

POLYCONV_DEFINE_KERNEL(tensor_pooled, kConfigs, images_supports<Pooled>, instance_of<Images<Pooled>>);

} // namespace polyconv::cuda
