// patches.hpp - the output in patches of pixels, and the windows of each: what a block holds in shared memory, whatever
// the dimensions, strides and dilations. A patch is images x D x H x W of outputs; its positions are the coordinates of
// the input that its windows span. Small images go into a patch several at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <vector>

#include "common/numbers.hpp"

namespace polyconv::cuda {

inline constexpr uint32_t kNowhere = ~0u;                  // the coordinates of what fills the last 16 pixels up
inline constexpr int kMostPatch[4] = {254, 63, 255, 1023}; // images, D, H, W: what packed coordinates hold
inline constexpr int kMostPixels = 512;                    // of a patch

struct Patches {
  int32_t images = 0, in[3] = {}, out[3] = {}, taps[3] = {}, stride[3] = {}, dilation[3] = {}, pad[3] = {};
  int32_t step[3] = {};                               // coordinates of a patch from one pixel's window to the next
  int32_t spread[3] = {};                             // of the input from one coordinate of a patch to the next
  int32_t tile[4] = {}, patch[4] = {}, tiles[4] = {}; // pixels, coordinates, patches: images, D, H, W
  int32_t count = 0;                                  // of all patches
  int32_t positions = 0, pixels = 0;                  // of a patch; pixels are a multiple of 16, 0 where none fits

  __host__ __device__ int32_t all_taps() const { return taps[0] * taps[1] * taps[2]; }
  // Of coordinates in a patch.
  __host__ __device__ int32_t position(int32_t n, int32_t d, int32_t h, int32_t w) const {
    return ((n * patch[1] + d) * patch[2] + h) * patch[3] + w;
  }
  __host__ __device__ int32_t tile_pixels() const { return tile[0] * tile[1] * tile[2] * tile[3]; }
  int32_t table_bytes() const { return (positions + 2 * pixels) * 4; } // PatchTables
};

// A tensor whose channels lie side by side, as patches of it are read.
struct Slab {
  const void *data = nullptr; // of its first element
  int64_t image = 0;          // elements from one image to the next
  int32_t stride[3] = {};     // likewise of D, H, W
  int32_t width = 0;          // bytes of neighbouring channels that are aligned: 2, 4, 8 or 16
};

// Bytes of neighbouring channels that can be moved at once, were the pointer aligned to them; `begins`: channels from
// one slice that is read to the next, 0 where these are whole vectors.
inline int32_t slab_width(const polyconv_tensor &t, int64_t begins) {
  const int64_t size = t.type == POLYCONV_F32 ? 4 : 2;
  int64_t bits = begins * size;
  for (const int axis : {0, 2, 3, 4})
    if (t.size[axis] > 1) bits |= t.stride[axis] * size;
  return bits % 16 == 0 ? 16 : bits % 8 == 0 ? 8 : bits % 4 == 0 ? 4 : 2;
}

// Of a run; `width`: what its strides allow.
inline Slab make_slab(const polyconv_tensor &t, const void *pointer, int32_t width) {
  Slab s;
  s.data = static_cast<const char *>(pointer) + t.offset * (t.type == POLYCONV_F32 ? 4 : 2);
  s.image = t.stride[0];
  for (int axis = 0; axis < 3; ++axis) s.stride[axis] = small(t.stride[2 + axis]);
  s.width = width;
  while (!aligned(s.data, s.width)) s.width /= 2;
  return s;
}

// The windows of a layer, not yet cut.
inline Patches make_patches(const polyconv_layer &l) {
  Patches p;
  p.images = small(l.output.size[0]);
  for (int axis = 0; axis < 3; ++axis) {
    p.in[axis] = small(l.input.size[2 + axis]), p.out[axis] = small(l.output.size[2 + axis]);
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.stride[axis] = small(l.stride[axis]), p.dilation[axis] = small(l.dilation[axis]);
    p.pad[axis] = small(l.pad_begin[axis]);
    const bool one = p.taps[axis] == 1; // a patch leaves out what no tap reads
    p.step[axis] = one ? 1 : p.stride[axis], p.spread[axis] = one ? p.stride[axis] : 1;
  }
  return p;
}

// An axis in equal parts of kMostPixels at most: as few as can be, and more and more.
inline std::vector<int64_t> parts_of(int64_t size) {
  std::vector<int64_t> parts;
  const int64_t fewest = ceil_div(size, kMostPixels);
  for (int64_t count = fewest; count <= 16 * fewest + 16; count += 1 + count / 32) {
    const int64_t part = ceil_div(size, count);
    if (parts.empty() || parts.back() != part) parts.push_back(part);
  }
  return parts;
}

// An axis of a patch: outputs, coordinates, and how many patches there are of it.
struct PatchCut {
  int64_t tile, patch, count;
};

// Axis `i` (images, D, H, W) in so many outputs a patch; none of those whose coordinates do not hold them.
inline std::vector<PatchCut> cuts_of(const Patches &p, int i, const std::vector<int64_t> &tiles) {
  std::vector<PatchCut> cuts;
  cuts.reserve(tiles.size());
  const int64_t taps = i == 0 ? 1 : (int64_t{p.taps[i - 1]} - 1) * p.dilation[i - 1] + 1;
  for (const int64_t tile : tiles) {
    const int64_t patch = i == 0 ? tile : (tile - 1) * p.step[i - 1] + taps;
    if (patch <= kMostPatch[i]) cuts.push_back({tile, patch, ceil_div(i == 0 ? p.images : p.out[i - 1], tile)});
  }
  return cuts;
}

// In patches of four such axes; false where they are too large.
inline bool cut_patches(const PatchCut *const (&cuts)[4], Patches *p) {
  int64_t positions = 1, pixels = 1, count = 1;
  for (int i = 0; i < 4; ++i) {
    const PatchCut &cut = *cuts[i];
    p->tile[i] = small(cut.tile), p->patch[i] = small(cut.patch), p->tiles[i] = small(cut.count);
    positions *= cut.patch, pixels *= cut.tile, count *= cut.count;
  }
  if (positions > 1 << 20 || pixels > kMostPixels || count > INT32_MAX) return false;
  p->positions = small(positions), p->pixels = small((pixels + 15) / 16 * 16), p->count = small(count);
  return true;
}

// Cuts windows into the patches with the least cost; cost(): of all of `*patches` together, 0 where they do not fit.
// Hundreds are tried for each plan, so what an axis takes is found once.
template <class Cost>
void choose_patches(Patches *patches, const Cost &cost) {
  Patches best = *patches;
  double least = 0;
  const auto consider = [&](const PatchCut &n, const PatchCut &d, const PatchCut &h, const PatchCut &w) {
    if (!cut_patches({&n, &d, &h, &w}, patches)) return;
    const double one = cost();
    if (one > 0 && (least == 0 || one < least)) best = *patches, least = one;
  };
  const int32_t(&out)[3] = patches->out;
  const auto planes = cuts_of(*patches, 1, parts_of(out[0])), lines = cuts_of(*patches, 2, parts_of(out[1])),
             columns = cuts_of(*patches, 3, parts_of(out[2])),
             several = cuts_of(*patches, 0, parts_of(patches->images));
  const PatchCut single = {1, 1, patches->images};
  for (const PatchCut &d : planes)
    for (const PatchCut &h : lines)
      for (const PatchCut &w : columns) {
        if (d.tile * h.tile * w.tile > kMostPixels) continue;
        consider(single, d, h, w);
        if (d.tile < out[0] || h.tile < out[1] || w.tile < out[2]) continue;
        for (const PatchCut &n : several) consider(n, d, h, w); // whole images
      }
  *patches = best;
}

} // namespace polyconv::cuda
