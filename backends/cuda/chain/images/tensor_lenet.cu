// tensor_lenet.cu - LeNet's two pooled layers on 28 x 28 pixels, f16 and bf16, in one kernel: two warps an image, what
// lies between in their shared memory.
//
// Floor: the products, 390 m16n8k16 for an image of which six of eight channels and ten of sixteen columns are wanted,
// or the instructions around them. Input and result take a fourth of either.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "images/lenet.hpp"

#include "images/images.hpp"

namespace polyconv::cuda {
namespace {

using namespace lenet;
using namespace halves;

// Sizes of layer i: of its input, of its sums, and its padding.
struct Sizes {
  int in, sums, pad;
};
constexpr Sizes kSizes[2] = {{kSize, kSize, 2}, {kBetween, kSums, 0}};

bool takes_sizes(const polyconv_layer &l, const Sizes &s, int index, sdk::Offer &offer) {
  for (int axis = 0; axis < 2; ++axis)
    if (l.input.size[3 + axis] != s.in || l.output.size[3 + axis] != s.sums || l.pad_begin[1 + axis] != s.pad)
      return offer.reject("layer %d: takes %dx%d pixels padded by %d, and gives %dx%d before pooling", index, s.in,
                          s.in, s.pad, s.sums, s.sums);
  const polyconv_pool &pool = l.epilogue.pool;
  bool windows = pool.kind == POLYCONV_POOL_MAX;
  for (int axis = 1; axis < 3; ++axis)
    windows = windows && pool.window[axis] == 2 && pool.stride[axis] == 2 && pool.pad_begin[axis] == 0 &&
              l.result.size[2 + axis] * 2 == l.output.size[2 + axis];
  return windows || offer.reject("layer %d: is to end with max pooling of 2x2, side by side", index);
}

struct Lenet {
  using Chain = lenet::Chain;
  using Kernel = lenet::Kernel;
  static constexpr int layers = 2;
  static constexpr const char *name = "cuda-chain/tensor_lenet";

  // Everything but the pointers.
  static Chain plan(const polyconv_request &request) {
    const polyconv_tensor &result = request.layers[1]->result;
    Chain p;
    p.batch = small(result.size[0]);
    for (int i = 0; i < layers; ++i) {
      const polyconv_layer &l = *request.layers[i];
      p.layer[i].low = low_of(l), p.layer[i].high = high_of(l), p.layer[i].results = small(l.output.size[1]);
    }
    p.results = p.layer[1].results * kOut * kOut;
    const bool last = !sdk::channels_first(result);
    p.channel_step = last ? 1 : kOut * kOut;
    p.pixel_step = last ? p.layer[1].results : 1;
    p.teams = small(std::clamp<int64_t>((chain::most_shared(request) - kImages) / kImageBytes, 1, kMostTeams));
    return p;
  }

  static bool takes(const polyconv_request &request, sdk::Offer &offer) {
    for (int i = 0; i < layers; ++i) {
      const polyconv_layer &l = *request.layers[i];
      if (!takes_layer(l, i, offer) || !takes_no_residual(l, i, offer) || !takes_taps(l, kTaps, kTaps, 1, i, offer) ||
          !takes_channels(l, kShapes[i].in, kShapes[i].out, i, offer) || !takes_sizes(l, kSizes[i], i, offer))
        return false;
    }
    return takes_ends(request, offer);
  }

  static void tell(const Chain &p, sdk::Offer &offer) {
    for (int i = 0; i < layers; ++i) {
      char format[POLYCONV_FORMAT_SIZE];
      std::snprintf(format, sizeof format, "cuda_chain_few_%d_%d:1", kShapes[i].in, kShapes[i].out);
      offer.set_weights(i, format, few::packed_bytes(kShapes[i]));
    }
    // An image of a multiprocessor, or one that is alone. Fitted to batches of 1 to 10000 on an H200.
    offer.estimate_us = std::max(5.0, 3.6 + 0.655 * real(ceil_div(p.batch, offer.blocks)));
    offer.occupancy = static_cast<float>(p.teams * kTeam) / 2048;
    offer.say("two warps an image, %d images a block", p.teams);
  }

  static Kernel find(int32_t type) { return lenet::find(type); }
  static void pack(const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream) {
    few::pack(l, kShapes[layer], raw, packed, stream);
  }
  static void without_pairs(Chain &p) { p.pairs = 0; }
  static int blocks(const Chain &p, int multiprocessors) { return std::clamp(p.batch, 1, multiprocessors); }
  static int threads(const Chain &p) { return p.teams * kTeam; }
  static int64_t shared_bytes(const Chain &p) { return kImages + int64_t{p.teams} * kImageBytes; }
};

constexpr const char *kConfigs[] = {"warps2"};

} // namespace

POLYCONV_DEFINE_KERNEL(tensor_lenet, kConfigs, images_supports<Lenet>, instance_of<Images<Lenet>>);

} // namespace polyconv::cuda
