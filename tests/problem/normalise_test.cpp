// normalise_test.cpp - the normalised layer that kernels see, against what backend.h says of it. Normalising is
// internal, so its sources are compiled in here.
// SPDX-License-Identifier: Apache-2.0
#include "../../lib/base/status.cpp"
#include "../../lib/problem/chain.cpp"
#include "../../lib/problem/epilogue.cpp"
#include "../../lib/problem/fields.cpp"
#include "../../lib/problem/memory.cpp"
#include "../../lib/problem/problem.cpp"
#include "../../lib/problem/shape.cpp"
#include "../../lib/problem/tensors.cpp"
#include "../../lib/problem/traits.cpp"
#include "../../lib/problem/types.cpp"
#include "../../lib/token/epilogue.cpp"
#include "../../lib/token/print.cpp"
#include "../../lib/token/text.cpp"
#include "../../lib/token/token.cpp"

#include <doctest/doctest.h>
#include <polyconv/sdk/formula.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "random_problem.hpp"

using polyconv::Layer;

namespace {

Layer normalised(const std::string &token, int32_t save = POLYCONV_SAVE_NONE) {
  return polyconv::normalise({polyconv::parse_token(token)}, save).front();
}

std::vector<int64_t> size(const polyconv_tensor &t) {
  return std::vector<int64_t>(t.size, t.size + 5);
}
std::vector<int64_t> stride(const polyconv_tensor &t) {
  return std::vector<int64_t>(t.stride, t.stride + 5);
}
std::vector<int64_t> axes(const int64_t (&values)[3]) {
  return std::vector<int64_t>(values, values + 3);
}
bool same(const polyconv_tensor &a, const polyconv_tensor &b) {
  return a.type == b.type && size(a) == size(b) && stride(a) == stride(b) && a.offset == b.offset;
}
polyconv_tensor caller(const Layer &layer, int32_t which) {
  polyconv_tensor tensor = {};
  REQUIRE(polyconv::tensor_of(layer.problem, which, &tensor));
  return tensor;
}

using Sizes = std::vector<int64_t>;

} // namespace

TEST_CASE("1D and 2D become 3D, aligned on the right") {
  const polyconv_layer l = normalised("fwd:n2,c3,k4,i20,f5,s2,p1/2,d3").layer;
  CHECK(l.struct_size == sizeof l);
  CHECK(l.direction == POLYCONV_FORWARD);
  CHECK(axes(l.stride) == Sizes{1, 1, 2});
  CHECK(axes(l.dilation) == Sizes{1, 1, 3});
  CHECK(axes(l.pad_begin) == Sizes{0, 0, 1});
  CHECK(axes(l.pad_end) == Sizes{0, 0, 2});
  CHECK(size(l.input) == Sizes{2, 3, 1, 1, 20});
  CHECK(size(l.weights) == Sizes{4, 3, 1, 1, 5});
  CHECK(size(l.output) == Sizes{2, 4, 1, 1, 6});
  CHECK(polyconv::sdk::channels_first(l.input));
  CHECK(same(l.result, l.output));
  const polyconv_layer p = normalised("fwd:i9x9,f3,s2,p1:nhwc:maxpool2x3s1x2p1x2").layer;
  CHECK(axes(p.stride) == Sizes{1, 2, 2});
  CHECK(axes(p.epilogue.pool.window) == Sizes{1, 2, 3});
  CHECK(axes(p.epilogue.pool.stride) == Sizes{1, 1, 2});
  CHECK(axes(p.epilogue.pool.pad_begin) == Sizes{0, 1, 2});
  CHECK(axes(p.epilogue.pool.pad_end) == Sizes{0, 1, 2});
  CHECK(size(p.output) == Sizes{1, 1, 1, 5, 5});
  CHECK(size(p.result) == Sizes{1, 1, 1, 6, 4});
}

