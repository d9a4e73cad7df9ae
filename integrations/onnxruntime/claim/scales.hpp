// scales.hpp - which constants beside a quantised convolution say what polyconv computes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ORT_SCALES_HPP
#define POLYCONV_ORT_SCALES_HPP

#include "runtime/graph.hpp"

namespace polyconv_ort {

// Whether the scale of a QuantizeLinear or DequantizeLinear is a constant float, one for the whole tensor or, where
// there are `channels`, one each along `axis`; and its zero point, where it has one, a constant of as many.
bool are_scales(const Api &, const Node &, int64_t channels = 0, int64_t axis = 0);

// Whether the DequantizeLinear of a bias has the scale that a QLinearConv's bias has, the product of its input's and
// its weights', and no zero point but 0. All three have constant scales.
bool is_bias_scale(const Api &, const Node &bias, const Value &input_scale, const Value &weights_scale);

} // namespace polyconv_ort
#endif // POLYCONV_ORT_SCALES_HPP
