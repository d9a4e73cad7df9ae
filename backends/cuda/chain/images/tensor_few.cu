// tensor_few.cu - the LeNet of strides in place of pooling, f16 and bf16: four layers of few channels in one kernel,
// two warps an image, everything between the layers in their shared memory.
//
// Floor: the products, most of which are zeros that fill up matrices: about 490 m16n8k16 for an image of 28 x 28. Input
// and result take a sixth of that time.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "images/few.hpp"

#include "images/images.hpp"

namespace polyconv::cuda {
namespace {

using namespace few;
using namespace halves;

// ---------------------------------------------------------------- what it takes

bool takes_shape(const polyconv_layer &l, const Shape &shape, int index, sdk::Offer &offer) {
  if (!takes_layer(l, index, offer) || !takes_no_residual(l, index, offer) || !takes_no_pooling(l, index, offer) ||
      !takes_taps(l, shape.rows, shape.columns, shape.step, index, offer) ||
      !takes_channels(l, shape.in, shape.out, index, offer))
    return false;
  const int most = index == 0 ? kFirstColumns : kColumns;
  if (l.output.size[4] > most)
    return offer.reject("layer %d: takes rows of %d outputs, not of %" PRId64, index, most, l.output.size[4]);
  if (l.output.size[3] > 256 || l.pad_begin[1] > 64 || l.pad_begin[2] > 64)
    return offer.reject("layer %d: takes columns of 256 outputs and a padding of 64", index);
  return true;
}

// ---------------------------------------------------------------- shared memory

bool pads(const polyconv_layer &l) {
  return l.pad_begin[1] > 0 || l.pad_begin[2] > 0 || l.pad_end[1] > 0 || l.pad_end[2] > 0;
}

// The first layer's input, twice; its bytes.
int64_t place_input(const polyconv_layer &l, const Shape &shape, int64_t at, Chain &p) {
  Layer &first = p.layer[0];
  const int64_t left = std::max<int64_t>(up(l.pad_begin[2], 2), 2);
  const int64_t columns = std::max(left + l.input.size[4], left - l.pad_begin[2] + kFirstColumns + 8);
  const int64_t rows = std::max(l.output.size[3] + shape.rows - 1, l.input.size[3] + l.pad_begin[1]);
  p.left = small(left);
  first.frame = small(at), first.row_bytes = small(up(columns * 2, 4));
  // Half of the banks further on: lanes of even and odd pixels read at once.
  p.second = small(up(rows * first.row_bytes - 64, 128) + 64);
  if (p.second < rows * first.row_bytes) p.second += 128;
  return up(p.second + rows * first.row_bytes, 16);
}

// The frame that a layer reads; its bytes. Sixteen outputs are read beside a row and below the last one, whatever is
// there: own memory follows.
int64_t place_frame(const polyconv_layer &l, const Shape &shape, int64_t at, Layer &layer) {
  const int64_t columns = up(l.pad_begin[2] + l.input.size[4] + std::max<int64_t>(l.pad_end[2], 0), 16);
  const int64_t rows = std::max((l.output.size[3] - 1) * shape.step + shape.rows, l.input.size[3] + l.pad_begin[1]);
  layer.frame = small(at), layer.row_bytes = small(columns * shape.in * 2);
  return rows * layer.row_bytes;
}

// Frames of the second and the fourth layer, and the waiting result, may take turns where none holds padding.
void place(const polyconv_layer *const *l, Chain &p) {
  const int64_t result = up(p.results * 2, 16);
  int64_t end = place_frame(*l[1], kStrided[1], 0, p.layer[1]);
  const bool turns = !pads(*l[1]) && !pads(*l[3]);
  const int64_t fourth = turns ? 0 : end, beside = (kStrided[3].columns - 1) * kStrided[3].in * 2;
  // What is read beside the fourth frame's last row is not the result that is written meanwhile.
  const int64_t behind = fourth + place_frame(*l[3], kStrided[3], fourth, p.layer[3]) + beside;
  p.waiting = small(behind);
  end = std::max(end, behind + result);
  end += place_frame(*l[2], kStrided[2], end, p.layer[2]);
  end += place_input(*l[0], kStrided[0], end, p);
  p.image_bytes = small(up(end + 64, 16));
}

// ---------------------------------------------------------------- plan and offer

// The LeNet of strides: two warps an image.
struct Strided {
  using Chain = few::Chain;
  using Kernel = few::Kernel;
  static constexpr int layers = kLayers;
  static constexpr const char *name = "cuda-chain/tensor_few";

