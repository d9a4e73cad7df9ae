// pack.cu - weights as mma reads them, and what the host plans but for costs.
// SPDX-License-Identifier: Apache-2.0
#include "bf16_parts.cuh"
#include "common/accepts.hpp"
#include "common/numbers.hpp"
#include "common/pieces.hpp"
#include "common/sums/partials.cuh"
#include "mma/fragments.cuh"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kThreads = 256;

// Channels of a chunk, chunks of a tap, rows of a block and bytes of such a row.
int64_t vector_of(Products products) {
  return products == Products::kHalf || products == Products::kBfloat ? 8 : 4;
}
int64_t chunks_of(const polyconv_layer &l, Products products) {
  return (l.weights.size[1] + vector_of(products) - 1) / vector_of(products);
}
int64_t rows_of(const polyconv_layer &l) {
  return (l.output.size[1] / l.groups + 7) / 8 * 8;
}
int64_t row_bytes(Products products) {
  return products == Products::kEmulated ? kSplitRow : kRow;
}

// How element `e` of a row of packed weights is made: from k of the block, by a conversion. Chunks are permuted as in
// slot().
template <class T>
struct Plain {
  using Stored = T;
  static constexpr int row = kRow / sizeof(T), vector = kChunk / sizeof(T);
  __device__ static int k_of(int e, int64_t channel) {
    return (e / vector ^ static_cast<int>(channel >> 1 & 3)) * vector + e % vector;
  }
  __device__ static T convert(T v, int) {
    if constexpr (sizeof(T) == 2)
      return v;
    else
      return __uint_as_float(rounded_to_tf32(__float_as_uint(v)) & 0xffffe000u);
  }
};

// Parts of 16 k each; see product_emulated.cu, also for their order.
struct Split {
  using Stored = __nv_bfloat16;
  static constexpr int row = kSplitRow / 2, vector = 4; // the channels of a chunk of activations
  __device__ static int k_of(int e, int64_t channel) {
    const int m = e % 16 ^ static_cast<int>(channel >> 2 & 1) * 8; // 2 t, 2 t + 1, 2 t + 8, 2 t + 9
    return m % 8 / 2 + m % 2 * 4 + m / 8 * 8;                      // t, t + 4, t + 8, t + 12
  }
  __device__ static __nv_bfloat16 convert(float v, int e) { return part_of(v, e / 16); }
};

// Element i of the packed weights: group, block of k, channel, element; zeros behind the last of each.
template <class As, class From>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const From *raw, typename As::Stored *packed, int64_t count, int32_t blocks,
         int32_t rows, int32_t chunks, int64_t group_out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int e = static_cast<int>(i % As::row);
    const int64_t channel = i / As::row % rows, block = i / As::row / rows, group = block / blocks;
    const int k = As::k_of(e, channel);
    const int64_t chunk = block % blocks * kBlockChunks + k / As::vector;
    const int64_t c = chunk % chunks * As::vector + k % As::vector, tap = chunk / chunks;
    const int64_t w = tap % weights.size[4], h = tap / weights.size[4] % weights.size[3],
                  d = tap / weights.size[4] / weights.size[3];
    const bool there = channel < group_out && c < weights.size[1] && d < weights.size[2];
    packed[i] = As::convert(there ? raw[weights.at(group * group_out + channel, c, d, h, w)] : From(0.0f), e);
  }
}

// Whether a bit for each tap along the axes fits in 31, and what a tap adds to a window: as the tensor is, and dense
// with the channels last.
bool taps_fit(const polyconv_layer &l) {
  const auto real = [](int64_t v) { return static_cast<double>(v); };
  double now = 0, then = 0, dense = real(l.input.size[1]);
  for (int axis = 2; axis >= 0; --axis) {
    const double reach = real(l.weights.size[2 + axis] - 1) * real(l.dilation[axis]);
    now += reach * std::fabs(real(l.input.stride[2 + axis]));
    then += reach * dense;
    dense *= real(l.input.size[2 + axis]);
  }
  return l.weights.size[2] + l.weights.size[3] + l.weights.size[4] <= 31 && std::max(now, then) < 1 << 30;
}

// Whether channels come in pieces of so many bytes.
bool has_pieces(const polyconv_tensor &t, int64_t group_channels, int64_t bytes) {
  return in_pieces(t, std::max<int64_t>(bytes / sdk::type_bytes(t.type), 1), group_channels);
}

// Whether the pixels of a tensor lie evenly spaced, image after image.
bool evenly_spaced(const polyconv_tensor &t) {
  int64_t next = t.stride[4] * t.size[4];
  for (const int axis : {3, 2, 0}) {
    if (t.size[axis] > 1 && t.stride[axis] != next) return false;
    next *= t.size[axis];
  }
  return true;
}

