// mma_pack.cu - weights as mma reads them, and what the host plans.
// SPDX-License-Identifier: Apache-2.0
#include "common/partials.cuh"
#include "common/rows.hpp"
#include "mma.hpp"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kThreads = 256;

int64_t element_bytes(int32_t type) {
  return type == POLYCONV_F32 ? 4 : 2;
}

// Channels of a chunk, chunks of a tap, rows of a block.
int64_t vector_of(const polyconv_layer &l) {
  return kChunk / element_bytes(l.weights.type);
}
int64_t chunks_of(const polyconv_layer &l) {
  return (l.weights.size[1] + vector_of(l) - 1) / vector_of(l);
}
int64_t rows_of(const polyconv_layer &l) {
  return (l.output.size[1] / l.groups + 7) / 8 * 8;
}

// Element i of the packed weights: group, block of k, channel, chunk, element; zeros behind the last of each.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const T *raw, T *packed, int64_t count, int32_t blocks, int32_t rows,
         int32_t chunks, int64_t group_out) {
  constexpr int vector = kChunk / sizeof(T), row = kRow / sizeof(T);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t channel = i / row % rows, block = i / row / rows, group = block / blocks;
    const int64_t chunk = block % blocks * kBlockChunks + i % row / vector;
    const int64_t c = chunk % chunks * vector + i % vector, tap = chunk / chunks;
    const int64_t w = tap % weights.size[4], h = tap / weights.size[4] % weights.size[3],
                  d = tap / weights.size[4] / weights.size[3];
    const bool there = channel < group_out && c < weights.size[1] && d < weights.size[2];
    packed[i] = there ? raw[weights.at(group * group_out + channel, c, d, h, w)] : T(0.0f);
  }
}

// Whether every window lies inside the image.
bool pads_nothing(const polyconv_layer &l) {
  for (int axis = 0; axis < 3; ++axis)
    if (l.pad_begin[axis] > 0 || l.pad_end[axis] > 0) return false;
  return true;
}

bool pads_zeros(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_ZERO || (l.pad_mode == POLYCONV_PAD_CONSTANT && l.pad_value == 0) ||
         pads_nothing(l);
}

// Whether a tensor's channels come in vectors of 16 bytes, were its pointer aligned to them.
bool has_vectors(const polyconv_tensor &t, int64_t group_channels) {
  const int64_t vector = 16 / element_bytes(t.type);
  if (t.stride[1] != 1 || group_channels % vector != 0 || t.offset % vector != 0) return false;
  for (const int axis : {0, 2, 3, 4})
    if (t.size[axis] > 1 && t.stride[axis] % vector != 0) return false;
  return true;
}

bool is_aligned(const void *p) {
  return reinterpret_cast<uintptr_t>(p) % 16 == 0;
}

} // namespace

int64_t mma_blocks(const polyconv_layer &l) {
  return (chunks_of(l) * sdk::taps(l) + kBlockChunks - 1) / kBlockChunks;
}

int64_t mma_packed_bytes(const polyconv_layer &l) {
  return l.groups * mma_blocks(l) * rows_of(l) * kRow;
}

const char *mma_packed_format(const polyconv_layer &) {
  return "cuda_tensor_mma:1";
}

void mma_pack(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const int64_t count = mma_packed_bytes(l) / element_bytes(l.weights.type);
  if (count == 0) return;
  const auto go = [&](auto zero) {
    using T = decltype(zero);
    pack<T><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(l.weights), static_cast<const T *>(raw), static_cast<T *>(packed), count,
        static_cast<int32_t>(mma_blocks(l)), static_cast<int32_t>(rows_of(l)), static_cast<int32_t>(chunks_of(l)),
        l.output.size[1] / l.groups);
  };
  if (l.weights.type == POLYCONV_F16)
    go(__half());
  else
    go(__nv_bfloat16());
  check_launch("cuda-tensor/mma's packing");
}

MmaProduct make_mma_product(const polyconv_layer &l, const polyconv_arguments &a) {
  MmaProduct p = {make_implicit(l, a)};
  p.input = static_cast<const char *>(a.input) + l.input.offset * element_bytes(l.input.type);
  p.blocks = static_cast<int32_t>(mma_blocks(l));
  p.chunks = static_cast<int32_t>(chunks_of(l));
  p.weights_rows = static_cast<int32_t>(rows_of(l));
  p.whole_vectors = p.conv.channels_inner && has_vectors(l.result, p.group_out) && is_aligned(a.output);
  return p;
}

Source preferred_source(const polyconv_layer &l) {
  const bool few_taps = l.weights.size[2] + l.weights.size[3] + l.weights.size[4] <= 31; // a bit each
  return few_taps && pads_zeros(l) && has_vectors(l.input, l.weights.size[1]) ? Source::kVectors : Source::kGathered;
}

double mma_us(const polyconv_layer &l, int tile, Source source, int splits) {
  constexpr double kMultiprocessors = 132;
  const auto parts = [](int64_t count, int64_t of) { return static_cast<double>((count + of - 1) / of); };
  const MmaShape &shape = kMmaShapes[tile];
  const double tiles = parts(l.output.size[0] * sdk::spatial(l.output), shape.pixels) *
                       parts(l.output.size[1] / l.groups, shape.channels) * static_cast<double>(l.groups);
  const double blocks = std::ceil(static_cast<double>(mma_blocks(l)) / splits);
  const double rate = 450e6 / kMultiprocessors * (source == Source::kGathered ? 0.5 : 1); // operations a microsecond
  const double flops = 2.0 * shape.pixels * shape.channels * 32 * (blocks + 6);
  const double waves = std::ceil(tiles * splits / kMultiprocessors);
  const double efficiency = shape.pixels * shape.channels >= 128 * 128 ? 1 : shape.pixels == 128 ? 0.8 : 0.6;
  const double bytes = static_cast<double>(sdk::elements(l.input) + sdk::elements(l.output)) * 2;
  const double partials = splits == 1 ? 0 : 2.8 + static_cast<double>(partials_bytes(l, splits)) / 2.2e6;
  return 4.2 + std::max(waves * flops / (rate * efficiency), bytes / 3.5e6) + partials;
}

} // namespace polyconv::cuda::tensor
