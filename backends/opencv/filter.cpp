// filter.cpp - see filter.hpp. filter2D allocates its buffers in every call; that is part of its time.
// SPDX-License-Identifier: Apache-2.0
#include "filter.hpp"

#include <opencv2/imgproc.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <cinttypes>

namespace polyconv::opencv {
namespace {

using namespace sdk;

int depth_of(int32_t type) {
  switch (type) {
    case POLYCONV_F64: return CV_64F;
    case POLYCONV_F32: return CV_32F;
    case POLYCONV_U16: return CV_16U;
    case POLYCONV_U8: return CV_8U;
    default: return -1;
  }
}

int border_of(int32_t pad_mode) {
  switch (pad_mode) {
    case POLYCONV_PAD_ZERO: return cv::BORDER_CONSTANT;
    case POLYCONV_PAD_REFLECT: return cv::BORDER_REFLECT_101;
    case POLYCONV_PAD_SYMMETRIC: return cv::BORDER_REFLECT;
    case POLYCONV_PAD_REPLICATE: return cv::BORDER_REPLICATE;
    default: return -1;
  }
}

// Rows of pixels with the channels of each side by side.
bool interleaved(const polyconv_tensor &t) {
  const bool pixels = t.size[kC] == 1 || t.stride[kC] == 1;
  return t.offset == 0 && pixels && (t.size[kW] == 1 || t.stride[kW] == t.size[kC]);
}

bool plain(const polyconv_layer &l) {
  const polyconv_epilogue &e = l.epilogue;
  return !e.has_scale && !e.has_bias && e.residual_from == POLYCONV_RESIDUAL_NONE && e.out_scale == 1 &&
         e.out_zero_point == 0 && e.activation == POLYCONV_ACT_NONE && l.save == POLYCONV_SAVE_NONE;
}

class Filter final : public Instance {
 public:
  explicit Filter(const polyconv_layer &layer)
      : layer_(layer),
        kernel_(static_cast<int>(layer.weights.size[kH]), static_cast<int>(layer.weights.size[kW]),
                depth_of(layer.weights.type)) {}

  void run(const polyconv_arguments &a, void *) const override {
    const polyconv_layer &l = layer_;
    cv::Mat kernel = kernel_.clone();
    for (int r = 0; r < kernel.rows; ++r)
      for (int s = 0; s < kernel.cols; ++s) {
        const int64_t tap = at(l.weights, 0, 0, 0, r, s);
        if (l.weights.type == POLYCONV_F64)
          kernel.at<double>(r, s) = static_cast<const double *>(a.weights[0])[tap];
        else
          kernel.at<float>(r, s) = static_cast<const float *>(a.weights[0])[tap];
      }
    const cv::Point anchor(static_cast<int>(l.pad_begin[2]), static_cast<int>(l.pad_begin[1]));
    for (int64_t n = 0; n < l.input.size[kN]; ++n)
      for (int64_t d = 0; d < l.input.size[kD]; ++d) {
        cv::Mat to = image(l.result, a.output, n, d);
        cv::filter2D(image(l.input, a.input, n, d), to, depth_of(l.result.type), kernel, anchor, 0,
                     border_of(l.pad_mode));
      }
  }

 private:
  static cv::Mat image(const polyconv_tensor &t, void *pointer, int64_t n, int64_t d) {
    const size_t bytes = CV_ELEM_SIZE1(depth_of(t.type));
    return cv::Mat(static_cast<int>(t.size[kH]), static_cast<int>(t.size[kW]),
                   CV_MAKETYPE(depth_of(t.type), static_cast<int>(t.size[kC])),
                   static_cast<char *>(pointer) + static_cast<size_t>(at(t, n, 0, d, 0, 0)) * bytes,
                   static_cast<size_t>(t.stride[kH]) * bytes);
  }

  const polyconv_layer layer_;
  const cv::Mat kernel_;
};

} // namespace

bool takes_filter(const polyconv_request &request, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1) return offer.reject("filters one layer at a time");
  const polyconv_layer &l = *request.layers[0];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("filters forward");
  if (depth_of(l.input.type) < 0 || depth_of(l.weights.type) < 0 || depth_of(l.result.type) < 0)
    return offer.reject("takes u8, u16, f32 and f64");
  if (l.result.type != l.input.type && l.result.type != POLYCONV_F32)
    return offer.reject("has results of the input's type or f32");
  const int64_t channels = l.input.size[kC];
  if (l.groups != channels || l.output.size[kC] != channels || channels > 4)
    return offer.reject("takes one filter a channel, up to 4 channels");
  if (channels > 1 && l.weights.stride[kK] != 0) return offer.reject("applies one filter to all channels");
  if (!interleaved(l.input) || !interleaved(l.result)) return offer.reject("takes interleaved pixels");
  if (l.weights.size[kD] != 1 || l.pad_begin[0] + l.pad_end[0] != 0) return offer.reject("filters planes");
  if (border_of(l.pad_mode) < 0) return offer.reject("has no border like this");
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t taps = l.weights.size[kD + axis];
    if (l.stride[axis] != 1 || l.dilation[axis] != 1) return offer.reject("takes no strides and no dilation");
    if (l.output.size[kD + axis] != l.input.size[kD + axis] || l.pad_begin[axis] >= taps)
      return offer.reject("has results of the input's size");
    if (l.input.size[kD + axis] < taps) return offer.reject("takes images no smaller than the filter");
    if (l.input.size[kD + axis] > INT32_MAX) return offer.reject("counts rows and columns in 32 bits");
  }
  if (!plain(l)) return offer.reject("has no epilogue");
  if (has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  offer.estimate_us = 1 + flops(l) * 5e-5;
  return true;
}

std::unique_ptr<Instance> make_filter(const polyconv_request &request, int32_t) {
  return std::make_unique<Filter>(*request.layers[0]);
}

} // namespace polyconv::opencv
