// pack.cpp - packed weights of depthwise convolution with channels side by side. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/depthwise/driver.hpp"

#include "cpu/common/count.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <cstdio>

namespace polyconv::cpu {
namespace {

using namespace sdk;

// Whole vectors of every instruction set, so that packed weights serve them all.
int64_t weights_bytes(const DepthwisePlan &p, const polyconv_layer &layer) {
  return p.row_stride * taps(layer) * p.group_in * sum_bytes(layer.sum_type);
}

// [tap][channel], of groups [unit][tap][channel of the group][channel of the unit], zero point subtracted; channels
// beyond the last are 0.
template <class T>
void pack_weights(const DepthwisePlan &p, const polyconv_layer &layer, const void *raw, void *packed) {
  T *out = static_cast<T *>(packed);
  const polyconv_tensor &w = layer.weights;
  const T zero_point = is_quantised(layer) ? static_cast<T>(layer.weights_zero_point) : T(0);
  const int64_t unit = p.grouped ? kDepthwiseUnit : p.row_stride;
  for (int64_t first = 0; first < p.row_stride; first += unit)
    for (int64_t d = 0; d < w.size[kD]; ++d)
      for (int64_t h = 0; h < w.size[kH]; ++h)
        for (int64_t x = 0; x < w.size[kW]; ++x)
          for (int64_t c = 0; c < p.group_in; ++c)
            for (int64_t k = first; k < first + unit; ++k)
              *out++ = k < p.channels ? load_as<T>(raw, w.type, at(w, k, c, d, h, x)) - zero_point : T(0);
}

} // namespace

void depthwise_pack(const DepthwisePlan &plan, const polyconv_layer &layer, const void *raw, void *packed) {
  switch (layer.sum_type) {
    case POLYCONV_F64: return pack_weights<double>(plan, layer, raw, packed);
    case POLYCONV_S32: return pack_weights<int32_t>(plan, layer, raw, packed);
    default: return pack_weights<float>(plan, layer, raw, packed);
  }
}

void depthwise_format(const DepthwisePlan &p, const polyconv_layer &layer, Offer &offer) {
  const char *element = layer.sum_type == POLYCONV_F64 ? "f64" : is_quantised(layer) ? "s32" : "f32";
  char format[POLYCONV_FORMAT_SIZE], zero_point[16] = "";
  if (layer.weights_zero_point) std::snprintf(zero_point, sizeof zero_point, "_z%d", layer.weights_zero_point);
  std::snprintf(format, sizeof format, "cpu_%s_%s%s:1", p.grouped ? "grouped" : "depthwise", element, zero_point);
  offer.set_weights(0, format, weights_bytes(p, layer));
}

} // namespace polyconv::cpu