  // Everything but the pointers, with as many images as there is room for, but one at least.
  static Chain plan(const polyconv_request &request) {
    const polyconv_layer *const *l = request.layers;
    const polyconv_tensor &result = l[kLayers - 1]->result;
    Chain p;
    p.layers = kLayers;
    p.batch = small(l[0]->input.size[0]);
    for (int i = 0; i < 2; ++i) p.size[i] = small(l[0]->input.size[3 + i]);
    p.pairs = p.size[1] % 2 == 0;
    p.results = small(result.size[1] * result.size[3] * result.size[4]);
    const bool last = !sdk::channels_first(result);
    p.channel_step = small(last ? 1 : result.size[3] * result.size[4]);
    p.pixel_step = small(last ? result.size[1] : 1);
    for (int i = 0; i < kLayers; ++i) {
      Layer &layer = p.layer[i];
      layer.low = low_of(*l[i]), layer.high = high_of(*l[i]);
      layer.rows = small(l[i]->output.size[3]), layer.columns = small(l[i]->output.size[4]);
      layer.results = small(l[i]->output.size[1]);
      for (int axis = 0; axis < 2; ++axis) layer.pad[axis] = small(l[i]->pad_begin[1 + axis]);
      layer.blocks = kStrided[i].blocks();
    }
    place(l, p);
    p.teams =
        small(std::clamp<int64_t>((chain::most_shared(request) - p.common_bytes()) / p.image_bytes, 1, kMostTeams));
    return p;
  }

  static bool takes(const polyconv_request &request, sdk::Offer &offer) {
    for (int i = 0; i < kLayers; ++i)
      if (!takes_shape(*request.layers[i], kStrided[i], i, offer)) return false;
    if (!takes_ends(request, offer)) return false;
    const int64_t pixels = sdk::spatial(request.layers[0]->input);
    return pixels <= kMostPixels ||
           offer.reject("layer 0: takes images of %d pixels, not of %" PRId64, kMostPixels, pixels);
  }

  static void tell(const Chain &p, sdk::Offer &offer) {
    for (int i = 0; i < kLayers; ++i) {
      char format[POLYCONV_FORMAT_SIZE];
      std::snprintf(format, sizeof format, "cuda_chain_few_%d_%d:1", kStrided[i].in, kStrided[i].out);
      offer.set_weights(i, format, packed_bytes(kStrided[i]));
    }
    // Full rounds of a multiprocessor, and one with fewer images. Fitted to batches of 1 to 10000 on an H200.
    const int64_t images = ceil_div(p.batch, offer.blocks), rest = images % p.teams;
    offer.estimate_us = 4.5 + 1.4 * real(images - rest) + (rest > 0 ? 5.4 + 0.6 * real(rest) : 0.0);
    offer.occupancy = static_cast<float>(p.teams * kTeam) / 2048;
    offer.say("two warps an image, %d bytes each", p.image_bytes);
  }

  static Kernel find(int32_t type) { return find_strided(type); }
  static void pack(const polyconv_layer &l, int layer, const void *raw, void *packed, cudaStream_t stream) {
    few::pack(l, kStrided[layer], raw, packed, stream);
  }
  static void without_pairs(Chain &p) { p.pairs = 0; }
  static int blocks(const Chain &p, int multiprocessors) { return std::clamp(p.batch, 1, multiprocessors); }
  static int threads(const Chain &p) { return p.teams * kTeam; }
  static int64_t shared_bytes(const Chain &p) { return p.shared_bytes(); }
};

constexpr const char *kConfigs[] = {"warps2"};

} // namespace

POLYCONV_DEFINE_KERNEL(tensor_few, kConfigs, images_supports<Strided>, instance_of<Images<Strided>>);

} // namespace polyconv::cuda
