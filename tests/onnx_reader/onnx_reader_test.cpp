// onnx_reader_test.cpp - the convolutions of ONNX files: their problems, what they read, and what malformed files get.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "model_writer.hpp"

#include <polyconv_onnx_reader.h>
#include <polyconv/polyconv.hpp>

#include <limits>
#include <memory>
#include <random>

namespace {

using polyconv_test::attribute;
using polyconv_test::attribute_of_call;
using polyconv_test::Message;
using polyconv_test::ModelWriter;
using Model = std::unique_ptr<polyconv_onnx_model, decltype(&polyconv_onnx_free)>;

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kFloat16 = 10, kBfloat16 = 16;

std::vector<float> floats(size_t count) {
  return std::vector<float>(count, 0.5f);
}

Model read(const std::string &file, std::vector<polyconv_onnx_size> sizes = {}) {
  polyconv_onnx_model *model = nullptr;
  const auto status =
      polyconv_onnx_read_memory(file.data(), file.size(), sizes.data(), static_cast<int32_t>(sizes.size()), &model);
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS, polyconv_onnx_error());
  return {model, polyconv_onnx_free};
}

const polyconv_onnx_layer &layer(const Model &model, int32_t index) {
  REQUIRE(index < polyconv_onnx_layer_count(model.get()));
  return *polyconv_onnx_layer_at(model.get(), index);
}

std::string token(const polyconv_onnx_layer &layer) {
  if (*layer.reason) return layer.reason;
  polyconv::Problem problem;
  static_cast<polyconv_problem &>(problem) = layer.problem;
  return problem.token();
}

bool refused(polyconv_status expected, const std::string &file, const std::string &word,
             std::vector<polyconv_onnx_size> sizes = {}) {
  polyconv_onnx_model *model = nullptr;
  const auto status =
      polyconv_onnx_read_memory(file.data(), file.size(), sizes.data(), static_cast<int32_t>(sizes.size()), &model);
  CHECK(model == nullptr);
  INFO(polyconv_onnx_error());
  CHECK(std::string(polyconv_onnx_error()).find(word) != std::string::npos);
  return status == expected;
}

// A residual block, then what usually stands between convolutions.
ModelWriter network() {
  ModelWriter writer;
  writer.input("x", kFloat, {-2, 3, 32, -1}).output("y");
  writer.constant("w0", kFloat, {8, 3, 3, 3}, floats(216)).constant("b0", kFloat, {8}, floats(8));
  writer.constant("w1", kFloat, {8, 8, 1, 1}, floats(64)).constant("w2", kFloat, {8, 1, 3, 3}, floats(72));
  writer.constant("w3", kFloat, {16, 4, 3, 3}, floats(576)).constant("six", kFloat, {}, floats(1));
  writer.constant("zero", kFloat, {}, std::vector<float>{0});
  writer.constant("pads", kInt64, {8}, std::vector<int64_t>{0, 0, 1, 1, 0, 0, 1, 1});
  writer.constant("scales", kFloat, {4}, std::vector<float>{1, 1, 2, 2});
  writer.node("Conv", {"x", "w0", "b0"}, {"a"}, {attribute("pads", {1, 1, 1, 1}), attribute("strides", {2, 2})});
  writer.node("Relu", {"a"}, {"a1"});
  writer.node("Conv", {"a1", "w1"}, {"b"});
  writer.node("Add", {"b", "a1"}, {"c"});
  writer.node("Clip", {"c", "zero", "six"}, {"d"});
  writer.node("MaxPool", {"d"}, {"e"},
              {attribute("kernel_shape", {3, 3}), attribute("strides", {2, 2}), attribute("ceil_mode", int64_t{1})});
  writer.node("Conv", {"e", "w2"}, {"f"}, {attribute("group", int64_t{8}), attribute("auto_pad", "SAME_UPPER")});
  writer.node("Pad", {"f", "pads"}, {"g"});
  writer.node("Resize", {"g", "", "scales"}, {"h"});
  writer.node("Concat", {"h", "h"}, {"i"}, {attribute("axis", int64_t{1})});
  writer.node("ConvTranspose", {"i", "w3"}, {"j"}, {attribute("strides", {2, 2}), attribute("output_padding", {1, 1})});
  writer.node("GlobalAveragePool", {"j"}, {"k"});
  writer.node("Mul", {"j", "k"}, {"l"});
  writer.node("Conv", {"l", "w4"}, {"y"}); // 4 channels, as j
  writer.constant("w4", kFloat, {5, 4, 1, 1}, floats(20));
  return writer;
}

