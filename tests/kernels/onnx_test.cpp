// onnx_test.cpp - ONNX's own Conv, ConvTranspose, ConvInteger and QLinearConv cases on every backend that is there,
// each case that it takes; and its examples of activations. The data are not part of this repository:
// POLYCONV_SHARED_DATA says where they lie, and without them the test reports skipped. ctest-label: conformance
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "skip.hpp"

#if !__has_include(<nlohmann/json.hpp>)

TEST_CASE("ONNX's convolution cases on the CPU or a GPU") {
  polyconv_test::skip("built without nlohmann/json.hpp (Debian: nlohmann-json3-dev)");
}

#else

#include <polyconv/polyconv.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string folder() {
  const char *data = std::getenv("POLYCONV_SHARED_DATA");
  return (data != nullptr ? fs::path(data) : fs::path("..") / "shared" / "data").append("onnx-conv").string();
}

std::string read_file(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file, "cannot read " << path.string());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// An array of numpy's format 1.0, in C order.
struct Array {
  int32_t type = 0;
  std::vector<int64_t> shape;
  std::string bytes;

  size_t count() const { return bytes.size() / polyconv_type_size(type); }
  template <class T>
  const T *as() const {
    return reinterpret_cast<const T *>(bytes.data());
  }
};

Array read_npy(const fs::path &path) {
  const std::string file = read_file(path);
  REQUIRE_MESSAGE(file.compare(0, 8, std::string("\x93NUMPY\x01\x00", 8)) == 0, path.string() << " is no npy 1.0");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t size = byte(8) + 256 * byte(9);
  const std::string header = file.substr(10, size);
  REQUIRE(header.find("'fortran_order': False") != std::string::npos);
  Array array;
  const std::pair<const char *, int32_t> types[] = {
      {"'<f4'", POLYCONV_F32}, {"'|u1'", POLYCONV_U8}, {"'|i1'", POLYCONV_S8}, {"'<i4'", POLYCONV_S32}};
  for (const auto &[name, type] : types)
    if (header.find(name) != std::string::npos) array.type = type;
  REQUIRE_MESSAGE(array.type != 0, path.string() << ": " << header);
  size_t at = header.find("'shape': (") + 10;
  int64_t count = 1;
  while (header[at] != ')') {
    if (std::isdigit(static_cast<unsigned char>(header[at])) == 0) {
      ++at;
      continue;
    }
    size_t digits = 0;
    array.shape.push_back(std::stoll(header.substr(at), &digits));
    count *= array.shape.back();
    at += digits;
  }
  array.bytes = file.substr(10 + size);
  REQUIRE(array.count() == static_cast<size_t>(count));
  return array;
}

// A case as polyconv sees it.
struct OnnxCase {
  std::string name;
  polyconv_problem problem;
  Array x, w, y;
  std::vector<float> scale, slope;
  std::vector<uint8_t> weights_zero_points;
};

int32_t scalar(const Json &json, const fs::path &path, const char *input) {
  if (!json["inputs"].contains(input)) return 0;
  const Array array = read_npy(path / json["inputs"][input]["file"].get<std::string>());
  REQUIRE(array.type == POLYCONV_U8);
  return static_cast<int32_t>(array.as<uint8_t>()[0]);
}

float number(const Json &json, const fs::path &path, const char *input) {
  return read_npy(path / json["inputs"][input]["file"].get<std::string>()).as<float>()[0];
}

void set_geometry(const Json &resolved, polyconv_problem *p) {
  const auto dims = static_cast<size_t>(p->spatial_dims);
  for (size_t a = 0; a < dims; ++a) {
    p->kernel_size[a] = resolved["kernel_shape"][a].get<int64_t>();
    p->stride[a] = resolved["strides"][a].get<int64_t>();
    p->dilation[a] = resolved["dilations"][a].get<int64_t>();
    p->pad_begin[a] = resolved["pads"][a].get<int64_t>();
    p->pad_end[a] = resolved["pads"][a + dims].get<int64_t>();
    if (p->transposed != 0) p->output_padding[a] = resolved["output_padding"][a].get<int64_t>();
  }
  p->groups = resolved["group"].get<int64_t>();
}

