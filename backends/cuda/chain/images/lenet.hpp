// lenet.hpp - LeNet's two pooled layers on 28 x 28 pixels, two warps an image: how an image lies in their shared
// memory.
//
// The input lies as it is, padding around it. The pooled image between the layers lies in positions of eight channels,
// 16 bytes each, those that a matrix reads at once in all banks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "images/few.hpp"

namespace polyconv::cuda::lenet {

inline constexpr int kSize = 28, kBetween = kSize / 2, kSums = kBetween - 4, kOut = kSums / 2, kTaps = 5;
using few::kTeam;
inline constexpr int kMostTeams = 8; // of a block
inline constexpr few::Shape kShapes[2] = {{kTaps, kTaps, 1, 1, 8}, {kTaps, kTaps, 1, 8, 16}};

// Bytes of an image's shared memory. What is read beside a frame's last row is used by nobody, and written by nobody.
inline constexpr int kPosition = 16, kFrameRow = 16 * kPosition;
inline constexpr int kFrame = 0, kInput = kFrame + kBetween * kFrameRow + 4 * kPosition;
inline constexpr int kInputRow = 64, kInputRows = kSize + kTaps + 1; // two rows of loads ahead
inline constexpr int kWaiting = kInput + kInputRows * kInputRow + 32;
inline constexpr int kImageBytes = (kWaiting + 16 * kOut * kOut * 2 + 15) / 16 * 16;
// Of a block's: weights and biases of both layers, then the images.
inline constexpr int kFirstWords = kTaps * few::kBlockWords, kSecondWords = kTaps * kTaps * 2 * few::kBlockWords;
inline constexpr int kBiases = (kFirstWords + kSecondWords) * 4, kImages = kBiases + 2 * few::kBiases * 4;

struct Layer {
  const void *weights = nullptr; // packed
  const float *bias = nullptr;
  float low = 0, high = 0; // the activation's bounds
  int32_t results = 0;     // channels
};

struct Chain {
  const void *input = nullptr;
  void *result = nullptr;
  int32_t batch = 0, teams = 0;
  int32_t pairs = 1;                                     // whether images consist of aligned words
  int32_t results = 0, channel_step = 0, pixel_step = 0; // elements of an image's result
  Layer layer[2];
};

using Kernel = void (*)(Chain);
Kernel find(int32_t type);

} // namespace polyconv::cuda::lenet
