// bad_input_test.cpp - one row for each way to describe a convolution wrongly: every function that takes a problem
// answers INVALID_ARGUMENT, with a sentence that names the field, its value and what was expected, and writes nothing.
// bad_call_test.cpp has the wrong calls.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace {

using Words = std::vector<const char *>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max(), kMostElements = POLYCONV_MAX_ELEMENTS;
constexpr const char *kMost = "at most 281474976710656", *kProducts = "at most 288230376151711744";

void check_sentence(const Words &words) {
  const std::string sentence = polyconv_last_error();
  INFO("the sentence: ", sentence);
  CHECK(sentence.find("expected") != std::string::npos);
  CHECK(sentence.size() < 400);
  for (const char *word : words) CHECK_MESSAGE(sentence.find(word) != std::string::npos, "missing: ", word);
}

polyconv_problem parse(const char *token) {
  polyconv_problem problem;
  polyconv_problem_init(&problem);
  REQUIRE_MESSAGE(polyconv_problem_parse(token, &problem) == POLYCONV_SUCCESS, token, ": ", polyconv_last_error());
  return problem;
}

// Every function that takes a problem refuses it alike, and leaves its results as they were.
void check_refused(const polyconv_problem &problem, const Words &words) {
  CHECK(polyconv_problem_validate(&problem, 1) == POLYCONV_INVALID_ARGUMENT);
  check_sentence(words);
  const std::string sentence = polyconv_last_error();
  const auto refused = [&](polyconv_status status) {
    CHECK(status == POLYCONV_INVALID_ARGUMENT);
    CHECK(sentence == polyconv_last_error());
  };
  char nothing = 0; // its address marks results that nobody writes
  polyconv_plan *const mark = reinterpret_cast<polyconv_plan *>(&nothing);
  polyconv_plan *plan = mark;
  refused(polyconv_plan_create(nullptr, &problem, 1, nullptr, &plan));
  CHECK(plan == mark);
  polyconv_explanation *const explained = reinterpret_cast<polyconv_explanation *>(&nothing);
  polyconv_explanation *explanation = explained;
  refused(polyconv_explain(nullptr, &problem, 1, nullptr, &explanation));
  CHECK(explanation == explained);
  float output = 7;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = buffers.output = buffers.weights[0] = &output;
  refused(polyconv_convolve(nullptr, &problem, 1, nullptr, &buffers));
  CHECK(output == 7);
}

struct Field {
  const char *token; // a valid problem
  void (*spoil)(polyconv_problem &p);
  Words words;
};