// The zero point of each output channel's weights.
std::vector<int32_t> weights_zero_points(const Json &json, const fs::path &path, size_t channels) {
  std::vector<int32_t> result(channels, 0);
  if (!json["inputs"].contains("w_zero_point")) return result;
  const Array array = read_npy(path / json["inputs"]["w_zero_point"]["file"].get<std::string>());
  for (size_t k = 0; k < channels; ++k) result[k] = array.as<uint8_t>()[array.count() == 1 ? 0 : k];
  return result;
}

// One for all weights where they are the same, else one for each output channel.
void set_zero_points(const std::vector<int32_t> &zero_points, OnnxCase *c) {
  const bool same = std::set<int32_t>(zero_points.begin(), zero_points.end()).size() == 1;
  c->problem.has_weights_zero_points = !same;
  c->problem.weights_zero_point = same ? zero_points[0] : 0;
  for (const int32_t zero_point : zero_points) c->weights_zero_points.push_back(static_cast<uint8_t>(zero_point));
}

OnnxCase read_case(const fs::path &path) {
  const Json json = Json::parse(read_file(path / "case.json"));
  OnnxCase c;
  c.name = json["name"].get<std::string>();
  c.x = read_npy(path / "x.npy");
  c.w = read_npy(path / "w.npy");
  c.y = read_npy(path / "y.npy");
  REQUIRE_FALSE(json["has_bias"].get<bool>()); // none of the twenty has one
  polyconv_problem &p = c.problem;
  polyconv_problem_init(&p);
  p.spatial_dims = json["spatial_dims"].get<int32_t>();
  p.transposed = json["op"] == "ConvTranspose" ? 1 : 0;
  set_geometry(json["resolved"], &p);
  p.batch = c.x.shape[0];
  p.in_channels = c.x.shape[1];
  p.out_channels = p.transposed != 0 ? c.w.shape[1] * p.groups : c.w.shape[0];
  for (int a = 0; a < p.spatial_dims; ++a) p.input_size[a] = c.x.shape[static_cast<size_t>(2 + a)];
  p.input_type = c.x.type;
  p.weights_type = c.w.type;
  p.output_type = c.y.type;
  p.input_zero_point = scalar(json, path, "x_zero_point");
  if (c.w.type == POLYCONV_U8)
    set_zero_points(weights_zero_points(json, path, static_cast<size_t>(p.out_channels)), &c);
  if (json["op"] == "QLinearConv") {
    p.epilogue.has_scale = 1;
    p.epilogue.out_scale = number(json, path, "y_scale");
    p.epilogue.out_zero_point = scalar(json, path, "y_zero_point");
    c.scale.assign(static_cast<size_t>(p.out_channels), number(json, path, "x_scale") * number(json, path, "w_scale"));
  }
  return c;
}

// Backends that promise every problem; the others may refuse one.
const std::set<std::string> kTakesAll = {"reference", "threads", "openmp", "tbb", "cuda-direct"};

struct Backend {
  std::string name;
  const polyconv_device *device = nullptr;
};

// The backends of one kind of device that can serve.
std::vector<Backend> backends(const std::string &device_kind) {
  std::vector<Backend> result;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info{};
    info.struct_size = sizeof info;
    REQUIRE(polyconv_backend_get(i, &info) == POLYCONV_SUCCESS);
    Backend backend{info.name};
    if (info.available != 0 && device_kind == info.device_kind &&
        polyconv_device_find(info.device_kind, &backend.device) == POLYCONV_SUCCESS)
      result.push_back(backend);
  }
  return result;
}

void compare(const OnnxCase &c, const std::string &found, const std::string &backend) {
  if (c.y.type != POLYCONV_F32) {
    CHECK_MESSAGE(found == c.y.bytes, c.name << " on " << backend);
    return;
  }
  for (size_t i = 0; i < c.y.count(); ++i) {
    float value;
    std::memcpy(&value, found.data() + i * sizeof value, sizeof value);
    const float expected = c.y.as<float>()[i];
    CHECK_MESSAGE(std::fabs(value - expected) <= 1e-5f * std::fabs(expected) + 1e-6f,
                  c.name << " on " << backend << ", element " << i << ": " << value << ", expected " << expected);
  }
}

