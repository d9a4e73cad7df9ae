// launch.hpp - what a launch of cuda-texture's kernel is given, and how its instances are found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "objects.hpp"
#include "tiling.hpp"

namespace polyconv::cuda::texture {

inline constexpr int kMaxThreads = 128; // of a block

// How results leave: behind a bias and a relu at most a row of them at once, all else one after the other.
enum Store : int32_t { kStoreF32, kStoreF16, kStoreU8, kStoreAny };

struct Launch {
  Tiling tile;
  int32_t images_an_object; // linear
  Store store;
  int32_t bf16;   // of integer texels: they are the upper half of a float
  float scale[2]; // of coordinates across and down: 1, or 1 / size where they are normalised
  int32_t shared; // bytes of shared memory
};

using LaunchFunction = void (*)(const Conv<int32_t> &p, const Launch &launch, const Objects &objects, const void *w,
                                int32_t weights_type, void *y, cudaStream_t stream);

// How the input is read: see objects.hpp.
enum Path { kPlane, kLinear };

// What an instance of the kernel is chosen by.
struct Wanted {
  Path path;
  Patch patch;
  Store store;
  bool integers, one_channel;
};

// The instance, NULL where there is none. n is the filter's size, 0 any size at any stride and dilation.
template <int n>
LaunchFunction find_instance(const Wanted &wanted);

} // namespace polyconv::cuda::texture