TEST_CASE("a transposed problem becomes its adjoint") {
  const Layer forward = normalised("tfwd:c6,k4,g2,i5x7,f3,s2,p1,o1:nchw-nhwc:scale+bias+residual+relu+maxpool2");
  CHECK(forward.swapped);
  CHECK(forward.layer.direction == POLYCONV_BACKWARD_DATA);
  CHECK(size(forward.layer.output) == Sizes{1, 6, 1, 5, 7});
  CHECK(size(forward.layer.input) == Sizes{1, 4, 1, 10, 14});
  CHECK(size(forward.layer.result) == Sizes{1, 4, 1, 5, 7});
  CHECK(same(forward.layer.output, caller(forward, POLYCONV_TENSOR_INPUT)));
  CHECK(same(forward.layer.result, caller(forward, POLYCONV_TENSOR_OUTPUT)));
  CHECK(same(forward.layer.residual, caller(forward, POLYCONV_TENSOR_RESIDUAL)));
  CHECK(size(forward.layer.weights) == Sizes{6, 2, 1, 3, 3});
  CHECK(forward.layer.epilogue.has_bias == 1);
  CHECK(forward.layer.epilogue.activation == POLYCONV_ACT_RELU);

  const Layer data = normalised("tbwd_d:c6,k4,g2,i5x7,f3,s2,p1,o1");
  CHECK(data.layer.direction == POLYCONV_FORWARD);
  CHECK(same(data.layer.result, caller(data, POLYCONV_TENSOR_INPUT)));
  CHECK(same(data.layer.output, data.layer.result));
  CHECK(same(data.layer.input, caller(data, POLYCONV_TENSOR_OUTPUT)));

  const Layer weights = normalised("tbwd_w:c6,k4,g2,i5x7,f3,s2,p1,o1:bias");
  CHECK(weights.layer.direction == POLYCONV_BACKWARD_WEIGHTS);
  CHECK(weights.layer.bias_over_input == 1);
  CHECK(same(weights.layer.input, caller(weights, POLYCONV_TENSOR_OUTPUT)));
  CHECK(same(weights.layer.output, caller(weights, POLYCONV_TENSOR_INPUT)));
  CHECK(same(weights.layer.result, weights.layer.weights));
  CHECK(normalised("bwd_w:c6,k4,i5x7,f3:bias").layer.bias_over_input == 0);
}

TEST_CASE("directions keep their tensors") {
  const Layer data = normalised("bwd_d:c6,k4,i5x7,f3,p1");
  CHECK(data.layer.direction == POLYCONV_BACKWARD_DATA);
  CHECK(same(data.layer.result, data.layer.input));
  CHECK(same(data.layer.input, caller(data, POLYCONV_TENSOR_INPUT)));
  const Layer weights = normalised("bwd_w:c6,k4,i5x7,f3,p1");
  CHECK(same(weights.layer.result, caller(weights, POLYCONV_TENSOR_WEIGHTS)));
}

TEST_CASE("the normalised convolution of every problem has consistent sizes") {
  polyconv_test::RandomProblem random(12);
  for (int round = 0; round < 2000; ++round) {
    const polyconv_problem p = random.next();
    const polyconv_layer l = polyconv::normalise({p}, POLYCONV_SAVE_NONE).front().layer;
    REQUIRE(l.input.size[1] == l.weights.size[1] * l.groups);
    REQUIRE(l.output.size[1] == l.weights.size[0]);
    for (int axis = 0; axis < 3; ++axis) {
      const int64_t room = l.input.size[2 + axis] + l.pad_begin[axis] + l.pad_end[axis] -
                           l.dilation[axis] * (l.weights.size[2 + axis] - 1) - 1;
      REQUIRE(room >= 0);
      // Output padding as large as the stride leaves rows that no output reaches, and so does a stride never taken.
      const int64_t natural = room / l.stride[axis] + 1;
      REQUIRE(natural >= l.output.size[2 + axis]);
      const bool one = l.output.size[2 + axis] == 1;
      if (p.transposed == 0 && !one) REQUIRE(natural == l.output.size[2 + axis]);
      if (p.transposed == 0) REQUIRE(room / polyconv::sdk::formula_stride(l, axis) + 1 == l.output.size[2 + axis]);
      if (one) REQUIRE(l.stride[axis] == 1);
      if (l.weights.size[2 + axis] == 1) REQUIRE(l.dilation[axis] == 1);
    }
    REQUIRE(l.result.type == (p.direction == POLYCONV_FORWARD         ? p.output_type
                              : p.direction == POLYCONV_BACKWARD_DATA ? p.input_type
                                                                      : p.weights_type));
  }
}

