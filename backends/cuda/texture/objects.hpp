// objects.hpp - the texture objects of one input pointer: what polyconv_bind makes and polyconv_bound_destroy frees.
//
// A `plane` is a 2D object over one channel of one image in the caller's memory (pitch linear): the unit addresses it
// by x and y, and its address mode is the border. The hardware wants a base at 512 bytes, a pitch at 32, and few enough
// planes for one object each. `linear` is a 1D object over many images: any strides, any base (the object begins up to
// 511 bytes before it), borders by index map.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cstdint>

#include "common/device/check.hpp"

namespace polyconv::cuda::texture {

inline constexpr int kMostObjects = 64;                    // they travel as kernel parameters
inline constexpr int64_t kBaseAlignment = 512;             // cudaDeviceProp.textureAlignment of every chip since 2.0
inline constexpr int64_t kPitchAlignment = 32;             // cudaDeviceProp.texturePitchAlignment, likewise
inline constexpr int64_t kMostPitch2D[] = {131072, 65000}; // texels across and down
inline constexpr int64_t kMostLinear = 1 << 27;            // texels

// Up to this size (x + 0.5) / size, times size again in the unit, is a point inside texel x: cuda_texture_test shows it
// for every coordinate that `exact_normalised` allows.
inline constexpr int64_t kMostNormalised = 16384;

struct Objects {
  cudaTextureObject_t of[kMostObjects];
  int32_t shift[kMostObjects]; // linear: elements from the object's base to the first of its images
};

inline int64_t element_bytes(int32_t type) {
  return type == POLYCONV_F32 ? 4 : type == POLYCONV_U8 ? 1 : 2;
}

inline cudaChannelFormatDesc texel(int32_t type) {
  const auto kind = type == POLYCONV_F32 || type == POLYCONV_F16 ? cudaChannelFormatKindFloat
                                                                 : cudaChannelFormatKindUnsigned; // bf16 is bits
  return cudaCreateChannelDesc(static_cast<int>(8 * element_bytes(type)), 0, 0, 0, kind);
}

// Images that one linear object holds: all, or as many as its limit allows in whole blocks of `step`. 0: not even
// these.
inline int64_t images_of_linear(const polyconv_tensor &t, int64_t step) {
  const int64_t most = kMostLinear - kBaseAlignment;
  int64_t image = 1;
  for (const int axis : {1, 3, 4}) image += (t.size[axis] - 1) * t.stride[axis];
  if (image > most) return 0;
  const int64_t images = t.stride[0] == 0 ? t.size[0] : (most - image) / t.stride[0] + 1;
  return images >= t.size[0] ? t.size[0] : images / step * step;
}

// The address mode that is a padding mode's border; -1 where the unit has none.
inline int address_mode(const polyconv_layer &l) {
  switch (l.pad_mode) {
    case POLYCONV_PAD_ZERO: return cudaAddressModeBorder;
    case POLYCONV_PAD_CONSTANT: return l.pad_value == 0 ? static_cast<int>(cudaAddressModeBorder) : -1;
    case POLYCONV_PAD_REPLICATE: return cudaAddressModeClamp;
    case POLYCONV_PAD_SYMMETRIC: return cudaAddressModeMirror;
    case POLYCONV_PAD_CIRCULAR: return cudaAddressModeWrap;
    default: return -1; // reflect
  }
}

// Mirror and wrap exist in normalised coordinates only.
inline bool normalised(const polyconv_layer &l) {
  return l.pad_mode == POLYCONV_PAD_SYMMETRIC || l.pad_mode == POLYCONV_PAD_CIRCULAR;
}

class ObjectSet {
 public:
  ObjectSet() = default;
  ObjectSet(const ObjectSet &) = delete;
  ObjectSet &operator=(const ObjectSet &) = delete;
  ~ObjectSet() {
    for (int i = 0; i < count_; ++i) cudaDestroyTextureObject(objects_.of[i]);
  }
  const Objects &objects() const { return objects_; }

  void add_planes(const polyconv_layer &l, const void *input) {
    const polyconv_tensor &t = l.input;
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.desc = texel(t.type);
    resource.res.pitch2D.width = static_cast<size_t>(t.size[4]);
    resource.res.pitch2D.height = static_cast<size_t>(t.size[3]);
    resource.res.pitch2D.pitchInBytes = static_cast<size_t>(t.stride[3] * element_bytes(t.type));
    if (t.size[3] == 1)
      resource.res.pitch2D.pitchInBytes = round_up(t.size[4] * element_bytes(t.type), kPitchAlignment);
    for (int64_t n = 0; n < t.size[0]; ++n)
      for (int64_t c = 0; c < t.size[1]; ++c) {
        resource.res.pitch2D.devPtr = at(input, t, sdk::at(t, n, c, 0, 0, 0));
        add(resource, address_mode(l), normalised(l), 0);
      }
  }

  void add_linear(const polyconv_layer &l, const void *input, int64_t images) {
    const polyconv_tensor &t = l.input;
    const int64_t bytes = element_bytes(t.type);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.desc = texel(t.type);
    for (int64_t n = 0; n < t.size[0]; n += images) {
      const auto first = reinterpret_cast<uintptr_t>(at(input, t, sdk::at(t, n, 0, 0, 0, 0)));
      const uintptr_t base = first / kBaseAlignment * kBaseAlignment;
      int64_t last = std::min(images, t.size[0] - n) - 1;
      last *= t.stride[0];
      for (const int axis : {1, 3, 4}) last += (t.size[axis] - 1) * t.stride[axis];
      resource.res.linear.devPtr = reinterpret_cast<void *>(base);
      resource.res.linear.sizeInBytes = first - base + static_cast<size_t>((last + 1) * bytes);
      add(resource, cudaAddressModeBorder, false, static_cast<int64_t>(first - base) / bytes);
    }
  }

  // Whether every plane begins where a 2D object may.
  static bool planes_aligned(const polyconv_layer &l, const void *input) {
    const polyconv_tensor &t = l.input;
    return reinterpret_cast<uintptr_t>(at(input, t, t.offset)) % kBaseAlignment == 0;
  }

 private:
  static size_t round_up(int64_t v, int64_t to) { return static_cast<size_t>((v + to - 1) / to * to); }
  static void *at(const void *input, const polyconv_tensor &t, int64_t element) {
    return const_cast<char *>(static_cast<const char *>(input)) + element * element_bytes(t.type);
  }

  void add(const cudaResourceDesc &resource, int mode, bool normalise, int64_t shift) {
    cudaTextureDesc how = {};
    for (auto &axis : how.addressMode) axis = static_cast<cudaTextureAddressMode>(mode);
    how.filterMode = cudaFilterModePoint;
    how.readMode = cudaReadModeElementType;
    how.normalizedCoords = normalise ? 1 : 0;
    check(cudaCreateTextureObject(&objects_.of[count_], &resource, &how, nullptr), "creating a texture object");
    objects_.shift[count_++] = static_cast<int32_t>(shift);
  }

  Objects objects_ = {};
  int count_ = 0;
};

} // namespace polyconv::cuda::texture
