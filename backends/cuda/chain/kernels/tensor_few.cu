// tensor_few.cu - the LeNet of strides in place of pooling, f16 and bf16: four layers of few channels in one kernel, an
// image a warp, everything between the layers in its shared memory.
//
// Floor: the products, most of which are zeros that fill up matrices: about 490 m16n8k16 for an image of 28 x 28. Input
// and result take a sixth of that time.
// SPDX-License-Identifier: Apache-2.0
#include "tensor_few.hpp"

#include "tensor_layers.hpp"

namespace polyconv::cuda {
namespace {

using namespace few;
using namespace halves;

// ---------------------------------------------------------------- what it takes

bool takes(const polyconv_layer &l, const Shape &shape, int index, sdk::Offer &offer) {
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
  p.warp_bytes = small(up(end + 64, 16));
}

// Everything but the pointers, with as many warps as there is room for, but one at least.
void make_chain(const polyconv_layer *const *l, int64_t most_shared, Chain &p) {
  p = {};
  const polyconv_tensor &result = l[kLayers - 1]->result;
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
  const int64_t room = std::min(most_shared, kMostShared);
  p.warps = small(std::clamp<int64_t>((room - p.common_bytes()) / p.warp_bytes, 1, kMostWarps));
}

// ---------------------------------------------------------------- plan and run

class Few final : public sdk::Instance {
 public:
  explicit Few(const polyconv_request &request) : device_(request.policy->device_index) {
    for (int i = 0; i < kLayers; ++i) layers_[i] = *request.layers[i];
    make_chain(request.layers, sdk::shared_memory_limit(*request.policy), chain_);
    kernel_ = find_strided(layers_[0].input.type);
    const DeviceScope scope(device_);
    check(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kMostShared)),
          "asking for shared memory");
    int multiprocessors = 0;
    check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device_),
          "counting multiprocessors");
    blocks_ = std::max(std::min(multiprocessors, chain_.batch), 1);
  }

  void pack(int layer, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    few::pack(layers_[layer], kStrided[layer], raw, packed, static_cast<cudaStream_t>(stream));
  }

  void run(const polyconv_arguments &a, void *stream) const override {
    if (sdk::elements(layers_[kLayers - 1].result) == 0) return;
    const DeviceScope scope(device_);
    Chain p = chain_;
    p.input = a.input, p.result = a.output;
    p.pairs = p.pairs && reinterpret_cast<uintptr_t>(a.input) % 4 == 0;
    for (int i = 0; i < kLayers; ++i) {
      p.layer[i].weights = a.weights[i];
      if (layers_[i].epilogue.has_bias) p.layer[i].bias = static_cast<const float *>(a.bias[i]);
    }
    kernel_<<<static_cast<unsigned>(blocks_), p.warps * 32, static_cast<size_t>(p.shared_bytes()),
              static_cast<cudaStream_t>(stream)>>>(p);
    check_launch("cuda-chain/tensor_few");
  }

 private:
  const int device_;
  polyconv_layer layers_[kLayers] = {};
  Chain chain_;
  Kernel kernel_ = nullptr;
  int blocks_ = 0;
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != kLayers) return offer.reject("fuses %d layers, not %d", kLayers, request.count);
  for (int i = 0; i < kLayers; ++i)
    if (!takes(*request.layers[i], kStrided[i], i, offer)) return false;
  if (!takes_ends(request, offer)) return false;
  const polyconv_tensor &input = request.layers[0]->input;
  if (sdk::spatial(input) > kMostPixels)
    return offer.reject("layer 0: takes images of %d pixels, not of %" PRId64, kMostPixels, sdk::spatial(input));
  Chain p;
  make_chain(request.layers, sdk::shared_memory_limit(*request.policy), p);
  if (!fits_shared(p.shared_bytes(), request, offer)) return false;
  for (int i = 0; i < kLayers; ++i) {
    char format[POLYCONV_FORMAT_SIZE];
    std::snprintf(format, sizeof format, "cuda_chain_few_%d_%d:1", kStrided[i].in, kStrided[i].out);
    offer.set_weights(i, format, packed_bytes(kStrided[i]));
  }
  const int64_t blocks = std::max(std::min(kMultiprocessors, p.batch), 1);
  const double rounds = std::ceil(static_cast<double>(p.batch) / static_cast<double>(blocks) / p.warps);
  offer.estimate_us = 6 + rounds * p.warps * 2.2; // an image of a multiprocessor
  offer.blocks = blocks, offer.threads = p.warps * 32, offer.shared_bytes = p.shared_bytes();
  offer.occupancy = static_cast<float>(p.warps) / 64;
  std::snprintf(offer.note, sizeof offer.note, "an image a warp, %d bytes each", p.warp_bytes);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<Few>(request);
}

constexpr const char *kConfigs[] = {"warp"};

} // namespace

extern const sdk::Kernel kernel_tensor_few;
const sdk::Kernel kernel_tensor_few = {"tensor_few", 0, kConfigs, 1, supports, create};

} // namespace polyconv::cuda