TEST_CASE("true convolution reads the kernel from its last tap") {
  for (const char *layout : {":kcrs", ":krsc", ":ws=1000.300.100.30.7"}) {
    const std::string base = std::string("fwd:c4,k3,g1,i9x9x9,f3x2x4") + layout;
    const polyconv_tensor plain = normalised(base).layer.weights;
    const polyconv_tensor flipped = normalised(base + ":flip").layer.weights;
    for (int64_t k = 0; k < 3; ++k)
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t d = 0; d < 3; ++d)
          for (int64_t r = 0; r < 2; ++r)
            for (int64_t s = 0; s < 4; ++s)
              REQUIRE(polyconv::sdk::at(flipped, k, c, d, r, s) == polyconv::sdk::at(plain, k, c, 2 - d, 1 - r, 3 - s));
    CHECK(polyconv::bytes_of(flipped) == polyconv::bytes_of(plain));
  }
  CHECK(normalised("fwd:c4,k3,i9x9,f1:flip").layer.weights.offset == 0);
}

TEST_CASE("layouts and own strides become strides") {
  const polyconv_layer l = normalised("fwd:n2,c3,k4,i5x6,f3x3:nhwc:krsc").layer;
  CHECK(stride(l.input) == Sizes{90, 1, 90, 18, 3});
  CHECK(stride(l.weights) == Sizes{27, 1, 27, 9, 3});
  CHECK(polyconv::sdk::channels_last(l.output));
  const polyconv_layer own = normalised("fwd:n2,c3,k4,i5x6,f3x3:xs=1000.200.20.2:ws=0.50.10.1:ys=900.1.40.8").layer;
  CHECK(stride(own.input) == Sizes{1000, 200, 20, 20, 2});
  CHECK(stride(own.weights) == Sizes{0, 50, 10, 10, 1});
  CHECK(stride(own.output) == Sizes{900, 1, 40, 40, 8});
  // With pooling the caller's strides are those of what is stored; before it there is only a dense tensor.
  const polyconv_layer pooled = normalised("fwd:n2,c3,k4,i5x6,f2x3:nhwc:ys=900.1.40.8:residual+maxpool2").layer;
  CHECK(stride(pooled.result) == Sizes{900, 1, 40, 40, 8});
  CHECK(polyconv::sdk::channels_last(pooled.output));
  CHECK(same(pooled.residual, pooled.output));
}

TEST_CASE("residuals of a lone layer come from a buffer") {
  const Layer lone = normalised("fwd:c3,k3,i8x8,f3,p1:xs=192.1.24.3:residual=input");
  CHECK(lone.layer.epilogue.residual_from == POLYCONV_RESIDUAL_BUFFER);
  CHECK(lone.problem.epilogue.residual_from == POLYCONV_RESIDUAL_INPUT);
  CHECK(same(lone.layer.residual, lone.layer.input));
  const std::vector<Layer> chain =
      polyconv::normalise({polyconv::parse_token("fwd:c3,k3,i8x8,f3,p1:nhwc"),
                           polyconv::parse_token("fwd:c3,k3,i8x8,f3,p1:nhwc-nchw:residual=layer0"),
                           polyconv::parse_token("fwd:c3,k3,i8x8,f3,p1:residual=input")},
                          POLYCONV_SAVE_NONE);
  CHECK(chain[1].layer.epilogue.residual_from == POLYCONV_RESIDUAL_LAYER);
  CHECK(same(chain[1].layer.residual, chain[0].layer.result));
  CHECK(chain[2].layer.epilogue.residual_from == POLYCONV_RESIDUAL_INPUT);
  CHECK(same(chain[2].layer.residual, chain[0].layer.input));
}

TEST_CASE("padding that changes nothing becomes zero padding") {
  CHECK(normalised("fwd:i8x8,f3,p1:pad=reflect").layer.pad_mode == POLYCONV_PAD_REFLECT);
  CHECK(normalised("fwd:i8x8,f3:pad=reflect").layer.pad_mode == POLYCONV_PAD_ZERO);
  const polyconv_layer constant = normalised("fwd:i8x8,f3,p1:pad=constant=0.1").layer;
  CHECK(constant.pad_mode == POLYCONV_PAD_CONSTANT);
  CHECK(constant.pad_value == static_cast<double>(0.1f)); // as the input type holds it
  CHECK(normalised("fwd:i8x8,f3,p1:f64:pad=constant=0.1").layer.pad_value == 0.1);
  CHECK(normalised("fwd:i8x8,f3,p1:f16:pad=constant=0.1").layer.pad_value == 0.0999755859375);
  CHECK(normalised("fwd:i8x8,f3,p1:pad=constant=0").layer.pad_mode == POLYCONV_PAD_ZERO);
  CHECK(normalised("fwd:i8x8,f3,p1:s8:xz=5:pad=constant=5").layer.pad_mode == POLYCONV_PAD_ZERO);
  CHECK(normalised("fwd:i8x8,f3,p1:s8:xz=5:pad=constant=0").layer.pad_mode == POLYCONV_PAD_CONSTANT);
  const polyconv_layer gradient = normalised("bwd_d:i8x8,f3,p1:pad=constant=2").layer;
  CHECK(gradient.pad_mode == POLYCONV_PAD_ZERO);
  CHECK(gradient.pad_value == 0);
  CHECK(normalised("bwd_w:i8x8,f3,p1:pad=constant=2").layer.pad_value == 2);
  CHECK(normalised("tfwd:i8x8,f3,p1:pad=circular").layer.pad_mode == POLYCONV_PAD_CIRCULAR);
}