// One layer of 4 channels between these values of a body.
ModelWriter body(const char *input, const char *output) {
  ModelWriter writer;
  writer.node("Conv", {input, "w"}, {"inner"}, {attribute("pads", {1, 1, 1, 1})}).node("Relu", {"inner"}, {output});
  return writer.output(output);
}

// A layer, branches that read what it writes, a loop around the same layer, and a scan over the images of a batch.
ModelWriter nested() {
  ModelWriter writer, loop = body("carried", "next"), scan = body("image", "filtered"), small;
  small.node("MaxPool", {"a"}, {"pooled"}, {attribute("kernel_shape", {2, 2}), attribute("strides", {2, 2})});
  small.node("Conv", {"pooled", "w"}, {"other"}, {attribute("pads", {2, 2, 2, 2})}).output("other");
  writer.input("x", kFloat, {1, 4, 8, 8}).input("choice", 9, {}).input("count", kInt64, {});
  writer.input("images", kFloat, {1, 4, 6, 7, 5}).output("y").output("z").output("s");
  writer.constant("w", kFloat, {4, 4, 3, 3}, floats(144));
  loop.input("i", kInt64, {}).input("go", 9, {}).input("carried", kFloat, {-1, 4, -1, -1});
  scan.input("image", kFloat, {-1, 4, -1, -1});
  writer.node("Conv", {"x", "w"}, {"a"}, {attribute("pads", {1, 1, 1, 1})}).node("Relu", {"a"}, {"b"});
  writer.node("If", {"choice"}, {"c"},
              {attribute("then_branch", body("b", "chosen").graph()), attribute("else_branch", small.graph())});
  writer.node("If", {"choice"}, {"same"},
              {attribute("then_branch", body("b", "one").graph()), attribute("else_branch", body("b", "two").graph())});
  writer.node("Loop", {"count", "choice", "x"}, {"y"}, {attribute("body", loop.graph())});
  writer.node("Scan", {"images"}, {"s"},
              {attribute("body", scan.graph()), attribute("num_scan_inputs", int64_t{1}),
               attribute("scan_input_axes", std::vector<int64_t>{-1})});
  return writer.node("Conv", {"same", "w"}, {"z"});
}

// Two calls of a function with an attribute of its own, which calls another; the second leaves out the bias and gives
// another stride.
ModelWriter with_functions() {
  ModelWriter block, network, writer;
  block.node("Conv", {"in", "weights", "bias"}, {"sum"}, {attribute("pads", {1, 1, 1, 1})})
      .node("Relu", {"sum"}, {"out"});
  network.node("Block", {"x", "w", "b"}, {"inner"}, {}, "my");
  network.node("Conv", {"inner", "v"}, {"y"},
               {attribute_of_call("strides", "step"), attribute_of_call("group", "none")});
  writer.input("image", kFloat, {1, 4, 9, 9}).output("last");
  writer.constant("w", kFloat, {4, 4, 3, 3}, floats(144)).constant("v", kFloat, {4, 4, 1, 1}, floats(16));
  writer.constant("b", kFloat, {4}, floats(4));
  writer.add(block.function("my", "Block", {"in", "weights", "bias"}, {"out"}));
  writer.add(network.function("my", "Net", {"x", "w", "v", "b"}, {"y"}, {attribute("step", {1, 1})}));
  writer.node("Net", {"image", "w", "v", "b"}, {"one"}, {}, "my").node("Relu", {"one"}, {"between"});
  return writer.node("Net", {"between", "w", "v"}, {"two"}, {attribute("step", {2, 2})}, "my");
}

} // namespace

