// images.cuh - the kernel of images.hpp, one template over a net's list of layers (layer.cuh), which the warps of a
// team go through for one image after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/layer.cuh"

namespace polyconv::cuda::images {

// ---------------------------------------------------------------- images in and out

// An image of a team on its way in, by words: pairs of pixels of a row, or pixels.
template <int Which>
struct Coming {
  static constexpr int kThreads = Team<Which>::kThreads;
  uint32_t word[kHeldWords];

  // Words from `from` on, kThreads apart.
  __device__ void fetch(const Chain &p, int thread, int64_t image, int from = 0) {
    const int pixels = p.size[0] * p.size[1], words = p.pairs ? pixels / 2 : pixels;
    const auto *const pixel = static_cast<const uint16_t *>(p.input) + image * pixels;
#pragma unroll
    for (int i = 0; i < kHeldWords; ++i) {
      const int k = min(from + thread + i * kThreads, words - 1);
      word[i] = p.pairs ? reinterpret_cast<const uint32_t *>(pixel)[k] : pixel[k];
    }
  }
  // Into both copies.
  __device__ void arrive(const Chain &p, int thread, uint32_t memory, int from = 0) const {
    const Layer &l = p.layer[0];
    const int row_words = p.pairs ? p.size[1] / 2 : p.size[1], words = p.size[0] * row_words;
    memory += l.frame + l.pad[0] * l.row_bytes + l.left * 2;
#pragma unroll
    for (int i = 0; i < kHeldWords; ++i) {
      const int k = from + thread + i * kThreads, y = p.by_words(k);
      if (k >= words) break;
      const uint32_t to = memory + y * l.row_bytes + (k - y * row_words) * (p.pairs ? 4 : 2);
      if (p.pairs)
        ptx::store_word(to, word[i]), ptx::store_element(to + l.second, word[i] >> 16);
      else
        ptx::store_element(to, word[i]);
      ptx::store_element(to + l.second - 2, word[i] & 0xffff);
    }
  }
  // All of an image.
  __device__ void bring(const Chain &p, int thread, uint32_t memory, int64_t image) {
    const int words = p.size[0] * p.size[1] / (p.pairs ? 2 : 1);
#pragma unroll 1
    for (int from = 0; from < words; from += kHeldWords * kThreads)
      fetch(p, thread, image, from), arrive(p, thread, memory, from);
  }
};

// A result that waits in shared memory, into memory.
template <int Which>
__device__ inline void send(const Chain &p, int thread, uint32_t waiting, int64_t image) {
  uint16_t *const to = static_cast<uint16_t *>(p.result) + image * p.results;
  const bool words = p.results % 2 == 0 && reinterpret_cast<uintptr_t>(p.result) % 4 == 0;
  const int count = words ? p.results / 2 : p.results;
#pragma unroll 1
  for (int i = thread; i < count; i += Team<Which>::kThreads) {
    if (words)
      reinterpret_cast<uint32_t *>(to)[i] = ptx::load_settled(waiting + i * 4);
    else
      to[i] = static_cast<uint16_t>(ptx::load_settled(waiting + i / 2 * 4) >> i % 2 * 16);
  }
}

// ---------------------------------------------------------------- the kernel

// Bytes of shared memory before a layer's weights, and before its biases, which lie behind all weights.
template <int Which, int I>
inline constexpr int kWeightsAt = weight_words(kNets[Which], I) * 4;
template <int Which, int I>
inline constexpr int kBiasesAt = kWeightsAt<Which, kNets[Which].layers> + I *kBiases * 4;

template <int Which>
inline constexpr int kCommonBytes = common_bytes(kNets[Which]);

// What stays for all images: weights, biases, and zeros for padding.
template <int Which>
__device__ inline void fill(const Chain &p, unsigned char *shared) {
  constexpr int kLayers = kNets[Which].layers;
  const auto thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  auto *to = reinterpret_cast<uint32_t *>(shared);
#pragma unroll 1
  for (int i = 0; i < kLayers; ++i) {
    const int words = p.layer[i].words;
    for (int k = thread; k < words; k += threads) to[k] = static_cast<const uint32_t *>(p.layer[i].weights)[k];
    to += words;
  }
  for (int k = thread; k < kLayers * kBiases; k += threads) {
    const Layer &l = p.layer[k / kBiases];
    const int channel = k % kBiases;
    reinterpret_cast<float *>(to)[k] = l.bias != nullptr && channel < l.results ? l.bias[channel] : -0.0f;
  }
  for (int k = thread * 16; k < p.teams * p.image_bytes; k += threads * 16)
    *reinterpret_cast<uint4 *>(shared + kCommonBytes<Which> + k) = uint4{};
}

// Layer I and those behind it; `between` runs when the first one has read its input.
template <class T, int Which, int I, class Between>
__device__ __forceinline__ void run_layers(const Chain &p, const Team<Which> &team, uint32_t memory, uint32_t weights,
                                           const Between &between) {
  LayerOf<T, Which, I>::run(p, memory, weights + kWeightsAt<Which, I>, weights + kBiasesAt<Which, I>, team.thread / 32);
  team.sync();
  if constexpr (I == 0) between();
  if constexpr (I + 1 < kNets[Which].layers) run_layers<T, Which, I + 1>(p, team, memory, weights, between);
}

template <class T, int Which>
__global__ void __launch_bounds__(kNets[Which].most_teams *Team<Which>::kThreads, 1)
    fuse_images(const __grid_constant__ Chain p) {
  extern __shared__ __align__(16) unsigned char shared[];
  fill<Which>(p, shared);
  __syncthreads();
  const Team<Which> team;
  const uint32_t weights = shared_address(shared);
  const uint32_t memory = weights + kCommonBytes<Which> + team.index * p.image_bytes;
  const int step = static_cast<int>(gridDim.x) * p.teams;
  int image = team.index * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  if (image >= p.batch) return;
  Coming<Which> coming;
  coming.bring(p, team.thread, memory, image);
#pragma unroll 1
  for (; image < p.batch; image += step) {
    const bool more = image + step < p.batch;
    team.sync();
    if (p.held && more) coming.fetch(p, team.thread, image + step); // while the first layer takes few registers
    run_layers<T, Which, 0>(p, team, memory, weights, [&] {
      if (p.held && more) coming.arrive(p, team.thread, memory);
    });
    send<Which>(p, team.thread, memory + p.waiting, image);
    if (!p.held && more) coming.bring(p, team.thread, memory, image + step);
  }
}

template <int Which>
Kernel fused(int32_t type) {
  return of_half(type, [](auto t) -> Kernel { return fuse_images<decltype(t), Which>; });
}

} // namespace polyconv::cuda::images

#define POLYCONV_INSTANCE(net) template images::Kernel images::fused<net>(int32_t);