TEST_CASE("rows set sums, bias and zero points") {
  const polyconv_layer q = normalised("fwd:i8x8,f3:u8-s8-u8:xz=128:wz=-3:q=0.5/7").layer;
  CHECK(q.sum_type == POLYCONV_S32);
  CHECK(q.bias_type == POLYCONV_S32);
  CHECK(q.input_zero_point == 128);
  CHECK(q.weights_zero_point == -3);
  CHECK(q.epilogue.out_scale == 0.5f);
  CHECK(q.epilogue.out_zero_point == 7);
  CHECK(normalised("tfwd:i8x8,f3:u8-s8-u8:xz=128").layer.input_zero_point == 128);
  CHECK(normalised("fwd:i8x8,f3:f16").layer.sum_type == POLYCONV_F32);
  CHECK(normalised("fwd:i8x8,f3:f64").layer.bias_type == POLYCONV_F64);
  CHECK(normalised("fwd:i8x8,f3:u16-f32-u8").layer.sum_type == POLYCONV_F32);
}

TEST_CASE("saving needs something to save") {
  const polyconv_layer argmax = normalised("fwd:n2,c3,k4,i9x9,f3:nhwc:f16:maxpool2", POLYCONV_SAVE_ARGMAX).layer;
  CHECK(argmax.save == POLYCONV_SAVE_ARGMAX);
  CHECK(argmax.saved.type == POLYCONV_S32);
  CHECK(size(argmax.saved) == size(argmax.result));
  const polyconv_layer before = normalised("tfwd:c3,k4,i9x9,f3:f16:relu+avgpool2", POLYCONV_SAVE_PRE_ACTIVATION).layer;
  CHECK(before.saved.type == POLYCONV_F32);
  CHECK(size(before.saved) == size(before.input));
  const auto refused = [](const std::string &token, int32_t save) {
    try {
      normalised(token, save);
    } catch (const polyconv::Failure &failure) {
      return failure.status() == POLYCONV_INVALID_ARGUMENT &&
             std::string(failure.what()).find("options.save is " + std::to_string(save)) == 0;
    }
    return false;
  };
  CHECK(refused("fwd:i9x9,f3:avgpool2", POLYCONV_SAVE_ARGMAX));
  CHECK(refused("fwd:i9x9,f3", POLYCONV_SAVE_ARGMAX));
  CHECK(refused("bwd_d:i9x9,f3", POLYCONV_SAVE_PRE_ACTIVATION));
  CHECK(refused("bwd_w:i9x9,f3", POLYCONV_SAVE_PRE_ACTIVATION));
  CHECK(refused("fwd:i9x9,f3", 3));
  CHECK(refused("fwd:i9x9,f3", -1));
  CHECK(normalised("bwd_w:i9x9,f3").layer.save == POLYCONV_SAVE_NONE);
}