// False where the backend has no kernel for the case.
bool check(const OnnxCase &c, const Backend &backend) {
  polyconv_tensor output;
  int64_t bytes = 0;
  REQUIRE_MESSAGE(polyconv_problem_tensor(&c.problem, POLYCONV_TENSOR_OUTPUT, &output, &bytes) == POLYCONV_SUCCESS,
                  c.name << ": " << std::string(polyconv_last_error()));
  for (size_t a = 2; a < c.y.shape.size(); ++a) CHECK(output.size[5 - c.y.shape.size() + a] == c.y.shape[a]);
  REQUIRE(static_cast<size_t>(bytes) == c.y.bytes.size());
  // Short strings lie wherever their object does: tensors must be aligned.
  std::vector<char> found(c.y.bytes.size() + 1, '\xff'), x(c.x.bytes.begin(), c.x.bytes.end()),
      w(c.w.bytes.begin(), c.w.bytes.end());
  polyconv_options options;
  polyconv_options_init(&options);
  const std::string glob = backend.name + "/*";
  options.kernel = glob.c_str();
  options.fallback = POLYCONV_FALLBACK_ALLOW;
  polyconv_buffers buffers;
  polyconv_buffers_init(&buffers);
  buffers.input = x.data();
  buffers.weights[0] = w.data();
  buffers.output = found.data();
  buffers.scale[0] = c.scale.data();
  buffers.slope[0] = c.slope.data();
  buffers.weights_zero_point[0] = c.weights_zero_points.data();
  const polyconv_status status = polyconv_convolve(backend.device, &c.problem, 1, &options, &buffers);
  if (status == POLYCONV_UNSUPPORTED && kTakesAll.count(backend.name) == 0) return false;
  REQUIRE_MESSAGE(status == POLYCONV_SUCCESS,
                  c.name << " on " << backend.name << ": " << std::string(polyconv_last_error()));
  compare(c, std::string(found.data(), c.y.bytes.size()), backend.name);
  return true;
}

void check_all(const std::string &device_kind) {
  if (!fs::is_directory(folder())) {
    polyconv_test::skip("no folder " + folder() + "; POLYCONV_SHARED_DATA may say where onnx-conv lies");
    return;
  }
  const std::vector<Backend> served = backends(device_kind);
  if (served.empty()) {
    polyconv_test::skip("no backend of kind " + device_kind + " can serve here");
    return;
  }
  std::set<fs::path> cases;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder()))
    if (entry.is_directory()) cases.insert(entry.path());
  CHECK(cases.size() == 20);
  for (const Backend &backend : served) {
    int taken = 0;
    for (const fs::path &path : cases) taken += check(read_case(path), backend) ? 1 : 0;
    MESSAGE(backend.name << ": " << taken << " cases right, " << cases.size() - taken << " refused");
  }
}

} // namespace

TEST_CASE("ONNX's convolution cases on the CPU") {
  check_all("cpu");
}

// Of the operators' pages: a layer of one channel and one tap of weight 1 is the activation alone.
TEST_CASE("ONNX's examples of Elu, Gelu and PRelu, as activations of a layer") {
  struct Example {
    const char *activation;
    std::vector<float> x, slope, y;
  };
  const Example examples[] = {
      {"elu2", {-1, 0, 1}, {}, {-1.2642411f, 0, 1}},
      {"elu1", {-2, -0.5f, 3}, {}, {-0.86466472f, -0.39346934f, 3}},
      {"gelutanh", {-1, 0, 1}, {}, {-0.15880801f, 0, 0.84119199f}},
      {"gelu", {-1, 0, 1}, {}, {-0.15865526f, 0, 0.84134474f}},
      {"prelu", {-2, 0, 3}, {0.25f}, {-0.5f, 0, 3}},
  };
  for (const Backend &backend : backends("cpu"))
    for (const Example &example : examples) {
      OnnxCase c;
      c.name = example.activation;
      const std::string token = "fwd:n1,c1,k1,i3,f1:" + c.name;
      polyconv_problem_init(&c.problem);
      REQUIRE_MESSAGE(polyconv_problem_parse(token.c_str(), &c.problem) == POLYCONV_SUCCESS, token);
      const auto array = [](const std::vector<float> &values) {
        return Array{POLYCONV_F32,
                     {1, 1, static_cast<int64_t>(values.size())},
                     std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float))};
      };
      c.x = array(example.x), c.w = array({1}), c.y = array(example.y);
      c.slope = example.slope;
      check(c, backend);
    }
}

TEST_CASE("ONNX's convolution cases on a GPU") {
  check_all("cuda");
}

#endif
