// mma_grouped.cu - forward, f16, bf16 and f32 under math tf32, channels last in two dimensions: groups of 4, 8, 16, 24
// or 32 channels, as many out as in, or 8 and 16, with a bias and a relu at most. The general product (mma.cpp) would
// multiply tiles of 64 channels, of which a group has 8; here an instruction multiplies the 8 of one group, or of two
// groups of 4 of 16 bits, and every input is read once, whatever the number of taps.
//
// Floor: input and output once; 2 N K P Q C R S is far below the machine's rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "common/pieces.hpp"
#include "grouped/grouped.cuh"
#include "mma/product.hpp"

namespace polyconv::cuda {
namespace {

using namespace tensor;

// Three blocks share a multiprocessor, or two where weights and windows of a group are many.
constexpr int32_t kMostShared = 75 << 10, kMostSharedByTwo = 112 << 10;

// ---------------------------------------------------------------- tiles

// Groups of 4 channels of 16 bits come in pairs (grouped.cuh).
bool in_pairs(const polyconv_layer &l) {
  return l.weights.size[1] == 4 && sdk::type_bytes(l.input.type) == 2;
}

// Groups that warps have, each of whole tiles of 8 channels out.
int64_t groups_of_slice(const polyconv_layer &l, int64_t slice) {
  return slice / (in_pairs(l) ? 8 : l.weights.size[1]);
}

// The geometry of a layer with tiles of `height` x `width` outputs.
GroupedProduct make_product(const polyconv_layer &l, int64_t height, int64_t width) {
  GroupedProduct p;
  p.in_image = l.input.stride[0], p.out_image = l.result.stride[0];
  p.in_row = small(l.input.stride[3]), p.in_pixel = small(l.input.stride[4]);
  p.out_row = small(l.result.stride[3]), p.out_pixel = small(l.result.stride[4]);
  const int64_t tile[2] = {height, width};
  for (int i = 0; i < 2; ++i) {
    p.in[i] = small(l.input.size[3 + i]), p.out[i] = small(l.output.size[3 + i]);
    p.taps[i] = small(l.weights.size[3 + i]), p.stride[i] = small(l.stride[1 + i]);
    p.dilation[i] = small(l.dilation[1 + i]), p.pad[i] = small(l.pad_begin[1 + i]);
    p.tile[i] = small(tile[i]);
    p.patch[i] = small((tile[i] - 1) * l.stride[1 + i] + (l.weights.size[3 + i] - 1) * l.dilation[1 + i] + 1);
    p.tiles[i] = (p.out[i] + p.tile[i] - 1) / p.tile[i];
  }
  p.run = small(ceil_div(p.patch[1], p.stride[1])), p.row = p.run * std::min(p.stride[1], p.patch[1]);
  const int64_t bytes = sdk::type_bytes(l.input.type);
  p.slice = slice_channels(l.weights.size[1], bytes);
  p.slices = small(ceil_div(l.input.size[1], p.slice));
  p.out_slice = small(p.slice / l.weights.size[1] * (l.output.size[1] / l.groups));
  p.position = position_bytes(p.slice, bytes), p.out_position = position_bytes(p.out_slice, bytes);
  p.channels = small(l.input.size[1]), p.out_channels = small(l.output.size[1]), p.groups = small(l.groups);
  p.patches = small(l.output.size[0]) * p.tiles[0] * p.tiles[1];
  p.chunks = small(sdk::taps(l) * ceil_div(l.weights.size[1] * bytes, kChunk));
  const int64_t out = in_pairs(l) ? 8 : l.output.size[1] / l.groups;
  p.weights_bytes = small(p.blocks() * groups_of_slice(l, p.slice) * ceil_div(out, 8) * 8 * kRow);
  p.relu = l.epilogue.activation == POLYCONV_ACT_RELU;
  return p;
}

// Whether warps march down the patches of a layer: 3 x 3 taps a step apart, and rows that fill most of 16 pixels.
bool marches(const polyconv_layer &l, int64_t width) {
  for (int axis = 1; axis < 3; ++axis)
    if (l.weights.size[2 + axis] != 3 || l.stride[axis] != 1 || l.dilation[axis] != 1) return false;
  return l.weights.size[1] * sdk::type_bytes(l.input.type) <= 32 && (width + 15) / 16 * 16 <= width * 3 / 2;
}

// Pixels that a patch takes the time of: the warps of a group share its units of 16, and all wait for the last.
int32_t multiplied_pixels(const polyconv_layer &l, const GroupedProduct &p) {
  const int64_t shares = kGroupedThreads / 32 / groups_of_slice(l, p.slice);
  return small(ceil_div(ceil_div(p.tile_pixels(), 16), shares) * shares * 16);
}

// Work of all blocks: positions that are copied, and pixels that instructions multiply or load windows for.
double work_of(const polyconv_layer &l, const GroupedProduct &p) {
  const int32_t pixels = p.marches ? (p.tile[1] + 15) / 16 * 16 * (p.tile[0] + 2) : multiplied_pixels(l, p) * 2;
  return 1.0 * p.tiles[0] * p.tiles[1] * (p.positions() + pixels + 32);
}

} // namespace

namespace tensor {

Products grouped_type(const polyconv_layer &l) {
  return l.input.type == POLYCONV_BF16  ? Products::kBfloat
         : l.input.type == POLYCONV_F32 ? Products::kTf32
                                        : Products::kHalf;
}

int32_t most_grouped_shared(const polyconv_layer &l) {
  return l.weights.size[1] * sdk::type_bytes(l.input.type) < 48 ? kMostShared : kMostSharedByTwo;
}

GroupedProduct best_grouped(const polyconv_layer &l, bool may_march) {
  GroupedProduct best;
  for (int64_t i = 1; i <= 16; ++i)
    for (int64_t j = 1; j <= 8; ++j) {
      // An i-th of the image, or of 128 outputs where that is less.
      const int64_t height = std::clamp<int64_t>((l.output.size[3] + i - 1) / i, 1, 128 / i),
                    width = std::clamp<int64_t>((l.output.size[4] + j - 1) / j, 1, 128 / j);
      GroupedProduct p = make_product(l, height, width);
      p.marches = may_march && marches(l, width);
      const bool small = p.patch[0] <= 1024 && p.patch[1] <= 1024; // their product is
      if (small && p.shared_bytes() <= most_grouped_shared(l) &&
          (best.tile[0] == 0 || work_of(l, p) < work_of(l, best)))
        best = p;
    }
  return best;
}

} // namespace tensor

namespace {

// ---------------------------------------------------------------- launch

using GroupsKernel = void (*)(GroupedProduct);

template <class G, bool Pairs>
GroupsKernel one_of(bool marches) {
  if constexpr (G::chunks <= 2)
    if (marches) return convolve_groups<G, March<G, Pairs>>;
  return convolve_groups<G, AnyWindow<G, Pairs>>;
}

// NULL: none takes groups of so many channels.
GroupsKernel groups_kernel(const polyconv_layer &l, bool marches) {
  return of_groups(l,
                   [&](auto groups, auto pairs) { return one_of<decltype(groups), decltype(pairs)::value>(marches); });
}

// ---------------------------------------------------------------- plan and run

class Grouped final : public CudaInstance {
 public:
  explicit Grouped(const polyconv_request &request)
      : CudaInstance(request),
        product_(best_grouped(layer_, true)),
        kernel_(groups_kernel(layer_, product_.marches)),
        unaligned_(mma_launcher_of(grouped_type(layer_), k64x64, unaligned_source(layer_))) {
    const DeviceScope scope(device_);
    unaligned_.prepare();
    allow_shared(kernel_, most_grouped_shared(layer_));
    const int multiprocessors = multiprocessors_of(device_);
    int together = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&together, kernel_, kGroupedThreads,
                                                        static_cast<size_t>(product_.shared_bytes())),
          "counting blocks of a multiprocessor");
    // Blocks of a slice share out its patches: as many as run at once.
    blocks_ =
        product_.slices * std::clamp(multiprocessors * together / product_.slices, 1, std::max(product_.patches, 1));
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    mma_pack(layer_, grouped_type(layer_), raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    GroupedProduct p = product_;
    p.input = begin_of(layer_.input, a.input);
    p.result = begin_of(layer_.result, a.output);
    p.weights = a.weights[0];
    if (layer_.epilogue.has_bias) p.bias = static_cast<const float *>(a.bias[0]);
    const auto bits = reinterpret_cast<uintptr_t>(p.input) | reinterpret_cast<uintptr_t>(p.result);
    if (bits % kChunk == 0)
      multiply(p, stream);
    else // the same sums from the same weights
      unaligned_.launch(make_mma_product(layer_, grouped_type(layer_), a), stream);
  }

