// maps.hpp - what describes a tensor to the TMA, by the driver's functions, found at run time: nothing links the
// driver. Making a map is arithmetic on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h> // CUtensorMap

#include <polyconv/sdk/tensor.hpp>

#include <initializer_list>

#include "common/device/check.hpp"

namespace polyconv::cuda {

// f32 is rounded to TF32 on its way in.
inline CUtensorMapDataType map_type(int32_t type) {
  return type == POLYCONV_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : type == POLYCONV_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
}

// A tensor as a map sees it: elements of each axis, from the innermost on, and bytes from one element of an axis to the
// next, of all axes but the first.
struct MapShape {
  uint64_t size[5] = {}, stride[4] = {};
  uint32_t rank = 0;

  MapShape() = default;
  MapShape(std::initializer_list<int64_t> sizes, std::initializer_list<int64_t> strides) {
    for (const int64_t each : sizes) size[rank++] = static_cast<uint64_t>(each);
    uint64_t *to = stride;
    for (const int64_t each : strides) *to++ = static_cast<uint64_t>(each);
  }
  // Axes of a tensor whose elements have so many bytes.
  MapShape(const polyconv_tensor &t, std::initializer_list<int> axes, int64_t bytes) {
    for (const int axis : axes) add(t.size[axis], t.stride[axis] * bytes);
    settle(bytes);
  }
  // An axis; the innermost one has no stride.
  void add(int64_t elements, int64_t apart = 0) {
    if (rank > 0) stride[rank - 1] = static_cast<uint64_t>(apart);
    size[rank++] = static_cast<uint64_t>(elements);
  }
  // An axis of one element may have any stride, but a map wants a true one, in whole 16 bytes.
  void settle(int64_t bytes) {
    for (uint32_t i = 0; i + 1 < rank; ++i)
      if (size[i + 1] == 1)
        stride[i] = i == 0 ? (size[0] * static_cast<uint64_t>(bytes) + 15) / 16 * 16 : stride[i - 1] * size[i];
  }
};

// How elements are read, how rows of a box lie in shared memory, and how much of memory the second cache fetches at
// once.
struct MapLook {
  CUtensorMapDataType type;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};

// Columns of pixels, walked in steps, of so many channels: corners bound where the first taps may lie.
struct MapWindows {
  int lower[3] = {}, upper[3] = {};
  uint32_t steps[5] = {1, 1, 1, 1, 1};
  uint32_t channels = 0, pixels = 0;
};

class TensorMaps {
 public:
  void boxes(const MapShape &shape, std::initializer_list<int64_t> box, const MapLook &look, const void *memory,
             const char *what, CUtensorMap *map) const {
    uint32_t sides[5] = {}, *to = sides;
    for (const int64_t side : box) *to++ = static_cast<uint32_t>(side);
    const uint32_t steps[5] = {1, 1, 1, 1, 1};
    check_map(tiled_(map, look.type, shape.rank, const_cast<void *>(memory), shape.size, shape.stride, sides, steps,
                     CU_TENSOR_MAP_INTERLEAVE_NONE, look.swizzle, look.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              what);
  }
  void windows(const MapShape &shape, const MapWindows &w, const MapLook &look, const void *memory, const char *what,
               CUtensorMap *map) const {
    check_map(im2col_(map, look.type, shape.rank, const_cast<void *>(memory), shape.size, shape.stride, w.lower,
                      w.upper, w.channels, w.pixels, w.steps, CU_TENSOR_MAP_INTERLEAVE_NONE, look.swizzle,
                      look.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              what);
  }

 private:
  static void check_map(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    throw sdk::Error(POLYCONV_DEVICE_ERROR,
                     std::string("CUDA: no tensor map of the ") + what + ": error " + std::to_string(result));
  }
  template <class Function>
  static Function entry_point(const char *name) {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult how;
    check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how),
          "looking for the driver's maps");
    if (how != cudaDriverEntryPointSuccess)
      throw sdk::Error(POLYCONV_UNAVAILABLE, std::string("CUDA: the driver has no ") + name);
    return reinterpret_cast<Function>(found);
  }

  using Im2col = decltype(&cuTensorMapEncodeIm2col);
  using Tiled = decltype(&cuTensorMapEncodeTiled);
  const Im2col im2col_ = entry_point<Im2col>("cuTensorMapEncodeIm2col");
  const Tiled tiled_ = entry_point<Tiled>("cuTensorMapEncodeTiled");
};

} // namespace polyconv::cuda