TEST_CASE("packed weights depend on the weights, not on image, batch, padding, layout or epilogue") {
  const auto key = [](const char *token) { return polyconv::weights_token(polyconv::parse_token(token), false); };
  const std::string base = key("fwd:n1,c8,k8,i8x8,f3,p1");
  CHECK(key("fwd:n5,c8,k8,i33x12,f3,p0/2:nhwc:krsc:pad=reflect:bias+relu+maxpool2") == base);
  for (const char *other :
       {"fwd:c8,k8,i8x8,f3x2", "fwd:c8,k16,i8x8,f3", "fwd:c8,k8,g2,i8x8,f3", "bwd_d:c8,k8,i8x8,f3",
        "tfwd:c8,k8,i8x8,f3", "fwd:c8,k8,i8x8,f3,s2", "fwd:c8,k8,i8x8,f3,d2", "fwd:c8,k8,i8x8,f3:f16",
        "fwd:c8,k8,i8x8,f3:flip", "fwd:c8,k8,i8x8,f3:separable", "fwd:c8,k8,i8x8x8,f3"}) {
    CAPTURE(other);
    CHECK(key(other) != base);
  }
  CHECK(key("fwd:i8x8:s8:xz=1") != key("fwd:i8x8:s8:xz=2"));
  CHECK(key("fwd:i8x8:s8:wz=1") != key("fwd:i8x8:s8:wz=2"));
}

TEST_CASE("a tensor that is read and may overlap itself is a trait, one with gaps is none") {
  const auto traits = [](const std::string &token) { return normalised(token).layer.traits; };
  for (const char *usual :
       {"fwd:n2,c3,k4,i8x8,f3x3:nhwc:residual", "fwd:n2,c3,k4,i8x8,f3x3:xs=1000.1.80.10", "bwd_d:n2,c3,k4,i8x8,f3x3",
        "fwd:n1,c5,k1,i12x23,f3x1:xs=1.400.23.1", "fwd:c1,k1,i8x8,f3x3:xs=1.1.8.1", "bwd_w:n0,c3,k4,i8x8,f3x3"})
    CHECK(traits(usual) == 0);
  for (const char *overlaps : {"fwd:c5,k1,i12x23,f3x1:xs=1.1.1.1", "fwd:c8,k31,i40x40,f3x3:xs=1.4096.4.1",
                               "fwd:n2,c3,k4,i8x8,f3x3:xs=191.64.8.1", "bwd_d:n1,c5,k2,i12x23,f3x1:ys=1.1.1.1",
                               "bwd_w:n1,c5,k2,i12x23,f3x1:ys=1.1.1.1", "bwd_w:n1,c5,k2,i12x23,f3x1:xs=1.1.1.1",
                               "tfwd:n1,c5,k2,i12x23,f3x1:xs=1.1.1.1"})
    CHECK(traits(overlaps) == POLYCONV_TRAIT_OVERLAP);
  // What activation or pooling goes back through is read by a step of its own.
  const Layer pooled = normalised("bwd_d:n1,c1,k2,i8x8,f3x3,p1:ys=1.1.1.1:avgpool2");
  CHECK(pooled.layer.traits == 0);
  CHECK(pooled.gradient.traits == POLYCONV_TRAIT_OVERLAP);
}

TEST_CASE("a kernel's table says what it takes only where it reaches so far") {
  polyconv_kernel kernel = {};
  kernel.takes = POLYCONV_TRAITS_ALL;
  kernel.struct_size = offsetof(polyconv_kernel, takes);
  CHECK(polyconv::takes_of(kernel) == 0);
  kernel.struct_size = sizeof kernel;
  CHECK(polyconv::takes_of(kernel) == POLYCONV_TRAITS_ALL);
  for (uint64_t trait = 1; (trait & POLYCONV_TRAITS_ALL) != 0; trait <<= 1)
    CHECK(std::string(polyconv::trait_words(trait)).find("no words") == std::string::npos);
}

TEST_CASE("sizes that are rounded up are padding at the end; only averages that count it are told where it ends") {
  const auto pads = [](const std::string &pool, const std::string &size, int64_t pad_end, int64_t overhang) {
    const Layer layer = normalised("fwd:i" + size + ":" + pool);
    CAPTURE(pool);
    CHECK(layer.layer.epilogue.pool.pad_end[2] == pad_end);
    CHECK(layer.layer.pool_overhang[2] == overhang);
    const polyconv_pool &p = layer.layer.epilogue.pool;
    const int64_t reach = (p.window[2] - 1) * layer.layer.pool_dilation[2] + 1;
    const int64_t floored = (layer.layer.output.size[4] + p.pad_begin[2] + p.pad_end[2] - reach) / p.stride[2] + 1;
    CHECK(floored == layer.layer.result.size[4]);
    const uint64_t traits = (overhang != 0 ? POLYCONV_TRAIT_CLIPPED_POOLING : 0) |
                            (layer.layer.pool_dilation[2] != 1 ? POLYCONV_TRAIT_DILATED_POOLING : 0);
    CHECK(layer.layer.traits == traits);
  };
  pads("maxpool3s2", "8", 0, 0);
  pads("maxpool3s2c", "8", 1, 0);
  pads("avgpool3s2c", "8", 1, 0);
  pads("avgpool3s2ic", "8", 1, 1);
  pads("avgpool3s2p1ic", "8", 2, 1);
  pads("avgpool3s2p1ic", "7", 1, 0);
  pads("maxpool2s3p1c", "3", 1, 0);
  pads("maxpool3s2p1d2c", "8", 2, 0);
  pads("maxpool3s3p1d2c", "8", 2, 0);
  pads("maxpool1s2d3", "8", 0, 0); // one element is not dilated
  const Layer back = normalised("bwd_d:n1,c1,k1,i8x8,f1:avgpool3s2d2ic");
  CHECK(back.layer.traits == 0);
  CHECK(back.gradient.traits == (POLYCONV_TRAIT_CLIPPED_POOLING | POLYCONV_TRAIT_DILATED_POOLING));
}