TEST_CASE("a network's convolutions come with their shapes, epilogues and what they read") {
  const Model model = read(network().file(), {{"N", -1, 2}, {"x", 3, 64}});
  REQUIRE(polyconv_onnx_layer_count(model.get()) == 5);
  CHECK(token(layer(model, 0)) == "fwd:n2,c3,k8,i32x64,f3x3,s2,p1:bias+relu");
  CHECK(token(layer(model, 1)) == "fwd:n2,c8,k8,i16x32,f1x1:residual+clip0.5");
  CHECK(token(layer(model, 2)) == "fwd:n2,c8,k8,g8,i8x16,f3x3,p1"); // 7.5 x 15.5, rounded up
  CHECK(token(layer(model, 3)) == "tfwd:n2,c16,k4,i20x36,f3x3,s2,o1");
  CHECK(token(layer(model, 4)) == "fwd:n2,c4,k5,i42x74,f1x1");
  CHECK(layer(model, 0).input == std::string("x"));
  CHECK(layer(model, 0).output == std::string("a1"));
  CHECK(layer(model, 0).input_layer == -1);
  CHECK(layer(model, 1).input_layer == 0);
  CHECK(layer(model, 1).residual == std::string("a1"));
  CHECK(layer(model, 1).residual_layer == 0);
  CHECK(layer(model, 2).input_layer == -1); // a pooling lies between
  CHECK(layer(model, 3).operation == std::string("ConvTranspose"));
  REQUIRE(layer(model, 0).bias != nullptr);
  CHECK(static_cast<const float *>(layer(model, 0).weights)[215] == 0.5f);
  CHECK(polyconv_onnx_layer_at(model.get(), 5) == nullptr);
}

TEST_CASE("bodies of If, Loop and Scan are read where their nodes stand, with what the graph around them knows") {
  const Model model = read(nested().file());
  const std::pair<const char *, const char *> expected[] = {
      {"", "fwd:n1,c4,k4,i8x8,f3x3,p1"}, // no Relu: a branch reads what lies between
      {"c/then_branch", "fwd:n1,c4,k4,i8x8,f3x3,p1:relu"},
      {"c/else_branch", "fwd:n1,c4,k4,i4x4,f3x3,p2"},
      {"same/then_branch", "fwd:n1,c4,k4,i8x8,f3x3,p1:relu"},
      {"same/else_branch", "fwd:n1,c4,k4,i8x8,f3x3,p1:relu"},
      {"y/body", "fwd:n1,c4,k4,i8x8,f3x3,p1:relu"},
      {"s/body", "fwd:n1,c4,k4,i6x7,f3x3,p1:relu"},
      {"", "fwd:n1,c4,k4,i8x8,f3x3"}}; // both branches give one shape
  REQUIRE(polyconv_onnx_layer_count(model.get()) == 8);
  for (int32_t i = 0; i < 8; ++i) {
    CHECK(layer(model, i).within == std::string(expected[i].first));
    CHECK(token(layer(model, i)) == expected[i].second);
    CHECK(layer(model, i).input_layer == -1);
    CHECK(layer(model, i).weights != nullptr);
  }
}

TEST_CASE("graphs in graphs are read as deep as files are, and refused deeper") {
  auto file = [](int depth) {
    ModelWriter inner = body("x", "y");
    for (; depth > 0; --depth) {
      ModelWriter outer;
      outer.node("If", {"choice"}, {"y"}, {attribute("then_branch", inner.graph())}).output("y");
      inner = outer;
    }
    inner.input("x", kFloat, {1, 4, 8, 8}).constant("w", kFloat, {4, 4, 3, 3}, floats(144));
    return inner.file();
  };
  const Model model = read(file(3));
  CHECK(layer(model, 0).within == std::string("y/then_branch/y/then_branch/y/then_branch"));
  CHECK(token(layer(model, 0)) == "fwd:n1,c4,k4,i8x8,f3x3,p1:relu");
  CHECK(polyconv_onnx_layer_count(read(file(32)).get()) == 1);
  CHECK(refused(POLYCONV_IO_ERROR, file(33), "more than 32 deep"));
}