const Field kFields[] = {
    // enumerations and flags
    {"fwd:i8x8", [](auto &p) { p.direction = 3; }, {"direction is 3", "0..2"}},
    {"fwd:i8x8", [](auto &p) { p.direction = -1; }, {"direction is -1"}},
    {"fwd:i8x8", [](auto &p) { p.transposed = 2; }, {"transposed is 2", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.spatial_dims = 0; }, {"spatial_dims is 0", "1..3"}},
    {"fwd:i8x8", [](auto &p) { p.spatial_dims = 4; }, {"spatial_dims is 4", "1..3"}},
    {"fwd:i8x8", [](auto &p) { p.flip = -1; }, {"flip is -1", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.separable = 2; }, {"separable is 2", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.pad_mode = 6; }, {"pad_mode is 6", "0..5"}},
    {"fwd:i8x8", [](auto &p) { p.input_layout = 2; }, {"input_layout is 2", "0..1"}},
    {"fwd:i8x8", [](auto &p) { p.weights_layout = -7; }, {"weights_layout is -7", "0..1"}},
    {"fwd:i8x8", [](auto &p) { p.output_layout = 9; }, {"output_layout is 9", "0..1"}},
    {"fwd:i8x8", [](auto &p) { p.has_input_strides = 5; }, {"has_input_strides is 5", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.has_weights_strides = 5; }, {"has_weights_strides is 5", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.has_output_strides = -1; }, {"has_output_strides is -1", "0 or 1"}},
    // channels
    {"fwd:i8x8", [](auto &p) { p.batch = -1; }, {"batch is -1", "at least 0"}},
    {"fwd:i8x8", [](auto &p) { p.in_channels = -1; }, {"in_channels is -1", "at least 0"}},
    {"fwd:i8x8", [](auto &p) { p.out_channels = -4; }, {"out_channels is -4", "at least 0"}},
    {"fwd:i8x8", [](auto &p) { p.groups = 0; }, {"groups is 0", "at least 1"}},
    {"fwd:c6,k4,i8x8", [](auto &p) { p.groups = 4; }, {"in_channels is 6", "multiple of groups", "4"}},
    {"fwd:c4,k6,i8x8", [](auto &p) { p.groups = 4; }, {"out_channels is 6", "multiple of groups", "4"}},
    // axes
    {"fwd:i8x8", [](auto &p) { p.input_size[1] = -1; }, {"input_size[1] is -1", "at least 0"}},
    {"fwd:i8x8,p1:pad=reflect",
     [](auto &p) { p.input_size[1] = 0; },
     {"pad_mode is 2", "expected 0 (zero)", "input_size[1] is 0"}},
    {"fwd:i8x8,p1", [](auto &p) { p.input_size[1] = 0, p.pad_begin[1] = -1; }, {"pad_begin[1] is -1", "crop less"}},
    {"fwd:i8x8", [](auto &p) { p.kernel_size[0] = 0; }, {"kernel_size[0] is 0", "at least 1"}},
    {"fwd:i8x8", [](auto &p) { p.stride[1] = 0; }, {"stride[1] is 0", "at least 1"}},
    {"fwd:i8x8", [](auto &p) { p.dilation[0] = -2; }, {"dilation[0] is -2", "at least 1"}},
    {"fwd:i8x8", [](auto &p) { p.pad_begin[0] = -8; }, {"pad_begin[0] is -8", "crop less", "8"}},
    {"fwd:i8x8",
     [](auto &p) { p.pad_begin[1] = -5, p.pad_end[1] = -3; },
     {"pad_begin[1] is -5", "pad_end[1] -3", "crop less"}},
    {"fwd:i8x8",
     [](auto &p) { p.pad_end[1] = INT64_MIN; },
     {"pad_end[1] is -9223372036854775808", "at least -281474976710656"}},
    {"fwd:i8x8,f3", [](auto &p) { p.pad_end[1] = -6; }, {"kernel_size[1] is 3", "8 + 0 + -6"}},
    {"tfwd:i8x8", [](auto &p) { p.pad_begin[0] = INT64_MIN; }, {"-9223372036854775808", "at least -281474976710656"}},
    {"fwd:i8x8", [](auto &p) { p.output_padding[0] = 1; }, {"output_padding[0] is 1", "transposed is 0"}},
    {"tfwd:i8x8,s2", [](auto &p) { p.output_padding[1] = 2; }, {"output_padding[1] is 2", "less than 2"}},
    {"tfwd:i8x8,s2", [](auto &p) { p.output_padding[1] = -1; }, {"output_padding[1] is -1", "at least 0"}},
    {"fwd:i8x8,f3", [](auto &p) { p.kernel_size[1] = 9; }, {"kernel_size[1] is 9", "8 + 0 + 0"}},
    {"fwd:i8x8,f3,p1", [](auto &p) { p.dilation[0] = 5; }, {"kernel_size[0] is 3 (11 with dilation 5)", "8 + 1 + 1"}},
    {"tfwd:i2x2,f3",
     [](auto &p) { p.pad_begin[0] = p.pad_end[0] = 2; },
     {"pad_begin[0] + pad_end[0] is 2 + 2", "size of 0"}},
    // bounds
    {"fwd:i8x8", [](auto &p) { p.pad_begin[0] = kHuge; }, {"pad_begin[0] is 9223372036854775807", kMost}},
    {"fwd:i8x8", [](auto &p) { p.kernel_size[0] = p.dilation[0] = int64_t{1} << 32; }, {"4294967296", "2^63"}},
    {"fwd:i8x8",
     [](auto &p) { p.kernel_size[1] = 2, p.dilation[1] = kHuge; },
     {"dilation 9223372036854775807", "2^63"}},
    {"fwd:i8x8", [](auto &p) { p.in_channels = kHuge; }, {"in_channels is 9223372036854775807", kMost}},
    {"fwd:i8x8", [](auto &p) { p.out_channels = kMostElements + 1; }, {"out_channels is 281474976710657", kMost}},
    {"fwd:i8x8", [](auto &p) { p.batch = int64_t{1} << 60; }, {"batch is 1152921504606846976", kMost}},
    {"fwd:i8x8", [](auto &p) { p.groups = kHuge; }, {"groups is 9223372036854775807", kMost}},
    {"fwd:i8x8", [](auto &p) { p.input_size[1] = kHuge; }, {"input_size[1] is 9223372036854775807", kMost}},
    {"fwd:i8x8", [](auto &p) { p.kernel_size[1] = kHuge; }, {"kernel_size[1] is 9223372036854775807", kMost}},
    {"fwd:i8x8", [](auto &p) { p.batch = kMostElements; }, {"the input is 281474976710656 x 1 x 1 x 8 x 8", kMost}},
    {"fwd:i8x8,f3x3,p1",
     [](auto &p) { p.out_channels = int64_t{1} << 46; },
     {"the weights is 70368744177664 x 1 x 1 x 3 x 3", kMost}},
    {"fwd:i8x8,f3x3",
     [](auto &p) { p.pad_begin[1] = p.pad_end[1] = kMostElements / 2; },
     {"pad_begin[1] is 140737488355328 and pad_end[1] 140737488355328 around an input size of 8", kMost}},
    {"fwd:i8x8,f3x3,s4000000000",
     [](auto &p) { p.pad_begin[0] = p.pad_begin[1] = 4000000000; },
     {"the padded input is 1 x 1 x 1 x 4000000008 x 4000000008", kProducts}},
    {"fwd:i8x8,k64:maxpool2",
     [](auto &p) { p.epilogue.pool.window[0] = kHuge, p.epilogue.pool.pad_end[0] = kHuge - 1; },
     {"epilogue.pool.window[0] is 9223372036854775807", kMost}},
    {"fwd:i8x8,k64:maxpool2",
     [](auto &p) {
       for (int i = 0; i < 2; ++i)
         p.epilogue.pool.window[i] = kMostElements / 4, p.epilogue.pool.pad_end[i] = kMostElements / 4 - 1;
     },
     {"the padded output before pooling is 1 x 64 x 1 x 70368744177671 x 70368744177671", kProducts}},
    {"tfwd:i8x8", [](auto &p) { p.stride[0] = kHuge / 2; }, {"stride", "4611686018427387903", "2^63"}},
    {"tfwd:i8x8", [](auto &p) { p.stride[0] = kMostElements; }, {"stride[0] is 281474976710656", kMost}},
    {"fwd:n0,i8x8",
     [](auto &p) { p.input_size[0] = kMostElements; },
     {"the input is 1 x 1 x 1 x 281474976710656", kMost}},
    {"fwd:i8x8",
     [](auto &p) { p.input_size[1] = int64_t{1} << 40, p.kernel_size[1] = int64_t{1} << 30; },
     {"multiplies 8787503087624 elements by 1073741824 weights each", kProducts}},
    // types
    {"fwd:i8x8", [](auto &p) { p.input_type = 0; }, {"input_type is ? (0)", "f64, f32"}},
    {"fwd:i8x8", [](auto &p) { p.input_type = 99; }, {"input_type is ? (99)"}},
    {"fwd:i8x8", [](auto &p) { p.input_type = POLYCONV_S32; }, {"input_type is s32 (5)"}},
    {"fwd:i8x8",
     [](auto &p) { p.weights_type = POLYCONV_F16; },
     {"weights_type is f16 (3)", "f32 with input_type f32"}},
    {"fwd:i8x8:f16", [](auto &p) { p.weights_type = POLYCONV_F32; }, {"weights_type is f32 (2)", "expected f16 with"}},
    {"bwd_d:i8x8:bf16", [](auto &p) { p.weights_type = POLYCONV_F32; }, {"weights_type is f32", "expected bf16 with"}},
    {"bwd_w:i8x8:f16", [](auto &p) { p.weights_type = POLYCONV_F64; }, {"weights_type is f64", "f16 or f32 with"}},
    {"bwd_w:i8x8:f16-f32-f16", [](auto &p) { p.output_type = POLYCONV_BF16; }, {"output_type is bf16", "f16 or f32"}},
    {"fwd:i8x8:s8", [](auto &p) { p.has_weights_zero_points = 2; }, {"has_weights_zero_points is 2", "0 or 1"}},
    {"fwd:i8x8:u8-f32-u8",
     [](auto &p) { p.has_weights_zero_points = 1; },
     {"has_weights_zero_points is 1", "outside the s8/u8 rows"}},
    {"fwd:i8x8:s8:wz=channel",
     [](auto &p) { p.weights_zero_point = 3; },
     {"weights_zero_point is 3", "expected 0", "has_weights_zero_points is 1"}},
    {"fwd:i8x8", [](auto &p) { p.output_type = POLYCONV_F16; }, {"output_type is f16 (3)", "expected f32"}},
    {"fwd:i8x8:s8", [](auto &p) { p.output_type = POLYCONV_U16; }, {"output_type is u16 (8)", "s32, s8, u8 or f32"}},
    {"fwd:i8x8:s8", [](auto &p) { p.direction = 1; }, {"direction is backward data", "s8"}},
    {"fwd:i8x8:u8-f32-u8", [](auto &p) { p.direction = 2; }, {"direction is backward weights", "u8"}},
    {"fwd:i8x8:s8", [](auto &p) { p.input_zero_point = 128; }, {"input_zero_point is 128", "-128..127"}},
    {"fwd:i8x8:u8-u8-u8", [](auto &p) { p.weights_zero_point = -1; }, {"weights_zero_point is -1", "0..255"}},
    {"fwd:i8x8", [](auto &p) { p.input_zero_point = 1; }, {"input_zero_point is 1", "expected 0"}},
    {"fwd:i8x8:u8-f32-u8", [](auto &p) { p.weights_zero_point = 1; }, {"weights_zero_point is 1", "expected 0"}},
    // padding value
    {"fwd:i8x8", [](auto &p) { p.pad_value = 1.5; }, {"pad_value is 1.5", "pad_mode is not constant"}},
    {"fwd:i8x8:pad=constant=0", [](auto &p) { p.pad_value = HUGE_VAL; }, {"pad_value is inf", "finite"}},
    {"fwd:i8x8:pad=constant=0", [](auto &p) { p.pad_value = std::nan(""); }, {"pad_value is", "finite"}},
    {"fwd:i8x8:pad=constant=0", [](auto &p) { p.pad_value = 1e39; }, {"pad_value is 1e+39", "f32"}},
    {"fwd:i8x8:f16:pad=constant=0", [](auto &p) { p.pad_value = 65520; }, {"pad_value is 65520", "f16"}},
    {"fwd:i8x8:u8-f32-u8:pad=constant=0", [](auto &p) { p.pad_value = 256; }, {"pad_value is 256", "0..255"}},
    {"fwd:i8x8:u8-f32-u8:pad=constant=0", [](auto &p) { p.pad_value = 0.5; }, {"pad_value is 0.5", "whole number"}},
    {"fwd:i8x8:pad=constant=1", [](auto &p) { p.transposed = 1; }, {"pad_mode is constant", "transposed"}},
    // strides
    {"bwd_d:i8x8:xs=64.64.8.1", [](auto &p) { p.input_strides[2] = 0; }, {"input_strides[2] is 0", "at least 1"}},
    {"fwd:i8x8:xs=64.64.8.1", [](auto &p) { p.input_strides[2] = INT64_MIN; }, {"input_strides[2] is -2^63"}},
    {"fwd:i8x8:xs=64.64.8.1", [](auto &p) { p.input_strides[2] = -kHuge / 4; }, {"the input", kMost}},
    {"fwd:i8x8:ws=1.1.1.1", [](auto &p) { p.weights_strides[1] = 0; }, {"weights_strides[1] is 0", "at least 1"}},
    {"fwd:i8x8:ws=1.1.1.1", [](auto &p) { p.weights_strides[0] = -1; }, {"weights_strides[0] is -1", "or 0"}},
    {"fwd:i8x8:ws=1.1.1.1", [](auto &p) { p.weights_strides[2] = -3; }, {"weights_strides[2] is -3", "1 in weights"}},
    {"bwd_w:i8x8:ws=1.1.1.1", [](auto &p) { p.weights_strides[0] = 0; }, {"weights_strides[0] is 0", "at least 1"}},
    {"fwd:i8x8:ys=64.64.8.1", [](auto &p) { p.output_strides[3] = -1; }, {"output_strides[3] is -1", "at least 1"}},
    {"fwd:i8x8:ys=64.64.8.1",
     [](auto &p) { p.output_strides[2] = 7; },
     {"output_strides[2] is 7", "at least 8", "overlap"}},
    {"fwd:n2,i8:ys=8.8.1",
     [](auto &p) { p.output_strides[0] = 3; },
     {"output_strides[0] is 3", "at least 8", "overlap"}},
    {"bwd_d:i8x8:xs=64.64.8.1", [](auto &p) { p.input_strides[2] = 1; }, {"input_strides[", "is 1", "overlap"}},
    {"bwd_w:k3,i8x8,f3:ws=9.9.3.1", [](auto &p) { p.weights_strides[0] = 8; }, {"weights_strides[0] is 8", "overlap"}},
    {"fwd:i8x8:xs=64.64.8.1", [](auto &p) { p.input_strides[2] = kHuge / 4; }, {"the input", kMost}},
    // epilogue
    {"fwd:i8x8", [](auto &p) { p.epilogue.has_scale = 2; }, {"epilogue.has_scale is 2", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.has_bias = -1; }, {"epilogue.has_bias is -1", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.residual_from = 3; }, {"epilogue.residual_from is 3"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.residual_from = 24; }, {"epilogue.residual_from is 24"}},
    {"fwd:i8x8",
     [](auto &p) { p.epilogue.residual_from = 16; },
     {"epilogue.residual_from is 16 + 0", "before this one"}},
    {"fwd:i8x8,f3", [](auto &p) { p.epilogue.residual_from = 2; }, {"epilogue.residual_from", "height is 8", "6"}},
    {"fwd:i8x8:residual",
     [](auto &p) { p.epilogue.residual_scale = kInfinity; },
     {"epilogue.residual_scale is inf", "finite"}},
    {"fwd:i8x8:residual",
     [](auto &p) { p.epilogue.residual_zero_point = 4; },
     {"epilogue.residual_zero_point is 4", "f32"}},
    {"fwd:i8x8:u8-u8-u8:residual",
     [](auto &p) { p.epilogue.residual_zero_point = 256; },
     {"residual_zero_point is 256", "0..255"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.activation = 12; }, {"epilogue.activation is 12", "0..11"}},
    {"fwd:i8x8:elu1", [](auto &p) { p.epilogue.activation_alpha = kInfinity; }, {"activation_alpha is inf", "finite"}},
    {"fwd:i8x8:clip6", [](auto &p) { p.epilogue.activation_alpha = 0; }, {"activation_alpha is 0", "more than 0"}},
    {"fwd:i8x8:lrelu1", [](auto &p) { p.epilogue.activation_alpha = kNan; }, {"activation_alpha is", "finite"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.activation_beta = 1; }, {"activation_beta is 1", "expected 0"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.out_scale = 2; }, {"epilogue.out_scale is 2", "expected 1", "f32"}},
    {"fwd:i8x8:s8-s8-s8", [](auto &p) { p.epilogue.out_scale = 0; }, {"epilogue.out_scale is 0", "above 0"}},
    {"fwd:i8x8:s8-s8-s8", [](auto &p) { p.epilogue.out_scale = -1; }, {"epilogue.out_scale is -1", "above 0"}},
    {"fwd:i8x8:s8-s8-s8", [](auto &p) { p.epilogue.out_scale = kNan; }, {"epilogue.out_scale is", "finite"}},
    {"fwd:i8x8:s8-s8-s8", [](auto &p) { p.epilogue.out_zero_point = -129; }, {"out_zero_point is -129", "-128..127"}},
    {"fwd:i8x8:s8-s8-f32", [](auto &p) { p.epilogue.out_zero_point = 1; }, {"out_zero_point is 1", "expected 0"}},
    {"fwd:i8x8", [](auto &p) { p.epilogue.pool.kind = 3; }, {"epilogue.pool.kind is 3", "0..2"}},
    {"fwd:i8x8:avgpool2", [](auto &p) { p.epilogue.pool.count_include_pad = 2; }, {"count_include_pad is 2"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.epilogue.pool.window[1] = 0; }, {"pool.window[1] is 0", "at least 1"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.epilogue.pool.stride[0] = 0; }, {"pool.stride[0] is 0", "at least 1"}},
    {"fwd:i8x8:maxpool2",
     [](auto &p) { p.epilogue.pool.pad_begin[0] = 2; },
     {"pool.pad_begin[0] is 2", "less than the window"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.epilogue.pool.pad_end[1] = -1; }, {"pool.pad_end[1] is -1", "0 or more"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.epilogue.pool.window[0] = 9; }, {"pool.window[0] is 9", "8 + 0 + 0"}},
    {"bwd_d:i8x8", [](auto &p) { p.epilogue.has_bias = 1; }, {"epilogue.has_bias is 1", "backward data"}},
    {"bwd_w:i8x8",
     [](auto &p) { p.epilogue.residual_from = 2; },
     {"epilogue.residual_from is 2", "0 (none) or 1 (buffer)", "backward weights"}},
    {"bwd_d:k2,i8x8:ys=8.1.8.1",
     [](auto &p) { p.epilogue.residual_from = 1; },
     {"output_strides[", "so that what is written does not overlap itself"}},
    // the struct itself
    {"fwd:i8x8:maxpool2", [](auto &p) { p.pool_dilation[1] = 0; }, {"pool_dilation[1] is 0", "at least 1"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.pool_dilation[0] = 9; }, {"window[0] is 2", "pool_dilation 9"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.pool_dilation[0] = kHuge; }, {"window[0] is 2", "9223372036854775807"}},
    {"fwd:i8x8:maxpool2p1d2", [](auto &p) { p.pool_dilation[0] = 9; }, {"pool_dilation[0] is 9", "which is 8"}},
    {"fwd:i8x8:maxpool2", [](auto &p) { p.pool_ceil = -1; }, {"pool_ceil is -1", "0 or 1"}},
    {"fwd:i8x8", [](auto &p) { p.struct_size = 0; }, {"struct_size is 0", "584"}},
    {"fwd:i8x8", [](auto &p) { p.struct_size = 1u << 20; }, {"struct_size is 1048576"}},
};

