// cuda_texture_test.cpp - what only cuda-texture has: borders by the texture unit's address modes hit exactly the texel
// that the padding mode names, at awkward sizes and far outside; planes and linear objects give the same bits; binding
// is asked for, refused and repeated.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/check.hpp>
#include <polyconv/sdk/padding.hpp>

#include <cstring>

#include "cuda.hpp"

using cuda_test::Layer;
using cuda_test::no_device;
using cuda_test::numbers;
using polyconv::Device;

namespace {

const std::string kKernel = "cuda-texture/texture";

// The configs whose name begins with `path`, as full kernel names.
std::vector<std::string> configs(const std::string &path) {
  std::vector<std::string> result;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i)
    for (int32_t k = 0; const char *kernel = polyconv_backend_kernel(i, k); ++k)
      for (int32_t c = 0; const char *config = polyconv_backend_config(i, k, c); ++c)
        if (kKernel == kernel && std::string(config).rfind(path, 0) == 0) result.push_back(kKernel + "@" + config);
  return result;
}

// Whether the plug-in was built and a device answers; otherwise the case is skipped by name.
bool no_texture() {
  if (no_device()) return true;
  if (!configs("plane").empty()) return false;
  polyconv_test::skip("cuda-texture is not built");
  return true;
}

bool takes(const Device &device, const std::string &token, const polyconv::Options &options) {
  const polyconv::Problem problem(token);
  polyconv_plan *plan = nullptr;
  const polyconv_status status = polyconv_plan_create(device.get(), &problem, 1, &options, &plan);
  polyconv_plan_destroy(plan);
  return status == POLYCONV_SUCCESS;
}

// Reads every texel of a line of `size`, and a whole period to both sides of it, through a filter that is 1 in its
// middle: each output names the texel that was hit. Returns how many are wrong.
int wrong_texels(const Device &device, const std::string &kernel, int64_t size, bool across, int32_t mode) {
  const char *const name = mode == POLYCONV_PAD_SYMMETRIC ? "symmetric" : "circular";
  const std::string s = std::to_string(size);
  const std::string token = across ? "fwd:n1,c1,k1,i1x" + s + ",f3x3,p1x" + s + ":pad=" + name
                                   : "fwd:n1,c1,k1,i" + s + "x8,f3x3,p" + s + "x1:pad=" + name;
  Layer layer(device, token, kernel, 1);
  const int64_t width = across ? 1 : 8; // texels that share a coordinate
  std::vector<float> texels(static_cast<size_t>(size * width));
  for (size_t i = 0; i < texels.size(); ++i) texels[i] = static_cast<float>(static_cast<int64_t>(i) / width);
  layer.input.set(texels);
  layer.weights.set({0, 0, 0, 0, 1, 0, 0, 0, 0});
  layer.run();
  const std::vector<float> found = layer.output.values();
  int wrong = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i) / width - (size - 1); // pad of size, middle tap at 1
    const int64_t expected = polyconv::sdk::padded_index(at, size, mode);
    wrong += found[i] == static_cast<float>(expected) ? 0 : 1;
  }
  CHECK(found.size() == static_cast<size_t>((3 * size - 2) * width));
  return wrong;
}

// Every size up to 130, then powers of two and their neighbours, primes, and others up to the largest.
std::vector<int64_t> sizes() {
  std::vector<int64_t> result;
  for (int64_t size = 1; size <= 130; ++size) result.push_back(size);
  for (int64_t power = 256; power <= 16384; power *= 2)
    for (const int64_t size : {power - 1, power, power + 1})
      if (size <= 16384) result.push_back(size);
  for (const int64_t size :
       {251,   641,   1000,  1021,  1080,  1920,  2160,  3001,  3840,  5003,  6997,  7681,  10007, 11213, 12289,
        13331, 14401, 15101, 15877, 16001, 16301, 16319, 16333, 16339, 16349, 16361, 16363, 16369, 16381})
    result.push_back(size);
  return result;
}