TEST_CASE("a name inside a body hides the one around it") {
  ModelWriter inner, writer;
  inner.constant("w", kFloat, {2, 4, 1, 1}, floats(8)).node("Identity", {"open"}, {"x"});
  inner.node("Conv", {"a", "w"}, {"b"}).node("Conv", {"x", "w"}, {"c"}).output("b").output("c");
  writer.input("x", kFloat, {1, 4, 5, 5}).input("open", kFloat, {-2, 4, 5, 5}).input("choice", 9, {}).output("y");
  writer.constant("w", kFloat, {4, 4, 1, 1}, floats(16)).node("Conv", {"x", "w"}, {"a"});
  writer.node("If", {"choice"}, {"y", "z"}, {attribute("else_branch", inner.graph())});
  const Model model = read(writer.file());
  CHECK(token(layer(model, 1)) == "fwd:n1,c4,k2,i5x5,f1x1");
  CHECK(token(layer(model, 2)).find("its input x is of unknown shape") != std::string::npos);
  CHECK(token(layer(read(writer.file(), {{"N", -1, 3}}), 2)) == "fwd:n3,c4,k2,i5x5,f1x1");
}

TEST_CASE("axes that come and go, and slices, between convolutions") {
  using Numbers = std::vector<int64_t>;
  ModelWriter writer;
  writer.input("x", kFloat, {1, 4, 20})
      .output("z")
      .constant("w", kFloat, {6, 4, 3}, floats(72))
      .constant("v", kFloat, {2, 3, 2, 2}, floats(24));
  const std::pair<const char *, Numbers> constants[] = {
      {"one", {1}},       {"axes", {-1, 0}},  {"begins", {-3, 15}}, {"ends", {INT64_MAX, INT64_MIN}},
      {"where", {1, -1}}, {"steps", {1, -2}}, {"at", {-2}},         {"beyond", {1, 4}}};
  for (const auto &[name, numbers] : constants)
    writer.constant(name, kInt64, {static_cast<int64_t>(numbers.size())}, numbers);
  writer.node("Conv", {"x", "w"}, {"a"});                                              // 1 6 18
  writer.node("Slice", {"a", "begins", "ends", "where", "steps"}, {"b"});              // 1 3 8
  writer.node("Unsqueeze", {"b", "axes"}, {"c"}).node("Squeeze", {"c", "one"}, {"d"}); // 1 1 3 8 1, 1 3 8 1
  writer.node("Unsqueeze", {"d", "at"}, {"e"}).node("Squeeze", {"e"}, {"f"});          // 1 3 8 1 1, 3 8
  writer.node("Unsqueeze", {"f"}, {"g"}, {attribute("axes", Numbers{0, 2})});          // 1 3 1 8
  writer.node("MaxPool", {"g"}, {"h"}).node("Conv", {"g", "v"}, {"z"}, {attribute("pads", {1, 0, 0, 0})});
  writer.node("Slice", {"g", "where", "ends", "beyond"}, {"i"})
      .node("Conv", {"i", "v"}, {"j"}); // an axis that is not there
  const Model model = read(writer.file());
  CHECK(token(layer(model, 0)) == "fwd:n1,c4,k6,i20,f3");
  CHECK(token(layer(model, 1)) == "fwd:n1,c3,k2,i1x8,f2x2,p1x0/0");
  CHECK(token(layer(model, 2)) == "its input i is of unknown shape");
}

TEST_CASE("a size that nobody gave is named") {
  const Model model = read(network().file(), {{"N", -1, 2}});
  CHECK(token(layer(model, 0)) == "its input x is of unknown shape: axis 3");
  CHECK(token(layer(model, 1)).find("unknown shape") != std::string::npos);
}