struct Token {
  const char *token;
  Words words;
};

const Token kTokens[] = {
    {"", {"direction"}},
    {"fwd", {"fields after the direction"}},
    {"fwd:", {"fields after the direction"}},
    {"forward:i8x8", {"\"forward\"", "fwd, bwd_d, bwd_w"}},
    {"tt:i8x8", {"\"tt\""}},
    {"fwd:n1,c1", {"input size", "i56x56"}},
    {"fwd::", {"input size", "i56x56"}},
    {"fwd::nhwc", {"input size", "i56x56"}},
    {"fwd:i8x8x8x8", {"\"i8x8x8x8\"", "at most 3 axes"}},
    {"fwd:i", {"\"i\"", "input size"}},
    {"fwd:i8x", {"\"i8x\"", "whole number"}},
    {"fwd:i-8", {"\"i-8\"", "whole number"}},
    {"fwd:i+8", {"\"i+8\""}},
    {"fwd:i8.5", {"\"i8.5\"", "nothing after", ".5"}},
    {"fwd:i8x8,f3x3x3", {"\"f3x3x3\"", "1 or 2 axes", "found 3"}},
    {"fwd:i8x8x8,s1x2", {"\"s1x2\"", "1 or 3 axes", "found 2"}},
    {"fwd:i8x8,f3,f3", {"\"f3\"", "f only once"}},
    {"fwd:i8x8,i8x8", {"i only once"}},
    {"fwd:i8x8,p1:p1", {"padding only once"}},
    {"fwd:i8x8,w3", {"\"w3\"", "n, c, k, g, i, f, s, p, d or o"}},
    {"fwd:i8x8,", {"after the last ','"}},
    {"fwd:,i8x8", {"expected a field"}},
    {"fwd:n99999999999999999999,i8x8", {"\"n99999999999999999999\"", "below 2^63"}},
    {"fwd:i8x8,s0", {"stride[0] is 0", "at least 1"}},
    {"fwd:i8x8,f9", {"kernel_size[0] is 9", "8 + 0 + 0"}},
    {"fwd:i8x8,p1/", {"\"p1/\"", "padding at the end"}},
    {"fwd:i8x8,o1", {"output_padding[0] is 1"}},
    {"fwd:i8x8:", {"after the last ':'"}},
    {"fwd:i8x8::relu", {"between ':'"}},
    {"fwd:i8x8:hwnc", {"\"hwnc\"", "layout (nhwc)"}},
    {"fwd:i8x8:nchw-nope", {"\"nchw-nope\"", "layout after '-'"}},
    {"fwd:i8x8:nhwc:nchw", {"\"nchw\"", "layout only once"}},
    {"fwd:i8x8:u8", {"\"u8\"", "u8-s8-s32", "u8-f32-u8"}},
    {"fwd:i8x8:f32-f32", {"\"f32-f32\"", "three types"}},
    {"fwd:i8x8:f32-f16-f32", {"weights_type is f16"}},
    {"fwd:i8x8:f8", {"\"f8\"", "types (f16)"}},
    {"fwd:i8x8:pad=mirror", {"\"pad=mirror\"", "reflect, symmetric"}},
    {"fwd:i8x8:pad=constant", {"\"pad=constant\"", "a value"}},
    {"fwd:i8x8:pad=constant=x", {"\"pad=constant=x\"", "a value"}},
    {"fwd:i8x8:pad=constant=inf", {"\"pad=constant=inf\"", "a number"}},
    {"fwd:i8x8:pad=constant=1e400", {"\"pad=constant=1e400\"", "f64 can hold"}},
    {"fwd:i8x8:pad=reflect=1", {"nothing after", "\"1\""}},
    {"fwd:i8x8:xz=1", {"input_zero_point is 1", "expected 0"}},
    {"fwd:i8x8:s8:xz=300", {"input_zero_point is 300", "-128..127"}},
    {"fwd:i8x8:s8:wz=", {"\"wz=\"", "zero point"}},
    {"fwd:i8x8:s8:xz=9999999999", {"\"xz=9999999999\"", "32 bits"}},
    {"fwd:i8x8:xs=1.2.3", {"\"xs=1.2.3\"", "4 strides"}},
    {"fwd:i8x8:xs=1.2.3.4.5", {"4 strides"}},
    {"fwd:i8x8:ys=a", {"\"ys=a\"", "a stride"}},
    {"fwd:i8x8:relu+bias", {"\"relu+bias\"", "scale+bias+residual+activation+pooling"}},
    {"fwd:i8x8:bias+bias", {"at most once"}},
    {"fwd:i8x8:bias:relu", {"\"relu\"", "epilogue only once"}},
    {"fwd:i8x8:bias+relu6", {"\"bias+relu6\"", "relu6"}},
    {"fwd:i8x8:bias+", {"after the last '+'"}},
    {"fwd:i8x8:clip", {"\"clip\"", "clip6"}},
    {"fwd:i8x8:clip-1", {"activation_alpha is -1", "more than 0"}},
    {"fwd:i8x8:lrelu", {"\"lrelu\"", "slope"}},
    {"fwd:i8x8:lrelu0.1x", {"nothing after", "\"x\""}},
    {"fwd:i8x8:maxpool", {"\"maxpool\"", "window"}},
    {"fwd:i8x8:maxpool2x2x2", {"1 or 2 axes"}},
    {"fwd:i8x8:maxpool2p2", {"pool.pad_begin[0] is 2"}},
    {"fwd:i8x8:maxpool2i", {"nothing after", "\"i\""}},
    {"fwd:i8x8:maxpool9", {"pool.window[0] is 9"}},
    {"fwd:i8x8:residual=layer8", {"\"residual=layer8\"", "0..7"}},
    {"fwd:i8x8:residual=other", {"\"residual=other\"", "residual=input"}},
    {"fwd:i8x8:rs=2", {"rs=", "residual"}},
    {"fwd:i8x8:q=2", {"out_scale is 2", "expected 1"}},
    {"fwd:i8x8:s8-s8-s8:q=0", {"out_scale is 0", "above 0"}},
    {"fwd:i8x8:s8-s8-s8:q=1/999", {"out_zero_point is 999", "-128..127"}},
    {"fwd:i8x8:flip:flip", {"flip only once"}},
    {"fwd:i8x8:FLIP", {"\"FLIP\""}},
    {"fwd:i8x8:\x01\xff", {"\"??\""}}, // bytes of strangers are not passed on
};

