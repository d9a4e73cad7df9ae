// parts.hpp - the gradient of weights of f32 factors in parts, as the host sees it: both factors are
// copied as two or three planes of bf16 each, dense with channels last, which wgmma_weights' maps fetch side by side.
// Three parts and six products give f32 (bf16_parts.cuh), two parts and three products more than TF32.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "weights/weights.hpp"

namespace polyconv::cuda::wgmma {

#define POLYCONV_WGMMA_WEIGHTS_PARTS_TILES(tile) tile(128, 2, 2, 1, 32, kAlone) tile(64, 4, 1, 2, 32, kAlone)
inline constexpr WeightsShape kPartsShapes[] = {POLYCONV_WGMMA_WEIGHTS_PARTS_TILES(POLYCONV_WGMMA_WEIGHTS_SHAPE)};
inline constexpr const char *kPartsNames[] = {"128x128", "64x256"};
inline constexpr int kPartsShapeCount = sizeof kPartsShapes / sizeof *kPartsShapes;

WeightsLauncher weights_parts(int shape, int parts);

// Copies a tensor of f32, channels last, as planes of parts one after the other.
void split(const polyconv_tensor &t, const void *from, int parts, void *to, cudaStream_t stream);

// How a kernel splits factors, and the math mode that allows it.
struct Splitting {
  int parts;
  int32_t math;
  const char *name; // of the math mode
};

bool supports_weights_parts(const polyconv_request &request, int32_t config, const Splitting &splitting,
                            sdk::Offer &offer);
std::unique_ptr<sdk::Instance> create_weights_parts(const polyconv_request &request, int32_t config, int parts);

template <const Splitting &How>
constexpr sdk::Kernel weights_of_parts(const char *name) {
  return {
      name,
      0,
      kPartsNames,
      kPartsShapeCount,
      [](const polyconv_request &request, int32_t config, sdk::Offer &offer) {
        return supports_weights_parts(request, config, How, offer);
      },
      [](const polyconv_request &request, int32_t config) { return create_weights_parts(request, config, How.parts); }};
}

} // namespace polyconv::cuda::wgmma
