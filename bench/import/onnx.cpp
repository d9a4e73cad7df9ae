// onnx.cpp - the convolutions of an ONNX model, by integrations/onnx's reader.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv_onnx_reader.h>

#include <cstring>
#include <memory>

#include "import/import.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

void read_onnx(const std::string &path, const OpenSizes &sizes, Collector &collector) {
  std::vector<std::string> names; // which the C structs point to
  names.reserve(sizes.size());
  std::vector<polyconv_onnx_size> open;
  for (const auto &[name, size] : sizes) {
    const size_t at = name.rfind('@');
    names.push_back(name.substr(0, at));
    const int32_t axis =
        at == std::string::npos ? -1 : static_cast<int32_t>(parse_integer(name.substr(at + 1), "--size " + name));
    open.push_back({names.back().c_str(), axis, size});
  }
  polyconv_onnx_model *model = nullptr;
  if (polyconv_onnx_read(path.c_str(), open.data(), static_cast<int32_t>(open.size()), &model) != POLYCONV_SUCCESS)
    throw Error(kUsage, path + ": " + polyconv_onnx_error());
  const std::unique_ptr<polyconv_onnx_model, void (*)(polyconv_onnx_model *)> owner(model, polyconv_onnx_free);
  for (int32_t i = 0; i < polyconv_onnx_layer_count(model); ++i) {
    const polyconv_onnx_layer *layer = polyconv_onnx_layer_at(model, i);
    const std::string name = std::string(layer->within) + (*layer->within ? "/" : "") + layer->name;
    if (*layer->reason == '\0')
      collector.add(layer->problem, name);
    else
      collector.warn(
          std::string("left out: ") + layer->operation + " " + name + ": " + layer->reason +
          (std::strstr(layer->reason, "unknown") ? "; --size NAME=N says a size that the model leaves open" : ""));
  }
}

} // namespace polyconv::bench
