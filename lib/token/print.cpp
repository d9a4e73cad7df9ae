// print.cpp - from a problem to its canonical token: one spelling, one order, defaults left out.
// SPDX-License-Identifier: Apache-2.0
#include "problem/checks.hpp"
#include "problem/problem.hpp"
#include "problem/shape.hpp"
#include "token/token.hpp"
#include "token/words.hpp"

namespace polyconv {
namespace {

bool all_are(const int64_t (&values)[POLYCONV_MAX_SPATIAL], int32_t dims, int64_t value) {
  for (int entry = 0; entry < dims; ++entry)
    if (values[entry] != value) return false;
  return true;
}

// ",s2" and the like; "" where every axis has the default.
std::string axis_field(const char *letter, const int64_t (&values)[POLYCONV_MAX_SPATIAL], int32_t dims,
                       int64_t standard) {
  return all_are(values, dims, standard) ? "" : "," + (letter + axes_text(values, dims, true));
}

std::string padding_field(const polyconv_problem &p) {
  const std::string begin = axes_text(p.pad_begin, p.spatial_dims, true);
  const std::string end = axes_text(p.pad_end, p.spatial_dims, true);
  if (begin != end) return ",p" + begin + "/" + end;
  return begin == "0" ? "" : ",p" + begin;
}

std::string direction_text(const polyconv_problem &p) {
  return (p.transposed != 0 ? "t" : "") + std::string(kDirectionWords[p.direction]);
}

std::string fields_text(const polyconv_problem &p) {
  std::string text = "n" + to_text(p.batch) + ",c" + to_text(p.in_channels) + ",k" + to_text(p.out_channels);
  if (p.groups != 1) text += ",g" + to_text(p.groups);
  text += ",i" + axes_text(p.input_size, p.spatial_dims, false);
  text += ",f" + axes_text(p.kernel_size, p.spatial_dims, false);
  text += axis_field("s", p.stride, p.spatial_dims, 1);
  text += padding_field(p);
  text += axis_field("d", p.dilation, p.spatial_dims, 1);
  text += axis_field("o", p.output_padding, p.spatial_dims, 0);
  return text;
}

std::string layout_part(const polyconv_problem &p) {
  if (p.input_layout == POLYCONV_CHANNELS_FIRST && p.output_layout == POLYCONV_CHANNELS_FIRST) return "";
  const std::string input = kDataLayoutWords[p.input_layout];
  return ":" + (p.input_layout == p.output_layout ? input : input + "-" + kDataLayoutWords[p.output_layout]);
}

std::string types_part(const polyconv_problem &p) {
  const std::string input = polyconv_type_name(p.input_type);
  const int32_t output = p.input_type == POLYCONV_S8 ? static_cast<int32_t>(POLYCONV_S32) : p.input_type;
  // u8 and u16 alone would not say which row; no valid one has three equal types but images have, so spell it out.
  const bool whole_row = p.weights_type == p.input_type && p.output_type == output && p.input_type != POLYCONV_U8;
  if (whole_row) return p.input_type == POLYCONV_F32 ? "" : ":" + input;
  return ":" + input + "-" + polyconv_type_name(p.weights_type) + "-" + polyconv_type_name(p.output_type);
}

std::string strides_part(const char *key, int32_t has, const int64_t (&strides)[kAxes], int32_t dims) {
  if (has == 0) return "";
  std::string text;
  for (int entry = 0; entry < 2 + dims; ++entry) text += (entry == 0 ? "" : ".") + to_text(strides[entry]);
  return std::string(":") + key + "=" + text;
}

std::string number_part(const char *key, int32_t value) {
  return value == 0 ? "" : std::string(":") + key + "=" + to_text(static_cast<int64_t>(value));
}

std::string zero_point_parts(const polyconv_problem &p) {
  return number_part("xz", p.input_zero_point) +
         (p.has_weights_zero_points != 0 ? ":wz=channel" : number_part("wz", p.weights_zero_point));
}

std::string padding_mode_part(const polyconv_problem &p) {
  if (p.pad_mode == POLYCONV_PAD_ZERO) return "";
  const std::string text = std::string(":pad=") + kPadWords[p.pad_mode];
  return p.pad_mode == POLYCONV_PAD_CONSTANT ? text + "=" + to_text(p.pad_value) : text;
}

std::string epilogue_parts(const polyconv_problem &p) {
  const polyconv_epilogue &e = p.epilogue;
  const std::string words = epilogue_text(p);
  std::string text = words.empty() ? "" : ":" + words;
  if (e.residual_scale != 1.0f) text += ":rs=" + to_text(e.residual_scale);
  text += number_part("rz", e.residual_zero_point);
  if (e.out_scale != 1.0f || e.out_zero_point != 0) text += ":q=" + to_text(e.out_scale);
  if (e.out_zero_point != 0) text += "/" + to_text(static_cast<int64_t>(e.out_zero_point));
  return text;
}

bool lies_as(const polyconv_tensor &weights, const int64_t (&strides)[kAxes]) {
  for (int axis = 0; axis < kAxes; ++axis)
    if (weights.size[axis] > 1 && weights.stride[axis] != strides[axis]) return false;
  return true;
}

// Where raw weights lie, as a layout or by strides; "" for dense ones with channels first.
std::string raw_place_part(const polyconv_problem &p) {
  polyconv_tensor weights;
  int64_t dense[kAxes] = {};
  weights_tensor(p, &weights);
  if (dense_strides(weights.size, POLYCONV_CHANNELS_FIRST, dense) && lies_as(weights, dense)) return "";
  if (dense_strides(weights.size, POLYCONV_CHANNELS_LAST, dense) && lies_as(weights, dense))
    return std::string(":") + kWeightsLayoutWords[1];
  int64_t strides[kAxes] = {};
  for (int entry = 0; entry < 2 + p.spatial_dims; ++entry) {
    const int axis = entry < 2 ? entry : entry + POLYCONV_MAX_SPATIAL - p.spatial_dims;
    strides[entry] = weights.size[axis] > 1 ? weights.stride[axis] : 1;
  }
  return strides_part("ws", 1, strides, p.spatial_dims);
}

} // namespace

std::string format_token(const polyconv_problem &problem) {
  polyconv_problem p = problem;
  forget_ignored(&p);
  std::string text = direction_text(p) + ":" + fields_text(p) + layout_part(p);
  if (p.weights_layout == POLYCONV_CHANNELS_LAST) text += std::string(":") + kWeightsLayoutWords[1];
  text += types_part(p) + padding_mode_part(p);
  if (p.flip != 0) text += ":flip";
  if (p.separable != 0) text += ":separable";
  text += zero_point_parts(p);
  text += strides_part("xs", p.has_input_strides, p.input_strides, p.spatial_dims);
  text += strides_part("ws", p.has_weights_strides, p.weights_strides, p.spatial_dims);
  text += strides_part("ys", p.has_output_strides, p.output_strides, p.spatial_dims);
  return text + epilogue_parts(p);
}

std::string token_of(const std::vector<Layer> &layers) {
  std::string token;
  for (const Layer &layer : layers) token += (token.empty() ? "" : " > ") + format_token(layer.problem);
  return token;
}

// What a kernel may have baked into packed weights: their values in their order (flip), the phases of a stride, the
// correction for zero points. Batch, image size, padding, layouts and epilogue are left out: changing them must not
// cost a repacking. Raw weights are a copy, so that their own layout matters.
std::string weights_token(const polyconv_problem &problem, bool raw) {
  polyconv_problem p = problem;
  forget_ignored(&p);
  for (int entry = 0; entry < p.spatial_dims; ++entry) { // as kernels see them: they may pack by these
    p.stride[entry] = walked_stride(problem, entry);
    p.dilation[entry] = walked_dilation(problem, entry);
  }
  std::string text = direction_text(p) + ":c" + to_text(p.in_channels) + ",k" + to_text(p.out_channels);
  if (p.groups != 1) text += ",g" + to_text(p.groups);
  text += ",f" + axes_text(p.kernel_size, p.spatial_dims, false);
  text += axis_field("s", p.stride, p.spatial_dims, 1) + axis_field("d", p.dilation, p.spatial_dims, 1);
  text += std::string(":") + polyconv_type_name(p.input_type) + "-" + polyconv_type_name(p.weights_type);
  if (p.flip != 0) text += ":flip";
  if (p.separable != 0) text += ":separable";
  text += zero_point_parts(p);
  return raw ? text + raw_place_part(problem) : text;
}

} // namespace polyconv