TEST_CASE("steps that are never taken are 1, and the convolution stays the same") {
  const polyconv_layer l = normalised("fwd:i24x18,f3x1,s2x9223372036854775807,d2x9223372036854775807").layer;
  CHECK(axes(l.stride) == Sizes{1, 2, 1});
  CHECK(axes(l.dilation) == Sizes{1, 2, 1});
  CHECK(size(l.input) == Sizes{1, 1, 1, 24, 18});
  CHECK(size(l.output) == Sizes{1, 1, 1, 10, 1}); // by the stride that was given
  const polyconv_layer data = normalised("bwd_d:i3,f1,s576460752303423488").layer;
  CHECK(axes(data.stride) == Sizes{1, 1, 1});
  CHECK(size(data.result) == Sizes{1, 1, 1, 1, 3});
  const polyconv_layer weights = normalised("bwd_w:i7x7,f7x7,s3x4").layer;
  CHECK(axes(weights.stride) == Sizes{1, 1, 1});
  // The normalised output of a transposed problem is its input.
  const polyconv_layer transposed = normalised("tfwd:i1x2,f3x3,s5x5,p0x1,o2x0").layer;
  CHECK(axes(transposed.stride) == Sizes{1, 1, 5});
  CHECK(size(transposed.result) == Sizes{1, 1, 1, 5, 6});
  CHECK(axes(normalised("tfwd:i4,f9,s4,p6").layer.stride) == Sizes{1, 1, 4});
}

TEST_CASE("so is the stride of pooling with one result") {
  const polyconv_layer l = normalised("fwd:i8x8,f1:maxpool2x8s2x9223372036854775807").layer;
  CHECK(axes(l.epilogue.pool.stride) == Sizes{1, 2, 1});
  const polyconv_layer gradient =
      normalised("bwd_d:i8x8,f1:relu+maxpool2x8s2x9", POLYCONV_SAVE_PRE_ACTIVATION).gradient;
  CHECK(axes(gradient.epilogue.pool.stride) == Sizes{1, 2, 1});
}

TEST_CASE("a tensor's stride along an axis of one element ends with the tensor") {
  const polyconv_layer l =
      normalised("fwd:n1,c2,k1,i4x6,f1:xs=9223372036854775807.24.6.1:ys=7.9223372036854775807.6.1").layer;
  CHECK(stride(l.input) == Sizes{48, 24, 6, 6, 1});
  CHECK(stride(l.output) == Sizes{7, 24, 6, 6, 1});
  CHECK(polyconv::sdk::channels_first(l.input));
  const polyconv_layer none = normalised("fwd:n0,c2,k1,i4x6,f1:xs=9223372036854775807.24.6.1").layer;
  CHECK(stride(none.input) == Sizes{48, 24, 6, 6, 1});
}

TEST_CASE("packed weights are the same only where their kernels see the same steps") {
  const auto token = [](const char *text) { return polyconv::weights_token(polyconv::parse_token(text), false); };
  CHECK(token("bwd_d:i8,f3,s2") == token("bwd_d:i9,f3,s2"));
  CHECK(token("bwd_d:i3,f3,s2") != token("bwd_d:i8,f3,s2")); // one output: packed as with stride 1
  CHECK(token("bwd_d:i3,f3,s2") == token("bwd_d:i3,f3,s1"));
  CHECK(token("fwd:i8,f1,d2") == token("fwd:i8,f1"));
}
