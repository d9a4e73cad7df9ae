// product_emulated.cu - f32 products on the matrix units: each factor is the sum of three bf16, x1 + x2 + x3, taken one
// after the other (bf16_parts.cuh), which is exact but for the last of 24 bits. Of the nine products the six of at
// least 2^-16 of the first are summed, smallest first: x2 w2, x1 w3, x3 w1, x1 w2, x2 w1, x1 w1. What is left out is
// below 2^-24 of the whole.
//
// The matrix units cut off what they add below the last bit of the largest term, always towards zero. Their sums
// of k are therefore added to f32 sums in registers after every four blocks (64 products), rounded to nearest.
//
// An infinite factor has NaN in its second part. Sums that are not finite are taken from a second pass over k that
// multiplies first parts alone: Inf and NaN are in those, and so is what a sum of them is. Only tiles with such sums
// make that pass.
//
// Six products of bf16 take the time of three of TF32, whose two parts hold 22 bits.
//
// Floor: 6 x 2 N K P Q C R S at the rate of mma.sync.
// SPDX-License-Identifier: Apache-2.0
#include "bf16_parts.cuh"
#include "mma/launch.cuh"

namespace polyconv::cuda::tensor {
namespace {

constexpr int kTerms = 3;
using EmulatedProducts = ProductsOf<float, kSplitRow>;

constexpr int kBlocksTogether = 4; // of k, which the matrix units sum

// The operands of a warp: activations split on the way from shared memory into three terms, weights when packed.
template <class Tile>
class SplitFragments {
  static constexpr int kPixels = Tile::warp_pixels / 16, kChannels = Tile::warp_channels / 16;
  using F = Frame<Tile, kSplitRow>;

 public:
  __device__ explicit SplitFragments(uint32_t stages) : a_at_(F::activations_at(stages)) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8 + lane / 16 * 8, chunk = lane / 8 % 2;
    b_at_ = stages + F::activations + (F::channel() + row) * kSplitRow + (chunk ^ (row >> 2 & 1)) * kChunk;
  }
  // The block in a stage; without `all` only the first parts.
  __device__ void multiply(MmaSums<Tile> &sums, int stage, bool all) const {
    uint32_t b[kTerms][kChannels][4];
#pragma unroll
    for (int part = 0; part < kTerms; ++part)
#pragma unroll
      for (int j = 0; j < kChannels; ++j) load_matrices(b[part][j], b_at_ + stage + j * 16 * kSplitRow + part * 32);
#pragma unroll
    for (int i = 0; i < kPixels; ++i) {
      uint32_t a[kTerms][4];
      load_parts(a, a_at_ + stage + i * 16 * kRow);
      if (all) {
        add_products(sums[i], a[1], b[1]);
        add_products(sums[i], a[0], b[2]);
        add_products(sums[i], a[2], b[0]);
        add_products(sums[i], a[0], b[1]);
        add_products(sums[i], a[1], b[0]);
      }
      add_products(sums[i], a[0], b[0]);
    }
  }

 private:
  // The parts of 16 x 16 activations. A lane gets k = t, t + 4, t + 8 and t + 12 of its rows where the instruction has
  // 2 t, 2 t + 1, 2 t + 8 and 2 t + 9; packed weights are in that order too.
  __device__ static void load_parts(uint32_t (&a)[kTerms][4], uint32_t address) {
    uint32_t bits[2][4];
    load_matrices(bits[0], address), load_matrices(bits[1], address ^ 32);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float first = __uint_as_float(bits[r / 2][r % 2]), second = __uint_as_float(bits[r / 2][r % 2 + 2]);
#pragma unroll
      for (int part = 0; part < kTerms; ++part) a[part][r] = take_part(first, second, part == 0);
    }
  }
  __device__ static void add_products(float (&sums)[2 * kChannels][4], const uint32_t (&a)[4],
                                      const uint32_t (&b)[kChannels][4]) {
#pragma unroll
    for (int j = 0; j < 2 * kChannels; ++j) multiply_add(sums[j], a, b[j / 2] + j % 2 * 2, __nv_bfloat16());
  }

  uint32_t a_at_, b_at_;
};

template <class Tile, class Body>
__device__ inline void for_sums(const Body &body) {
#pragma unroll
  for (int i = 0; i < Tile::warp_pixels / 16; ++i)
#pragma unroll
    for (int j = 0; j < Tile::warp_channels / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) body(i, j, e);
}

struct SplitLoop {
  template <class Tile, Source Kind>
  __device__ static void multiply(MmaSums<Tile> &sums, const MmaProduct &p, unsigned char *stages,
                                  const Corner &corner) {
    const SplitFragments<Tile> operands(static_cast<uint32_t>(__cvta_generic_to_shared(stages)));
    MmaSums<Tile> part = {};
    bool all = true;
#pragma unroll 1
    for (;;) {
      Pipeline<EmulatedProducts, Tile, Kind> pipeline(p, stages, corner);
#pragma unroll 1
      for (int32_t left = pipeline.blocks(); left > 0; --left) {
        pipeline.fetch(0);
        pipeline.fetch(1);
        operands.multiply(part, pipeline.now(), all);
        pipeline.turn();
        pipeline.deposit();
        if (all && left % kBlocksTogether == 1)
          for_sums<Tile>([&](int i, int j, int e) { sums[i][j][e] += part[i][j][e], part[i][j][e] = 0; });
      }
      pipeline.finish();
      if (!all) break;
      bool finite = true;
      for_sums<Tile>([&](int i, int j, int e) { finite = finite && fabsf(sums[i][j][e]) < INFINITY; });
      if (!__syncthreads_or(!finite)) return;
      all = false;
    }
    for_sums<Tile>([&](int i, int j, int e) {
      if (!(fabsf(sums[i][j][e]) < INFINITY)) sums[i][j][e] = part[i][j][e];
    });
  }
};

} // namespace

MmaLauncher mma_emulated(int tile, Source source) {
  // Warps of 32 x 64: each splits its activations, so that fewer along the channels split the same ones.
  return mma_by_spare_tile<SplitLoop, EmulatedProducts, MmaTile<128, 64, 32, 64, 4, 2>>(tile, source);
}

} // namespace polyconv::cuda::tensor