// The bytes that a kernel makes of a layer whose input begins `shift` bytes into its memory.
std::vector<uint8_t> output_of(const Device &device, const std::string &token, const std::string &kernel,
                               size_t shift) {
  const polyconv::Problem problem(token);
  const polyconv::Options options = Layer::options(kernel);
  const polyconv::Plan plan(problem, options, device);
  const auto bytes = [&](int32_t which) { return static_cast<size_t>(problem.bytes(which)); };
  const polyconv::Memory input(device, bytes(POLYCONV_TENSOR_INPUT) + shift);
  const polyconv::Memory weights(device, bytes(POLYCONV_TENSOR_WEIGHTS));
  const polyconv::Memory output(device, bytes(POLYCONV_TENSOR_OUTPUT));
  const std::vector<float> values = numbers(problem.bytes(POLYCONV_TENSOR_INPUT), 3);
  const std::vector<float> taps = numbers(problem.bytes(POLYCONV_TENSOR_WEIGHTS), 4);
  polyconv::Buffers buffers;
  buffers.input = static_cast<char *>(input.get()) + shift;
  buffers.weights[0] = weights.get();
  buffers.output = output.get();
  device.copy(buffers.input, values.data(), values.size() * sizeof(float));
  device.copy(weights.get(), taps.data(), taps.size() * sizeof(float));
  plan.bind(buffers).run();
  std::vector<uint8_t> result(output.bytes());
  device.copy(result.data(), output.get(), result.size());
  polyconv::require(polyconv_stream_synchronize(device.get(), nullptr));
  return result;
}

} // namespace

TEST_CASE("mirrored and wrapped coordinates hit every texel") {
  if (no_texture()) return;
  const Device device("cuda:0");
  const std::string kernel = configs("plane").front();
  for (const int64_t size : sizes())
    for (const int32_t mode : {POLYCONV_PAD_SYMMETRIC, POLYCONV_PAD_CIRCULAR})
      for (const bool across : {true, false}) {
        CAPTURE(size);
        CAPTURE(mode);
        CAPTURE(across);
        CHECK(wrong_texels(device, kernel, size, across, mode) == 0);
      }
}

TEST_CASE("planes are right in every config, type and padding that they take") {
  if (no_texture()) return;
  const Device device("cuda:0");
  int checked = 0;
  for (const char *layer :
       {"fwd:n1,c1,k1,i37x64,f3x3,p1", "fwd:n1,c1,k1,i19x32,f5x5,p2", "fwd:n1,c1,k5,i40x96,f7x7,p3",
        "fwd:n2,c3,k6,i16x64,f3x3,p1", "fwd:n1,c4,k4,g4,i16x64,f5x5,p2", "fwd:n1,c1,k2,i33x64,f4x5,s2,p2,d2",
        "fwd:n1,c2,k5,i32x64,f3x3,p1:bias+relu", "fwd:n2,c3,k6,i16x64,f5x5,p2:bias+silu",
        "fwd:n1,c1,k5,i37x64,f3x3:residual", "fwd:n1,c1,k1,i1x33,f1x5,p0x2", "fwd:n1,c1,k1,i24x32,f15x15,p7"})
    for (const char *type : {"", ":f16", ":bf16", ":u8-f32-u8", ":u16-f32-f32"})
      for (const char *padding : {"", ":pad=replicate", ":pad=symmetric", ":pad=circular"}) {
        const std::string token = std::string(layer) + type + padding;
        polyconv::check::Case c(token);
        for (const std::string &kernel : configs("plane")) {
          const polyconv::Options options = Layer::options(kernel);
          if (!takes(device, token, options)) continue;
          const polyconv::check::Result result = c.run(polyconv::check::Mode::Exact, device.get(), options);
          CHECK_MESSAGE(result.acceptable(), token << " by " << kernel << ": " << result.sentence);
          ++checked;
        }
      }
  MESSAGE(checked << " checks");
  CHECK(checked > 500);
}

