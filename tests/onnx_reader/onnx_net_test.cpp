// onnx_net_test.cpp - the example onnx_net on small models, as a person would run it.
// ctest-label: examples
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "model_writer.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using polyconv_test::attribute;
using polyconv_test::ModelWriter;

constexpr int kFloat = 1, kUint8 = 2, kInt8 = 3;

struct Ran {
  int status;
  std::string text;
};

// Runs the example on a model, "" for none, and gives all that it prints.
Ran run(const std::string &file, const std::string &arguments) {
  const auto folder = std::filesystem::temp_directory_path() / ("onnx_net_test" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = (folder / "model.onnx").string();
  if (!file.empty()) std::ofstream(path, std::ios::binary) << file;
  const std::string command =
      std::string(std::getenv("POLYCONV_TEST_ONNX_NET")) + " " + (file.empty() ? "" : path) + " " + arguments + " 2>&1";
  Ran ran{-1, ""};
  std::FILE *pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) ran.text.append(buffer, got);
  const int status = pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  std::filesystem::remove_all(folder);
  return ran;
}

std::vector<float> numbers(size_t count) {
  std::vector<float> result(count);
  for (size_t i = 0; i < count; ++i) result[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 32;
  return result;
}

bool has(const Ran &ran, const std::string &words) {
  return ran.text.find(words) != std::string::npos;
}

// Two blocks with residuals, a pooling between, a depthwise layer, one that is transposed.
std::string floats() {
  ModelWriter writer;
  writer.input("x", kFloat, {-2, 3, 18, -1}).output("y");
  writer.constant("w0", kFloat, {16, 3, 3, 3}, numbers(432)).constant("b0", kFloat, {16}, numbers(16));
  writer.constant("w1", kFloat, {16, 16, 1, 1}, numbers(256)).constant("w2", kFloat, {16, 1, 3, 3}, numbers(144));
  writer.constant("w3", kFloat, {16, 4, 2, 2}, numbers(256));
  writer.node("Conv", {"x", "w0", "b0"}, {"a"}, {attribute("pads", {1, 1, 1, 1})}).node("Relu", {"a"}, {"b"});
  writer.node("Conv", {"b", "w1"}, {"c"}).node("Relu", {"c"}, {"d"});
  writer.node("Conv", {"d", "w2"}, {"e"}, {attribute("pads", {1, 1, 1, 1}), attribute("group", int64_t{16})});
  writer.node("Conv", {"e", "w1"}, {"f"}).node("Add", {"f", "b"}, {"g"}).node("Relu", {"g"}, {"h"});
  writer.node("MaxPool", {"h"}, {"i"}, {attribute("kernel_shape", {2, 2}), attribute("strides", {2, 2})});
  writer.node("Conv", {"i", "w1"}, {"j"});
  writer.node("ConvTranspose", {"j", "w3"}, {"y"}, {attribute("strides", {2, 2})});
  return writer.file();
}

} // namespace

TEST_CASE("chains agree with the reference") {
  const Ran ran = run(floats(), "N=2 x:3=30");
  INFO(ran.text);
  CHECK(ran.status == 0);
  CHECK(has(ran, "6 of 6 layers in 3 chains")); // the first layer is read twice, a pooling lies between
  CHECK(has(ran, "3 layers"));
  CHECK(has(ran, "0 wrong"));
}

TEST_CASE("quantised layers agree to the last bit") {
  ModelWriter writer;
  writer.input("x", kUint8, {1, 8, 9, 9}).output("y");
  std::vector<int8_t> weights(8 * 8 * 9);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<int8_t>(i * 37);
  writer.constant("w", kInt8, {8, 8, 3, 3}, weights);
  writer.constant("s", kFloat, {}, std::vector<float>{0.02f}).constant("t", kFloat, {}, std::vector<float>{0.3f});
  writer.constant("z", kUint8, {}, std::vector<uint8_t>{120}).constant("v", kInt8, {}, std::vector<int8_t>{3});
  writer.node("QLinearConv", {"x", "s", "z", "w", "s", "v", "t", "z"}, {"a"}, {attribute("pads", {1, 1, 1, 1})});
  writer.node("QLinearConv", {"a", "t", "z", "w", "s", "v", "t", "z"}, {"y"});
  const Ran ran = run(writer.file(), "");
  INFO(ran.text);
  CHECK(ran.status == 0);
  CHECK(has(ran, "2 of 2 layers in 1 chains"));
  CHECK(has(ran, "difference 0.0e+00"));
}

TEST_CASE("weights that the file does not hold are random") {
  ModelWriter writer;
  writer.input("x", kFloat, {1, 4, 9, 9}).input("w", kFloat, {4, 4, 3, 3}).output("y").node("Conv", {"x", "w"}, {"y"});
  const Ran ran = run(writer.file(), "");
  INFO(ran.text);
  CHECK(ran.status == 0);
}

TEST_CASE("branches whose tensors have the same names and other sizes do not share them") {
  ModelWriter writer, small, large;
  for (ModelWriter *branch : {&small, &large}) {
    branch->node(
        "MaxPool", {"x"}, {"pooled"},
        {attribute("kernel_shape", {1, 1}), attribute("strides", std::vector<int64_t>(2, branch == &small ? 9 : 1))});
    branch->node("Conv", {"pooled", "w"}, {"result"}, {attribute("pads", {1, 1, 1, 1})}).output("result");
  }
  writer.input("x", kFloat, {1, 4, 99, 99}).input("choice", 9, {}).output("y");
  writer.constant("w", kFloat, {4, 4, 3, 3}, numbers(144));
  writer.node("If", {"choice"}, {"y"},
              {attribute("then_branch", small.graph()), attribute("else_branch", large.graph())});
  const Ran ran = run(writer.file(), "");
  INFO(ran.text);
  CHECK(ran.status == 0);
  CHECK(has(ran, "2 of 2 layers in 2 chains"));
}

TEST_CASE("what cannot run is told") {
  const Ran open = run(floats(), "N=2");
  INFO(open.text);
  CHECK(open.status == 2);
  CHECK(has(open, "left out: its input x is of unknown shape: axis 3"));
  CHECK(run(floats(), "N").status == 2);
  CHECK(has(run(floats(), "N"), "is no size"));
  CHECK(has(run(floats(), "M=3"), "no dimension called M"));
  CHECK(has(run("nonsense", ""), "no ONNX model"));
  CHECK(has(run("", ""), "usage"));
}