struct Link {
  std::vector<const char *> tokens;
  Words words;
};

const Link kLinks[] = {
    {{"fwd:i8x8,f3", "fwd:i8x8,f3"}, {"layer 1: input_size[0] is 8", "6"}},
    {{"fwd:i8x8", "fwd:i8"}, {"layer 1: spatial_dims is 1", "2"}},
    {{"fwd:n2,i8x8", "fwd:n3,i8x8"}, {"layer 1: batch is 3", "2"}},
    {{"fwd:k4,i8x8", "fwd:c5,i8x8"}, {"layer 1: in_channels is 5", "4"}},
    {{"fwd:i8x8:f16", "fwd:i8x8"}, {"layer 1: input_type is f32", "f16"}},
    {{"fwd:i8x8", "fwd:i8x8:nhwc"}, {"layer 1: input_layout is 1", "0"}},
    {{"fwd:i8x8:ys=64.64.8.1", "fwd:i8x8"}, {"layer 0: has_output_strides is 1", "layer 1"}},
    {{"fwd:i8x8", "fwd:i8x8:xs=64.64.8.1"}, {"layer 1: has_input_strides is 1", "layer 0"}},
    {{"fwd:i8x8", "bwd_d:i8x8"}, {"layer 1: direction is 1", "0"}},
    {{"bwd_w:i8x8", "fwd:i8x8"}, {"layer 0: direction is 2", "0"}},
    {{"fwd:i8x8", "fwd:i8x8:residual=layer1"}, {"layer 1: epilogue.residual_from is 16 + 1", "before this one"}},
    {{"fwd:k2,i8x8", "fwd:c2,k3,i8x8:residual=layer0"}, {"layer 1: epilogue.residual_from names layer 0", "2", "3"}},
    {{"fwd:i8x8", "fwd:i8x8,f3", "fwd:i6x6:residual=input"}, {"layer 2:", "the input", "8", "6"}},
};

} // namespace