// Whether outputs are inputs of the same place, and both lie as one row of pixels, which then needs no division.
bool is_one_row(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis)
    if (l.weights.size[2 + axis] != 1 || l.stride[axis] != 1 || l.pad_begin[axis] != 0 ||
        l.input.size[2 + axis] != l.output.size[2 + axis])
      return false;
  const int64_t pixels = l.output.size[0] * sdk::spatial(l.output);
  return evenly_spaced(l.input) && evenly_spaced(l.result) && real(pixels) * real(l.input.stride[4]) < 1 << 30 &&
         (l.epilogue.residual_from == POLYCONV_RESIDUAL_NONE || evenly_spaced(l.residual)) &&
         (l.save == POLYCONV_SAVE_NONE || evenly_spaced(l.saved));
}

} // namespace

int64_t mma_blocks(const polyconv_layer &l, Products products) {
  return (chunks_of(l, products) * sdk::taps(l) + kBlockChunks - 1) / kBlockChunks;
}

int64_t mma_packed_bytes(const polyconv_layer &l, Products products) {
  return l.groups * mma_blocks(l, products) * rows_of(l) * row_bytes(products);
}

const char *mma_packed_format(Products products) {
  switch (products) {
    case Products::kTf32: return "cuda_tensor_mma_tf32:1";
    case Products::kEmulated: return "cuda_tensor_mma_emulated:1";
    default: return "cuda_tensor_mma:1";
  }
}

void mma_pack(const polyconv_layer &l, Products products, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t elements = row_bytes(products) / (products == Products::kTf32 ? 4 : 2);
  const int64_t count = l.groups * mma_blocks(l, products) * rows_of(l) * elements;
  if (count == 0) return;
  const auto go = [&](auto as, auto zero) {
    using As = decltype(as);
    using From = decltype(zero);
    pack<As, From><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(l.weights), static_cast<const From *>(raw), static_cast<typename As::Stored *>(packed), count,
        static_cast<int32_t>(mma_blocks(l, products)), static_cast<int32_t>(rows_of(l)),
        static_cast<int32_t>(chunks_of(l, products)), l.output.size[1] / l.groups);
  };
  switch (products) {
    case Products::kHalf: go(Plain<__half>(), __half()); break;
    case Products::kBfloat: go(Plain<__nv_bfloat16>(), __nv_bfloat16()); break;
    case Products::kTf32: go(Plain<float>(), 0.0f); break;
    case Products::kEmulated: go(Split(), 0.0f); break;
  }
  check_launch("cuda-tensor/mma's packing");
}

MmaProduct make_mma_product(const polyconv_layer &l, Products products, const polyconv_arguments &a) {
  MmaProduct p = {make_implicit(l, a)};
  p.input = begin_of(l.input, a.input);
  p.blocks = static_cast<int32_t>(mma_blocks(l, products));
  p.chunks = static_cast<int32_t>(chunks_of(l, products));
  p.weights_rows = static_cast<int32_t>(rows_of(l));
  if (is_one_row(l)) {
    p.in[0] = p.in[1] = p.out[0] = p.out[1] = 1;
    p.in[2] = p.out[2] = small(p.pixels);
  }
  p.whole_vectors = p.conv.channels_inner && has_pieces(l.result, p.group_out, 16) && aligned(a.output, 16);
  return p;
}

// Elements of 4 bytes are words wherever they lie.
Source unaligned_source(const polyconv_layer &l) {
  if (!taps_fit(l) || !pads_zeros(l) || l.input.stride[1] != 1) return Source::kGathered;
  return sdk::type_bytes(l.input.type) == 4 ? Source::kWords : Source::kShifted;
}

Source converted_source(const polyconv_layer &l, Products products) {
  if (!taps_fit(l) || !pads_zeros(l)) return Source::kGathered;
  if (l.weights.size[1] % vector_of(products) == 0) return Source::kVectors;
  return l.weights.size[1] * sdk::type_bytes(l.input.type) % 4 == 0 ? Source::kWords : Source::kShifted;
}

Source preferred_source(const polyconv_layer &l, Products products) {
  const Source dense = converted_source(l, products), least = unaligned_source(l);
  if (least == Source::kGathered) return least;
  if (dense == Source::kVectors && has_pieces(l.input, l.weights.size[1], kChunk)) return dense;
  return has_pieces(l.input, l.weights.size[1], 4) ? Source::kWords : least;
}

} // namespace polyconv::cuda::tensor
