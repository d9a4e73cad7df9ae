// wgmma_emulated.cu - the Hopper product's kernels for f32 in parts, and its packed weights: three planes of bf16, each
// filters x taps x channels in whole blocks of depth, the 32 channels of a block in the order in which the threads of
// a quad read activations.
// SPDX-License-Identifier: Apache-2.0
#include "common/instance.hpp"
#include "wgmma_emulated.cuh"
#include "wgmma_emulated.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

int64_t whole_blocks(int64_t channels) {
  return (channels + 31) / 32 * 32;
}

// Where the parts of channel c lie: of each 8 channels one thread's, first 4 of the first product, then of the second;
// of those two in its columns from 0 on, two in those from 8 on.
__device__ int64_t place_of(int64_t c) {
  const int64_t quad = c % 32 / 8, product = c % 8 / 4;
  return c / 32 * 32 + product * 16 + c % 4 / 2 * 8 + quad * 2 + c % 2;
}

struct PackedParts {
  int64_t row, plane; // elements of a tap's channels, of a part

  explicit PackedParts(const polyconv_layer &l)
      : row(whole_blocks(l.weights.size[1])), plane(row * sdk::taps(l) * l.weights.size[0]) {}
};

__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> weights, const float *raw, const PackedParts parts, __nv_bfloat16 *packed) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < parts.plane; i += step) {
    const int64_t c = i % parts.row;
    Place<int64_t> at = weights.along_c(i / parts.row * weights.size[1]);
    at.c = c;
    const float v = c < weights.size[1] ? raw[weights.at(at)] : 0.0f;
    for (int part = 0; part < kParts; ++part)
      packed[part * parts.plane + i - c + place_of(c)] = tensor::part_of(v, part);
  }
}

__device__ float sum_at(const Conv<int64_t> &p, const float *input, const __nv_bfloat16 *weights,
                        const PackedParts &parts, const Place<int64_t> &o) {
  weights += o.c * p.weights.size[2] * p.weights.size[3] * p.weights.size[4] * parts.row;
  float sum = 0;
  for (int64_t t = 0; t < p.weights.size[2]; ++t)
    for (int64_t r = 0; r < p.weights.size[3]; ++r)
      for (int64_t s = 0; s < p.weights.size[4]; ++s, weights += parts.row) {
        const int64_t d = p.source(0, o.d, t), h = p.source(1, o.h, r), w = p.source(2, o.w, s);
        const bool inside = d >= 0 && h >= 0 && w >= 0;
        const float *const pixel = input + (inside ? p.input.at(o.n, 0, d, h, w) : 0);
        for (int64_t c = 0; c < p.weights.size[1]; ++c) {
          const __nv_bfloat16 *const part = weights + place_of(c);
          float weight = value(part[0]);
          if (fabsf(weight) < INFINITY) weight += value(part[parts.plane]) + value(part[2 * parts.plane]);
          sum += (inside ? pixel[c] : 0.0f) * weight;
        }
      }
  return sum;
}

__global__ void __launch_bounds__(kThreads, 1)
    multiply(const Conv<int64_t> p, const float *input, const __nv_bfloat16 *weights, const PackedParts parts,
             void *result, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> o = p.output.along_c(i);
    finish_and_store(p, result, sum_at(p, input, weights, parts, o), o);
  }
}

} // namespace

int64_t parts_bytes(const polyconv_layer &l) {
  return PackedParts(l).plane * kParts * 2;
}

void pack_parts(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  const PackedParts parts(l);
  if (parts.plane == 0) return;
  pack<<<blocks_for(parts.plane, kThreads), kThreads, 0, stream>>>(
      View<int64_t>(l.weights), static_cast<const float *>(raw), parts, static_cast<__nv_bfloat16 *>(packed));
  check_launch("cuda-tensor's packing");
}

void multiply_unaligned_parts(const polyconv_layer &l, const polyconv_arguments &a, cudaStream_t stream) {
  const int64_t count = sdk::elements(l.output);
  multiply<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      Conv<int64_t>(l, a), static_cast<const float *>(a.input), static_cast<const __nv_bfloat16 *>(a.weights[0]),
      PackedParts(l), a.output, count);
  check_launch("cuda-tensor's wgmma_emulated, with an input that is not aligned");
}

// In the order of kEmulatedShapes.
Launcher product_emulated(int shape) {
#define POLYCONV_EMULATED_LAUNCHER(pixels, channels, groups, teams, blocks) \
  &split_launcher<SplitTileOf<pixels, channels, groups, teams, blocks>>,
  static constexpr Launcher (*kLaunchers[])() = {POLYCONV_EMULATED_TILES(POLYCONV_EMULATED_LAUNCHER)};
#undef POLYCONV_EMULATED_LAUNCHER
  return kLaunchers[shape]();
}

} // namespace polyconv::cuda::wgmma
