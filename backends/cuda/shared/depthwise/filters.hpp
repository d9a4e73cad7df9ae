// filters.hpp - the weights of depthwise layers, one filter a channel, as kernels that go from tap to tap want them:
// packed, every channel's by taps; or, where they are new in every run, in place, if they lie so, or raw, of which each
// block brings those of its channels into shared memory: they are few, and packing is a launch of its own and memory
// beside the weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/conv.cuh"
#include "common/divider.cuh"
#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"

namespace polyconv::cuda::shared {

// Raw filters lie one behind the other. Threads have chunks of some channels; a block has those of `staged` chunks,
// after the last channel's the first one's.
struct Filters {
  bool in_place = false; // they lie as packed ones do
  int32_t raw = 0;       // 1: they are staged; else the rest counts for nothing
  int32_t first = 0;     // element at which the first filter begins
  int32_t reversed = 0;  // 1: a filter begins with its last tap
  Divider taps;          // of a filter
  int32_t chunks = 0, staged = 0;
  int32_t room = 0; // bytes that those take
};

// What filters may take beside 48 KiB that a kernel has for good, of kLentShared.
inline constexpr int32_t kFilterRoom = 48 << 10;

inline bool begins_with_last_tap(const polyconv_tensor &w) {
  for (int axis = 2; axis < 5; ++axis)
    if (w.size[axis] > 1) return w.stride[axis] < 0;
  return false;
}

// Whether filters lie one behind the other, from the first tap to the last or the other way round.
inline bool are_in_a_row(const polyconv_tensor &w) {
  const int64_t next = begins_with_last_tap(w) ? -1 : 1;
  int64_t taps = 1;
  for (int axis = 4; axis >= 2; --axis) {
    if (w.size[axis] > 1 && w.stride[axis] != next * taps) return false;
    taps *= w.size[axis];
  }
  return w.size[1] == 1 && (w.size[0] == 1 || w.stride[0] == taps);
}

// Whether every channel's lie by taps already, as those of one tap do.
inline bool are_tap_by_tap(const polyconv_tensor &w) {
  int64_t next = w.size[0];
  for (int axis = 4; axis >= 2; --axis) {
    if (w.size[axis] > 1 && w.stride[axis] != next) return false;
    next *= w.size[axis];
  }
  return w.size[1] == 1 && (w.size[0] == 1 || w.stride[0] == 1);
}

// Those of a layer, of which nothing is known yet about blocks.
inline Filters filters_of(const polyconv_request &request) {
  const polyconv_tensor &w = request.layers[0]->weights;
  Filters f;
  if (!sdk::has_new_weights(*request.policy)) return f; // so that parts of a strided gradient are all packed
  if ((f.in_place = are_tap_by_tap(w)) || !are_in_a_row(w)) return f;
  const int64_t bytes = sdk::elements(w) * sdk::type_bytes(w.type);
  if (bytes > INT32_MAX || bytes % 4 != 0) return f; // two bytes at a time take longer than packing
  if (block_shared_bytes(request.policy->device_index) < kLentShared) return f;
  const auto taps = static_cast<int32_t>(sdk::taps(*request.layers[0]));
  f.raw = 1, f.taps = Divider::make(taps), f.reversed = begins_with_last_tap(w) ? 1 : 0;
  f.first = static_cast<int32_t>(w.offset) - (f.reversed != 0 ? taps - 1 : 0);
  return f;
}

// How blocks of neighbouring threads share a layer out: `lanes` threads have chunks one behind the other, and so have
// the next ones, so that `sharing` of them have the same; then come the chunks behind those.
struct ChunkOrder {
  int64_t chunks, lanes, sharing;
  int32_t threads, channels; // of a block, of a chunk
};

// Lanes of those that order threads for the filters' sake: a line of channels where blocks stage raw ones, else all.
inline int64_t lanes_by(const Filters &f, int64_t chunks, int64_t chunk_bytes) {
  const int64_t line = 128 / chunk_bytes;
  return f.raw != 0 && chunks % line == 0 ? line : chunks;
}

// The chunks that a block stages. Where its lanes are not all of them, it begins with one that 16 bytes begin with.
inline int32_t staged_chunks(const ChunkOrder &order, int32_t chunk_bytes) {
  int64_t staged = order.threads + 16 / chunk_bytes;
  if (order.lanes < order.threads) {
    const int64_t set = order.lanes * order.sharing, across = ceil_div(order.threads - 1, set) + 1;
    staged = order.lanes * (set % order.threads == 0 ? 1 : order.threads % set == 0 ? order.threads / set : across);
  }
  return static_cast<int32_t>(std::min(staged, order.chunks));
}

// Filters as blocks share them; packed ones where a block's take too much room. `pad`: bytes between taps, where they
// are staged tap by tap.
inline Filters share_filters(Filters f, const ChunkOrder &order, int32_t item, int32_t pad = 0) {
  if (f.raw == 0) return f;
  f.chunks = small(order.chunks), f.staged = staged_chunks(order, order.channels * item);
  const int64_t room = (int64_t{f.staged} * order.channels * item + pad) * f.taps.by;
  return room <= kFilterRoom ? (f.room = static_cast<int32_t>(room), f) : Filters{};
}

// What a kernel reads that goes from tap to tap, or stages.
inline const void *weights_of(const polyconv_layer &l, const Filters &f, const void *weights) {
  return f.in_place ? begin_of(l.weights, weights) : weights;
}

// Microseconds that a kernel takes longer to stage filters as they lie: 16 bytes at a time, or where they end otherwise
// four. 40 layers on an H200.
inline double staging_us(const polyconv_layer &l) {
  return sdk::elements(l.weights) * sdk::type_bytes(l.weights.type) % 16 == 0 ? 0.25 : 1.2;
}

// The format of weights that pack_taps (filters.cuh) leaves.
inline const char *taps_format(const polyconv_layer &l) {
  return l.weights.type == POLYCONV_F32 ? "cuda_taps_channels_32:1" : "cuda_taps_channels_16:1";
}

// What a kernel asks of the weights, and what that takes: `raw_us` to stage raw ones.
inline void offer_filters(const polyconv_request &request, const Filters &f, double raw_us, const char *format,
                          int64_t packed_bytes, sdk::Offer &offer) {
  if (f.raw != 0 || f.in_place) {
    offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
    offer.estimate_us += f.raw != 0 ? raw_us : 0;
    return;
  }
  offer.set_weights(0, format, packed_bytes);
  if (sdk::has_new_weights(*request.policy)) offer.estimate_us += kPackingUs;
}

} // namespace polyconv::cuda::shared