TEST_CASE("every invalid field of a problem is named, and nothing is written") {
  for (const Field &field : kFields) {
    polyconv_problem problem = parse(field.token);
    field.spoil(problem);
    CAPTURE(field.token);
    CAPTURE(field.words[0]);
    check_refused(problem, field.words);
  }
}

TEST_CASE("every malformed token is refused with its part, and the problem stays as it was") {
  for (const Token &row : kTokens) {
    CAPTURE(row.token);
    polyconv_problem problem;
    std::memset(&problem, 0x5a, sizeof problem);
    const polyconv_problem before = problem;
    CHECK(polyconv_problem_parse(row.token, &problem) == POLYCONV_INVALID_ARGUMENT);
    CHECK(std::memcmp(&problem, &before, sizeof problem) == 0);
    check_sentence(row.words);
  }
}

TEST_CASE("every broken link of a chain names its layer and both numbers") {
  for (const Link &link : kLinks) {
    std::vector<polyconv_problem> problems;
    for (const char *token : link.tokens) problems.push_back(parse(token));
    CAPTURE(link.words[0]);
    const int32_t count = static_cast<int32_t>(problems.size());
    CHECK(polyconv_problem_validate(problems.data(), count) == POLYCONV_INVALID_ARGUMENT);
    check_sentence(link.words);
    polyconv_plan *plan = nullptr;
    CHECK(polyconv_plan_create(nullptr, problems.data(), count, nullptr, &plan) == POLYCONV_INVALID_ARGUMENT);
    CHECK(plan == nullptr);
  }
}