  void multiply(const GroupedProduct &p, cudaStream_t stream) const {
    launch_waiting(kernel_, static_cast<unsigned>(blocks_), kGroupedThreads, static_cast<size_t>(p.shared_bytes()),
                   stream, p);
  }

  const GroupedProduct product_;
  const GroupsKernel kernel_;
  const MmaLauncher unaligned_;
  int32_t blocks_ = 0;
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!mma_takes(request, grouped_type(*request.layers[0]), offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int64_t channels = l.weights.size[1];
  if (l.groups == 1 || !groups_kernel(l, false))
    return offer.reject("takes groups of 4, 8, 16, 24 or 32 channels in and out, or 8 and 16, not of %lld and %lld",
                        static_cast<long long>(channels), static_cast<long long>(l.output.size[1] / l.groups));
  if (in_pairs(l) && l.groups % 2 != 0) return offer.reject("takes groups of 4 channels of 16 bits in pairs");
  if (!takes_2d(l, offer)) return false;
  if (!bias_and_relu_at_most(l) || l.result.type != l.input.type)
    return offer.reject("ends with a bias and a relu at most, in the type of the input");
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  const int64_t bytes = sdk::type_bytes(l.input.type), vector = kChunk / bytes;
  if (!takes_channels_last(in_pieces(l.input, vector, 0) && in_pieces(l.result, vector, 0), offer,
                           "takes channels last, in vectors of 16 bytes"))
    return false;
  const GroupedProduct p = best_grouped(l, true);
  if (p.tile[0] == 0) return offer.reject("holds no patch of this window and these weights in shared memory");
  offer.set_weights(0, mma_packed_format(grouped_type(l)), mma_packed_bytes(l, grouped_type(l)));
  // Fitted to images of 7 to 56 on an H200, batch 128 and 1: bytes, or products.
  // Groups of 4 multiply as many zeros as channels, and so does what the last slice lacks. TF32 has half the channels
  // in an instruction. Patches overlap, most at strides: seven layers. Where warps do not march, each load of a window
  // is for one product of 8 channels, and half as many go by.
  const double copied = real(p.tiles[0]) * p.tiles[1] * p.positions() / (real(p.in[0]) * p.in[1]);
  const double overlap = l.stride[1] > 1 || l.stride[2] > 1 ? std::max(copied, 1.0) : 1;
  const double moved = real(bytes) * (real(sdk::elements(l.input)) * overlap + real(sdk::elements(l.output)));
  const double padded = (channels == 4 ? 2 : 1) * real(p.slices) * p.slice / real(l.input.size[1]);
  const double idle = p.marches ? 1 : std::max(1.0, 0.85 * multiplied_pixels(l, p) / p.tile_pixels());
  const double rate = p.marches || l.output.size[1] / l.groups > 8 ? 240e6 : 125e6;
  offer.estimate_us = 4 + std::max(moved / 2.1e6, sdk::flops(l) * padded * idle * real(bytes) / rate);
  return true;
}

constexpr const char *kConfigs[] = {"64"};

} // namespace

POLYCONV_DEFINE_KERNEL(mma_grouped, kConfigs, supports, instance_of<Grouped>);

} // namespace polyconv::cuda
