// pack.cu - weights as the Hopper products read them: one row of channels for each tap of each filter. Raw weights that
// lie so are read as they are where each run has new ones; others are packed.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/device/launch.hpp"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/ptx/grid.cuh"
#include "common/rows.hpp"
#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256, kSide = 64; // of a square of filters and channels

// Rows of one layer: of so many channels in memory, of which those from the layer's last one on are zeros.
struct Packing {
  View<int64_t> weights;
  void *packed = nullptr;
  int32_t row = 0, blocks = 0; // channels of a row; of the grid, those of the layers before it among them
  bool turns = false;          // filters are nearer to each other in raw weights than channels

  explicit Packing(const polyconv_layer &l)
      : weights(l.weights), row(small(packed_channels(l))), turns(l.weights.stride[0] < l.weights.stride[1]) {}
};
struct Packings {
  Packing of[kMostPacked];

  explicit Packings(const Packing &all) : of{all, all, all, all, all, all, all, all} {}
};

// A block packs a square of one tap. Neighbouring threads write neighbouring channels, and read what is nearest in raw
// weights.
template <class T>
__global__ void __launch_bounds__(kThreads) pack_squares(const __grid_constant__ Packings all, const T *raw) {
  constexpr int kPitch = kSide + 4 / int{sizeof(T)}; // of an odd number of words: columns lie in different banks
  __shared__ T square[kSide * kPitch];
  ptx::let_next_begin(), ptx::await_previous();
  auto block = static_cast<int32_t>(blockIdx.x);
  int which = 0;
  while (block >= all.of[which].blocks) ++which;
  if (which > 0) block -= all.of[which - 1].blocks;
  const Packing &p = all.of[which];
  const View<int64_t> &w = p.weights;
  const int32_t filters = (static_cast<int32_t>(w.size[0]) + kSide - 1) / kSide, rows = (p.row + kSide - 1) / kSide;
  const int32_t rest = block / filters, tap = rest / rows;
  const int32_t filter = (block - rest * filters) * kSide, channel = (rest - tap * rows) * kSide;
  const auto across = static_cast<int32_t>(threadIdx.x) % kSide, along = static_cast<int32_t>(threadIdx.x) / kSide;
  const auto taps = static_cast<int32_t>(w.size[2] * w.size[3] * w.size[4]);
  const auto s = static_cast<int32_t>(w.size[4]), r = static_cast<int32_t>(w.size[3]);
  const T *const from = raw + w.at(filter, channel, tap / s / r, tap / s % r, tap % s);
#pragma unroll
  for (int32_t i = along; i < kSide; i += kThreads / kSide) {
    const int32_t f = p.turns ? across : i, c = p.turns ? i : across;
    const bool there = filter + f < w.size[0] && channel + c < w.size[1];
    square[i * kPitch + across] = there ? from[f * w.stride[0] + c * w.stride[1]] : T(0);
  }
  __syncthreads();
  T *const to = static_cast<T *>(p.packed) + channel + across;
#pragma unroll
  for (int32_t i = along; i < kSide; i += kThreads / kSide)
    if (filter + i < w.size[0] && channel + across < p.row)
      to[(static_cast<int64_t>(filter + i) * taps + tap) * p.row] =
          p.turns ? square[across * kPitch + i] : square[i * kPitch + across];
}

// Begins at the end of what is ahead of it in the stream, and a kernel that begins early begins after that.
__global__ void barrier() {}

// The element of a weight in memory, without its value.
template <class Body>
void of_width(const polyconv_layer &l, Body &&body) {
  if (element_bytes(l) == 2)
    body(uint16_t{});
  else
    body(uint32_t{});
}

// What a map can step over.
bool is_step(const polyconv_layer &l, int64_t stride) {
  return stride > 0 && stride % (16 / element_bytes(l)) == 0 && stride < int64_t{1} << 37;
}

// Whether raw weights are rows of channels for each tap of each filter, taps equally far apart in their order.
bool has_weight_rows(const polyconv_layer &l) {
  const polyconv_tensor &w = l.weights;
  if (w.stride[1] != 1 && w.size[1] > 1) return false;
  const int64_t tap = raw_rows(l).tap;
  int64_t next = tap;
  for (int axis = 4; axis >= 2; next *= w.size[axis--])
    if (w.size[axis] > 1 && w.stride[axis] != next) return false;
  return is_step(l, tap) && is_step(l, w.stride[0]) && w.offset % (16 / element_bytes(l)) == 0;
}

