// maps.hpp - how the TMA finds the tensors of Hopper's products.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/device/maps.hpp"
#include "wgmma/product.hpp"

namespace polyconv::cuda::wgmma {

class MapEncoders {
 public:
  // `exact`: f32 stays as it is, and is not rounded to TF32.
  void activations(const polyconv_layer &layer, const void *input, const Shape &shape, Product *product,
                   bool exact = false) const;
  void weights(const polyconv_layer &layer, const WeightRows &rows, const void *memory, const Shape &shape,
               CUtensorMap *map) const;
  // And of the last tile, if there are not filters for all of its rows: those that do not exist would be fetched as
  // zeros, which takes the TMA 4 to 8 clocks each, as many as two that exist.
  void weights(const polyconv_layer &layer, const WeightRows &rows, const void *memory, const Shape &shape,
               Product *product) const;
  // Raw ones across the depth, from what lies first: boxes of 64 filters for each channel of a block of depth.
  void across(const polyconv_layer &layer, const void *first, int64_t depth, CUtensorMap *map) const;
  void across(const polyconv_layer &layer, const void *first, const Shape &shape, Product *product) const;
  void parts(const polyconv_layer &layer, const void *packed, const Shape &shape, CUtensorMap *map) const;
  void results(const polyconv_layer &layer, const void *result, const Shape &shape, CUtensorMap *map) const;
  // Of results whose pixels are those of a tensor in order, as far apart as they are.
  void columns(const polyconv_layer &layer, const void *result, const Shape &shape, bool flat, CUtensorMap *map) const;
  // Patches of flat images or of a plane of a volume, `rows` by `columns`, of each pixel 64 or 128 bytes of channels.
  void patches(const polyconv_tensor &tensor, const void *memory, int columns, int rows, CUtensorMap *map,
               int row_bytes = 128, bool volume = false) const;
  // Rows of pixels, channels first: 64 pixels of so many channels of 16 bits.
  void rows(const polyconv_tensor &tensor, const void *memory, int channels, CUtensorMap *map) const;

  // For gradients of weights, blocks of `depth` pixels, 64 channels of each: of the input along its windows, or of the
  // output's gradient as it is.
  void pixels(const polyconv_layer &layer, bool gradients, const void *from, int depth, CUtensorMap *map) const;
  // Likewise where windows are one pixel; `chunks`: of 64 channels in a box, 1 where the map is of channels x pixels.
  void matrix(const polyconv_tensor &tensor, const void *from, int depth, int chunks, CUtensorMap *map) const;

 private:
  TensorMaps maps_;
};

} // namespace polyconv::cuda::wgmma