TEST_CASE("quantised convolutions bring scales and zero points") {
  ModelWriter writer;
  writer.input("x", kUint8, {1, 4, 8, 8}).output("y").output("z");
  writer.constant("w", kInt8, {2, 4, 1, 1}, std::vector<int8_t>{1, 2, 3, 4, 5, 6, 7, 8});
  writer.constant("sx", kFloat, {}, std::vector<float>{0.5f}).constant("zx", kUint8, {}, std::vector<uint8_t>{128});
  writer.constant("sw", kFloat, {2}, std::vector<float>{2, 4}).constant("zw", kInt8, {2}, std::vector<int8_t>{1, 2});
  writer.constant("sy", kFloat, {}, std::vector<float>{3}).constant("zy", kInt8, {}, std::vector<int8_t>{-5});
  writer.constant("b", kInt32, {2}, std::vector<int32_t>{7, 8});
  writer.node("QLinearConv", {"x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"}, {"y"});
  writer.node("ConvInteger", {"x", "w", "zx"}, {"z"});
  const Model model = read(writer.file());
  const polyconv_onnx_layer &quantised = layer(model, 0);
  CHECK(token(quantised) == "fwd:n1,c4,k2,i8x8,f1x1:u8-s8-s8:xz=128:wz=channel:scale+bias:q=3/-5");
  REQUIRE(quantised.scale != nullptr);
  CHECK(quantised.scale[1] == 2.0f);
  REQUIRE(quantised.weights_zero_point != nullptr);
  CHECK(static_cast<const int8_t *>(quantised.weights_zero_point)[1] == 2);
  CHECK(static_cast<const int32_t *>(quantised.bias)[1] == 8);
  CHECK(token(layer(model, 1)) == "fwd:n1,c4,k2,i8x8,f1x1:u8-s8-s32:xz=128");
}

TEST_CASE("the bias is in the type that its problem has: f32 beside half precision") {
  const auto of_type = [](int type, int bias_type, const std::vector<uint16_t> &bias) {
    ModelWriter writer;
    writer.input("x", type, {1, 1, 4, 4}).output("y");
    writer.constant("w", type, {2, 1, 1, 1}, std::vector<uint16_t>{0, 0}).constant("b", bias_type, {2}, bias);
    writer.node("Conv", {"x", "w", "b"}, {"y"});
    return writer.file();
  };
  const Model half = read(of_type(kFloat16, kFloat16, {0x3e00, 0xc000})); // 1.5, -2
  REQUIRE(layer(half, 0).bias != nullptr);
  CHECK(static_cast<const float *>(layer(half, 0).bias)[0] == 1.5f);
  CHECK(static_cast<const float *>(layer(half, 0).bias)[1] == -2.0f);
  const Model brain = read(of_type(kBfloat16, kBfloat16, {0x3fc0, 0xc000}));
  REQUIRE(layer(brain, 0).bias != nullptr);
  CHECK(static_cast<const float *>(layer(brain, 0).bias)[0] == 1.5f);
  CHECK(token(layer(read(of_type(kFloat16, kBfloat16, {0, 0})), 0)) == "its bias is of element type 16, expected 10");
}

TEST_CASE("a zero point that is no whole number of 32 bits is told, not cut") {
  for (const float zero : {1e30f, -3e9f, 2.5f, std::numeric_limits<float>::quiet_NaN()}) {
    ModelWriter writer;
    writer.input("x", kUint8, {1, 1, 4, 4}).output("y");
    writer.constant("w", kInt8, {1, 1, 1, 1}, std::vector<int8_t>{1});
    writer.constant("z", kFloat, {}, std::vector<float>{zero});
    writer.node("ConvInteger", {"x", "w", "z"}, {"y"});
    writer.node("ConvInteger", {"x", "w", "", "z"}, {"v"});
    const Model model = read(writer.file());
    CHECK(token(layer(model, 0)).find("its input's zero point is ") == 0);
    CHECK(token(layer(model, 1)).find("its weights' zero point is ") == 0);
  }
}