// Whether they are rows of filters for each tap of each channel, taps in their order or in reverse, as gradients of
// data see them.
bool lies_across(const polyconv_layer &l) {
  const polyconv_tensor &w = l.weights;
  if (element_bytes(l) != 2 || l.groups != 1 || w.stride[0] != 1 || !is_step(l, w.stride[1])) return false;
  const AcrossBegin begin = across_begin(l);
  for (int axis = 2; axis < 5; ++axis)
    if (w.size[axis] > 1 && !is_step(l, begin.taps_reversed ? -w.stride[axis] : w.stride[axis])) return false;
  return begin.element % 8 == 0;
}

} // namespace

const char *packed_format(const polyconv_layer &l, bool fenced) {
  const bool f16 = l.input.type == POLYCONV_F16, bf16 = l.input.type == POLYCONV_BF16;
  if (fenced) return f16 ? "cuda_krsc_f16:2" : bf16 ? "cuda_krsc_bf16:2" : "cuda_krsc_f32:2";
  return f16 ? "cuda_krsc_f16_unfenced:2" : bf16 ? "cuda_krsc_bf16_unfenced:2" : "cuda_krsc_f32_unfenced:2";
}

int64_t packed_channels(const polyconv_layer &l) {
  const int64_t sector = 32 / element_bytes(l); // rows that begin within one take as many more
  return ceil_div(l.weights.size[1], sector) * sector;
}

WeightRows packed_rows(const polyconv_layer &l) {
  const int64_t channels = packed_channels(l);
  return {channels, channels, channels * sdk::taps(l)};
}

int64_t packed_bytes(const polyconv_layer &l) {
  return l.weights.size[0] * packed_rows(l).filter * element_bytes(l);
}

WeightRows raw_rows(const polyconv_layer &l) {
  const polyconv_tensor &w = l.weights;
  int64_t tap = w.stride[0]; // where there is one
  for (int axis = 2; axis < 5; ++axis)
    if (w.size[axis] > 1) tap = w.stride[axis];
  return {w.size[1], tap, w.stride[0]};
}

AcrossBegin across_begin(const polyconv_layer &l) {
  AcrossBegin begin = {l.weights.offset, false};
  for (int axis = 2; axis < 5; ++axis)
    if (l.weights.size[axis] > 1 && l.weights.stride[axis] < 0)
      begin.element += (l.weights.size[axis] - 1) * l.weights.stride[axis], begin.taps_reversed = true;
  return begin;
}

WeightsWay weights_way(const polyconv_request &request, bool takes_across) {
  const polyconv_layer &l = *request.layers[0];
  if (!sdk::has_new_weights(*request.policy) || l.weights.type != l.input.type) return WeightsWay::kPacked;
  if (has_weight_rows(l)) return WeightsWay::kRows;
  return takes_across && lies_across(l) ? WeightsWay::kAcross : WeightsWay::kPacked;
}

void offer_weights(const polyconv_request &request, WeightsWay way, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[0];
  if (way != WeightsWay::kPacked) return offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  offer.set_weights(0, packed_format(l, !sdk::has_new_weights(*request.policy)), packed_bytes(l));
}

void pack_new_weights(const PackedLayer *layers, int count, const void *raw, cudaStream_t stream) {
  Packings all{Packing(*layers[0].layer)};
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    const polyconv_layer &l = *layers[i].layer;
    Packing &p = all.of[i] = Packing(l);
    blocks += ceil_div(l.weights.size[0], kSide) * ceil_div(p.row, kSide) * sdk::taps(l);
    p.packed = layers[i].packed, p.blocks = small(blocks);
  }
  if (blocks == 0) return;
  of_width(*layers[0].layer, [&](auto element) {
    using T = decltype(element);
    launch_early(pack_squares<T>, dim3(static_cast<unsigned>(blocks)), kThreads, 0, stream, all,
                 static_cast<const T *>(raw));
  });
}

void fence_weights(cudaStream_t stream) {
  barrier<<<1, 1, 0, stream>>>();
  check_launch("the fence behind packed weights");
}

void pack_weights(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const PackedLayer layer = {&l, packed};
  pack_new_weights(&layer, 1, raw, stream);
  fence_weights(stream);
}

} // namespace polyconv::cuda::wgmma