TEST_CASE("the table covers every field of a problem and an epilogue") {
  // A field that somebody adds to polyconv.h needs its rows here.
  const std::set<std::string> fields = {"struct_size",
                                        "direction",
                                        "transposed",
                                        "spatial_dims",
                                        "flip",
                                        "batch",
                                        "in_channels",
                                        "out_channels",
                                        "groups",
                                        "input_size",
                                        "kernel_size",
                                        "stride[",
                                        "dilation",
                                        "pad_begin",
                                        "pad_end",
                                        "output_padding",
                                        "pad_mode",
                                        "separable",
                                        "pad_value",
                                        "input_type",
                                        "weights_type",
                                        "output_type",
                                        "input_layout",
                                        "weights_layout",
                                        "output_layout",
                                        "has_input_strides",
                                        "has_weights_strides",
                                        "has_output_strides",
                                        "input_zero_point",
                                        "weights_zero_point",
                                        "input_strides",
                                        "weights_strides",
                                        "output_strides",
                                        "has_scale",
                                        "has_bias",
                                        "residual_from",
                                        "activation",
                                        "activation_alpha",
                                        "activation_beta",
                                        "residual_scale",
                                        "residual_zero_point",
                                        "out_scale",
                                        "out_zero_point",
                                        "pool.kind",
                                        "count_include_pad",
                                        "pool.window",
                                        "pool.stride",
                                        "pool.pad_begin",
                                        "pool.pad_end",
                                        "pool_dilation",
                                        "pool_ceil",
                                        "has_weights_zero_points"};
  std::string said;
  for (const Field &field : kFields)
    for (const char *word : field.words) said += std::string(word) + "\n";
  for (const std::string &field : fields) CHECK_MESSAGE(said.find(field) != std::string::npos, field);
  CHECK(sizeof(kFields) / sizeof(kFields[0]) + sizeof(kTokens) / sizeof(kTokens[0]) >= 80);
}