TEST_CASE("what follows goes into the epilogue only where nobody else reads what lies between") {
  ModelWriter writer;
  writer.input("x", kFloat, {1, 2, 5}).output("a").output("d");
  writer.constant("w", kFloat, {2, 2, 1}, floats(4));
  writer.node("Conv", {"x", "w"}, {"a"}).node("Relu", {"a"}, {"b"}); // the model's own output
  writer.node("Conv", {"b", "w"}, {"c"}).node("Relu", {"c"}, {"d"}).node("Add", {"c", "d"}, {"e"});
  const Model model = read(writer.file());
  CHECK(token(layer(model, 0)) == "fwd:n1,c2,k2,i5,f1");
  CHECK(token(layer(model, 1)) == "fwd:n1,c2,k2,i5,f1");
  CHECK(layer(model, 1).input_layer == -1);
}

TEST_CASE("what polyconv cannot take is told layer by layer") {
  ModelWriter writer;
  writer.input("x", kFloat, {1, 3, 4, 4}).input("i", 9, {1, 3, 4, 4}).output("y");
  writer.constant("w", kFloat, {2, 3, 3, 3}, floats(54)).constant("v", kFloat, {2, 5, 3, 3}, floats(90));
  writer.constant("short", kFloat, {2, 3, 1, 1}, floats(6)).constant("b", kFloat, {3}, floats(3));
  writer.node("Conv", {"x", "v"}, {"a"}).node("Conv", {"i", "w"}, {"c"}).node("Conv", {"x", "nothing"}, {"e"});
  writer.node("Conv", {"x", "w"}, {"f"}, {attribute("strides", {0, 1}), attribute("auto_pad", "SAME_LOWER")});
  writer.node("Conv", {"x", "short", "b"}, {"g"})
      .node("Conv", {"x", "w"}, {"h"}, {attribute("pads", std::vector<int64_t>{1})});
  const Model model = read(writer.file());
  const char *words[] = {"channels", "element type 9", "nothing is of unknown shape", "stride", "3 elements", "pads"};
  for (int32_t i = 0; i < 6; ++i) {
    INFO(token(layer(model, i)));
    CHECK(std::string(layer(model, i).reason).find(words[i]) != std::string::npos);
  }
}

TEST_CASE("a call of the model's own function is what it stands for") {
  const Model model = read(with_functions().file());
  REQUIRE(polyconv_onnx_layer_count(model.get()) == 4);
  const std::string names[] = {"one/inner/sum", "one", "two/inner/sum", "two"}; // by results: the nodes have none

  const std::string tokens[] = {"fwd:n1,c4,k4,i9x9,f3x3,p1:bias+relu", "fwd:n1,c4,k4,i9x9,f1x1:relu",
                                "fwd:n1,c4,k4,i9x9,f3x3,p1:relu", "fwd:n1,c4,k4,i9x9,f1x1,s2"};
  for (int32_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(std::string(layer(model, i).reason) == "");
    CHECK(std::string(layer(model, i).name) == names[i]);
    CHECK(token(layer(model, i)) == tokens[i]);
  }
}

TEST_CASE("functions that never end are refused") {
  ModelWriter itself, writer;
  itself.node("Twice", {"a"}, {"b"}, {}, "my").node("Twice", {"b"}, {"c"}, {}, "my");
  writer.input("x", kFloat, {1, 3, 4, 4}).node("Twice", {"x"}, {"y"}, {}, "my");
  writer.add(itself.function("my", "Twice", {"a"}, {"c"}));
  CHECK(refused(POLYCONV_IO_ERROR, writer.file(), "functions call each other more than 32 deep"));
  ModelWriter many, wide;
  for (int i = 0; i < 600; ++i) many.node("Relu", {"a"}, {"b"});
  wide.input("x", kFloat, {1, 3, 4, 4}).add(many.function("my", "Many", {"a"}, {"b"}));
  for (int i = 0; i < 600; ++i) wide.node("Many", {"x"}, {"y"}, {}, "my");
  CHECK(refused(POLYCONV_IO_ERROR, wide.file(), "more than 262144 nodes"));
}

