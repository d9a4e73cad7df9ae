// features.cpp - see features.hpp. A combination that is no valid problem (pooling backwards, say) drops out by itself.
// SPDX-License-Identifier: Apache-2.0
#include "features.hpp"

#include <polyconv/polyconv.h>

namespace {
constexpr const char *kPlain = "n2,c8,k8,i12x12,f3x3,p1";
}

const std::vector<Feature> &features() {
  static const std::vector<Feature> list = {
      {"2D", kPlain, ""},
      {"1D", "n2,c8,k8,i24,f5,p2", ""},
      {"3D", "n2,c8,k8,i6x8x8,f3x3x3,p1", ""},
      {"1×1 kernel", "n2,c8,k8,i12x12,f1x1", ""},
      {"large kernel", "n1,c4,k4,i40x40,f31x31,p15", ""},
      {"groups", "n2,c8,k8,g2,i12x12,f3x3,p1", ""},
      {"depthwise", "n2,c8,k8,g8,i12x12,f3x3,p1", ""},
      {"depthwise, two outputs a channel", "n2,c8,k16,g8,i12x12,f3x3,p1", ""},
      {"one channel", "n2,c1,k1,i12x12,f3x3,p1", ""},
      {"empty batch", "n0,c8,k8,i12x12,f3x3,p1", ""},
      {"stride", "n2,c8,k8,i12x12,f3x3,s2,p1", ""},
      {"stride > kernel", "n2,c8,k8,i13x13,f2x2,s3", ""},
      {"dilation", "n2,c8,k8,i12x12,f3x3,p2,d2", ""},
      {"asymmetric padding", "n2,c8,k8,i12x12,f3x3,p1/2", ""},
      {"padding ≥ kernel", "n2,c8,k8,i12x12,f3x3,p4", ""},
      {"output padding (transposed)", "n2,c8,k8,i12x12,f3x3,s2,p1,o1", ""},
      {"constant padding", kPlain, ":pad=constant=1"},
      {"reflect", kPlain, ":pad=reflect"},
      {"symmetric", kPlain, ":pad=symmetric"},
      {"replicate", kPlain, ":pad=replicate"},
      {"circular", kPlain, ":pad=circular"},
      {"true convolution", kPlain, ":flip"},
      {"separable", kPlain, ":separable"},
      {"channels last", kPlain, ":nhwc"},
      {"channels last, weights krsc", kPlain, ":nhwc:krsc"},
      {"first in, last out", kPlain, ":nchw-nhwc"},
      {"input strides", kPlain, ":xs=1440.180.14.1"},
      {"output strides", kPlain, ":ys=1440.180.14.1"},
      {"what is read walked backwards", kPlain, ":xs=1152.144.-12.-1"},
      {"what is read repeated (stride 0)", kPlain, ":xs=0.144.12.1"},
      {"negative padding", "n2,c8,k8,i12x12,f3x3,p-1", ""},
      {"no input channels", "n2,c0,k8,i12x12,f3x3,p1", ""},
      {"one filter for all channels", "n2,c8,k8,g8,i12x12,f3x3,p1", ":ws=0.9.3.1"},
      {"zero points", kPlain, ":xz=3:wz=1"},
      {"zero points of each weights' channel", kPlain, ":xz=3:wz=channel"},
      {"output scale and zero point", kPlain, ":q=0.5/3"},
      {"scale", kPlain, ":scale"},
      {"bias", kPlain, ":bias"},
      {"residual", kPlain, ":residual"},
      {"relu", kPlain, ":relu"},
      {"clipped relu", kPlain, ":clip6"},
      {"leaky relu", kPlain, ":lrelu0.01"},
      {"tanh", kPlain, ":tanh"},
      {"sigmoid", kPlain, ":sigmoid"},
      {"gelu", kPlain, ":gelu"},
      {"silu", kPlain, ":silu"},
      {"hard swish", kPlain, ":hswish"},
      {"elu", kPlain, ":elu1"},
      {"gelu by tanh", kPlain, ":gelutanh"},
      {"prelu, a slope for each channel", kPlain, ":prelu"},
      {"scale, bias, residual and elu", kPlain, ":scale+bias+residual+elu1"},
      {"max pooling", kPlain, ":maxpool2"},
      {"average pooling", kPlain, ":avgpool2"},
      {"dilated max pooling", kPlain, ":maxpool3s1p2d2"},
      {"average pooling, size rounded up", kPlain, ":avgpool3s2p1ic"},
      {"max pooling, argmax saved", kPlain, ":maxpool2", POLYCONV_SAVE_ARGMAX},
      {"relu, pre-activation saved", kPlain, ":relu", POLYCONV_SAVE_PRE_ACTIVATION},
  };
  return list;
}

const std::vector<Direction> &directions() {
  static const std::vector<Direction> list = {{'F', "fwd"}, {'T', "tfwd"}, {'D', "bwd_d"}, {'W', "bwd_w"}};
  return list;
}

const std::vector<TypeGroup> &type_groups() {
  static const std::vector<TypeGroup> list = {
      {"f64", {"f64"}},
      {"f32", {"f32"}},
      {"f16", {"f16", "f16-f16-f32"}},
      {"bf16", {"bf16", "bf16-bf16-f32"}},
      {"s8, u8", {"s8-s8-s32", "s8-s8-s8", "s8-s8-f32", "u8-s8-u8", "u8-s8-s32", "u8-u8-f32"}},
      {"images", {"u8-f32-u8", "u8-f32-f32", "u16-f32-u16", "u16-f32-f32"}},
  };
  return list;
}

std::string token_of(const Feature &feature, const Direction &direction, const char *types) {
  return std::string(direction.word) + ":" + feature.fields + ":" + types + feature.parts;
}