TEST_CASE("planes and linear objects give the same bits, at any pointer") {
  if (no_texture()) return;
  const Device device("cuda:0");
  const std::vector<std::string> planes = configs("plane"), linear = configs("linear");
  REQUIRE(planes.size() == linear.size());
  for (const char *token : {"fwd:n1,c1,k1,i70x72,f7x7,p3", "fwd:n1,c2,k5,i32x64,f5x5,p2:pad=circular",
                            "fwd:n1,c1,k2,i40x64,f3x3,s2,p1:pad=replicate"})
    for (size_t i = 0; i < planes.size(); ++i) {
      CAPTURE(std::string(token));
      CAPTURE(planes[i]);
      const std::vector<uint8_t> expected = output_of(device, token, planes[i], 0);
      CHECK(output_of(device, token, planes[i], 64) == expected); // no multiple of 512: bound as a linear object
      CHECK(output_of(device, token, linear[i], 0) == expected);
      CHECK(output_of(device, token, linear[i], 192) == expected);
    }
}

TEST_CASE("a plan needs its bound set, and many bound sets come and go") {
  if (no_texture()) return;
  const Device device("cuda:0");
  polyconv::Options options = Layer::options(kKernel);
  options.bind = 0;
  CHECK(!takes(device, "fwd:n1,c1,k1,i40x48,f3x3,p1", options));
  CHECK(std::string(polyconv_last_error()).find("polyconv_bind") != std::string::npos);
  Layer layer(device, "fwd:n1,c1,k1,i40x48,f3x3,p1", kKernel, 1);
  CHECK(layer.plan.info().needs_bind == 1);
  CHECK(polyconv_run(layer.plan.get(), &layer.buffers, nullptr) == POLYCONV_INVALID_ARGUMENT);
  layer.run();
  const std::vector<float> expected = layer.output.values();
  const polyconv::Memory other(device, static_cast<size_t>(layer.problem.bytes(POLYCONV_TENSOR_OUTPUT)));
  for (int i = 0; i < 2000; ++i) { // others bind other pointers between the runs of the first
    polyconv::Buffers buffers = layer.buffers;
    buffers.output = other.get();
    const polyconv::Bound bound = layer.plan.bind(buffers);
    if (i % 500 == 0) bound.run();
  }
  layer.output.set(numbers(layer.problem.bytes(POLYCONV_TENSOR_OUTPUT), 9));
  layer.run();
  CHECK(layer.output.values() == expected);
}

TEST_CASE("what a plane cannot do is refused in words") {
  if (no_texture()) return;
  const Device device("cuda:0");
  struct {
    const char *token, *words;
  } const refused[] = {{"fwd:n1,c1,k1,i40x33,f3x3,p1", "32 bytes"},
                       {"fwd:n2,c1,k1,i5x8,f3x3,p1", "512 bytes"},
                       {"fwd:n65,c1,k1,i64x64,f3x3,p1", "planes"},
                       {"fwd:n1,c1,k1,i40x48,f3x3,p1:pad=reflect", "reflect"},
                       {"fwd:n1,c1,k1,i40x48,f3x3,p1:pad=constant=2", "constant"},
                       {"fwd:n1,c1,k1,i8x16392,f3x3,p1:pad=symmetric", "16384"},
                       {"fwd:n1,c1,k1,i8x16,f3x3,p20:pad=circular", "period"},
                       {"fwd:n1,c2,k1,i32x32,f3x3,p1:nhwc", "neighbours"},
                       {"fwd:n1,c1,k1,i40x48,f33x1,p16x0", "31 taps"},
                       {"fwd:n1,c1,k1,i40x48,f3x3,p1:f64", "f32"}};
  for (const auto &r : refused) {
    CAPTURE(std::string(r.token));
    CHECK(!takes(device, r.token, Layer::options(configs("plane").front())));
    CHECK_MESSAGE(std::string(polyconv_last_error()).find(r.words) != std::string::npos, polyconv_last_error());
  }
}