TEST_CASE("malformed files and wrong arguments are refused with a sentence") {
  const std::string good = network().file();
  CHECK(refused(POLYCONV_IO_ERROR, "", "no graph"));
  CHECK(refused(POLYCONV_IO_ERROR, "hello", "wire type"));
  CHECK(refused(POLYCONV_IO_ERROR, good.substr(0, good.size() / 2), "bytes"));
  CHECK(refused(POLYCONV_IO_ERROR, good + good, "two graphs"));
  CHECK(refused(POLYCONV_INVALID_ARGUMENT, good, "batch", {{"batch", -1, 1}}));
  CHECK(refused(POLYCONV_INVALID_ARGUMENT, good, "axis 4", {{"x", 4, 1}}));
  CHECK(refused(POLYCONV_INVALID_ARGUMENT, good, "-1", {{"N", -1, -1}}));
  ModelWriter writer;
  writer.input("x", kFloat, {1, 3, 4, 4})
      .constant("w", kFloat, {2, 3, 3, 3}, floats(53))
      .node("Conv", {"x", "w"}, {"y"});
  CHECK(refused(POLYCONV_IO_ERROR, writer.file(), "212 bytes of data, expected 216"));
  ModelWriter huge;
  huge.constant("w", kFloat, {INT64_MAX, INT64_MAX}, floats(1));
  CHECK(refused(POLYCONV_IO_ERROR, huge.file(), "no tensor can have"));
  polyconv_onnx_model *model = nullptr;
  CHECK(polyconv_onnx_read("/nonexistent/model.onnx", nullptr, 0, &model) == POLYCONV_IO_ERROR);
  CHECK(polyconv_onnx_read("/", nullptr, 0, &model) == POLYCONV_IO_ERROR);
  CHECK(polyconv_onnx_read(nullptr, nullptr, 0, &model) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_onnx_read_memory(good.data(), good.size(), nullptr, 1, &model) == POLYCONV_INVALID_ARGUMENT);
  CHECK(polyconv_onnx_read_memory(good.data(), good.size(), nullptr, 0, nullptr) == POLYCONV_INVALID_ARGUMENT);
  CHECK(model == nullptr);
  polyconv_onnx_free(nullptr);
}

TEST_CASE("no byte of a file, whatever it becomes, does harm") {
  const std::string files[] = {network().file(), nested().file(), with_functions().file()};
  std::mt19937 random(5);
  const polyconv_onnx_size axis = {"x", 3, 64};
  int32_t read = 0;
  for (int32_t trial = 0; trial < 24000; ++trial) {
    const std::string &good = files[trial / 8000];
    std::string file = good.substr(0, trial % 3 == 0 ? random() % good.size() : good.size());
    for (uint32_t changes = 1 + random() % 8; changes > 0 && !file.empty(); --changes)
      file[random() % file.size()] = static_cast<char>(random() % 2 ? random() : 0xff);
    polyconv_onnx_model *model = nullptr;
    const polyconv_status status = polyconv_onnx_read_memory(file.data(), file.size(), &axis, trial % 2, &model);
    CHECK((status == POLYCONV_SUCCESS || status == POLYCONV_IO_ERROR || status == POLYCONV_INVALID_ARGUMENT));
    for (int32_t i = 0; i < polyconv_onnx_layer_count(model); ++i, ++read) {
      const polyconv_onnx_layer *layer = polyconv_onnx_layer_at(model, i);
      if (!*layer->reason) CHECK(polyconv_problem_validate(&layer->problem, 1) == POLYCONV_SUCCESS);
    }
    polyconv_onnx_free(model);
  }
  CHECK(read > 1000); // many of them are still models
}
