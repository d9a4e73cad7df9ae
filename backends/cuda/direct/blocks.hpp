// blocks.hpp - what the kernels of cuda-direct share: block sizes as configs, and the estimate of a kernel that fetches
// every operand of every product through the caches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::direct {

inline constexpr int kBlockSizes[] = {32, 64, 128, 256};
inline constexpr const char *kBlockNames[] = {"32", "64", "128", "256"};
inline constexpr int kMaxThreads = 256; // with __launch_bounds__(kMaxThreads, 1): all registers, no spills

// The size of a config; -1 chooses: small blocks spread little work over more of the device.
inline int choose_block(int32_t config, int64_t threads, sdk::Offer &offer) {
  offer.config = config >= 0 ? config : threads < kHopperMultiprocessors * 1024 ? 1 : 3;
  return kBlockSizes[offer.config];
}

// Microseconds of a kernel in which one thread makes one result: its own cost (place, epilogue), that of each tap
// (borders, addresses) and that of each product; or, where threads are few, the wait of one for its taps and products,
// which follow each other. Fitted to three f32 layers on an H200 (64 channels, one channel, an image), it tells a
// fourth, depthwise, within 1 %; the waits to 12 small layers, pooled and not. For f64 the factor is an assumption.
// Where neighbouring threads have neighbouring channels, each reads weights of its own, a sector a product, which a
// multiprocessor gives one a clock: fitted to 1 x 1 layers of MobileNetV2 at batch 1.
inline double direct_us(const polyconv_layer &l, double results, double products) {
  const double per_result = products / std::max(1.0, results), taps = static_cast<double>(sdk::taps(l));
  const bool forward = l.direction == POLYCONV_FORWARD;
  const double channels = static_cast<double>(forward ? l.weights.size[sdk::kC] : l.weights.size[sdk::kK] / l.groups);
  const bool apart = forward && l.result.stride[1] == 1 && l.result.size[1] > 1 && l.weights.size[sdk::kC] > 1;
  const double picoseconds = 39.2 + per_result / channels * 1.88 + per_result * (apart ? 6 : 0.603);
  const double windows = forward ? results / std::max(1.0, real(sdk::elements(l.result))) : 1; // of pooling, a thread's
  const double waiting = forward ? windows * (0.1 * taps + (apart ? 0.05 : 0.03) * per_result) : 0.27 * taps;
  return 4 + std::max(results * picoseconds * 1e-6, waiting) * (l.sum_type == POLYCONV_F64 ? 2.5 : 1);
}

} // namespace polyconv::cuda::direct
