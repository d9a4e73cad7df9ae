// onnx_fuzz.cpp - any bytes as an ONNX file: refused with a sentence, or layers whose problems are valid.
// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <polyconv_onnx_reader.h>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using polyconv_fuzz::require;
  const polyconv_onnx_size batch = {"N", -1, 2};
  for (int32_t count = 0; count < 2; ++count) {
    polyconv_onnx_model *model = nullptr;
    const polyconv_status status = polyconv_onnx_read_memory(data, size, &batch, count, &model);
    require(status == POLYCONV_SUCCESS || *polyconv_onnx_error() != '\0', "a refused file gets a sentence");
    require((status == POLYCONV_SUCCESS) == (model != nullptr), "a model comes with success alone");
    for (int32_t i = 0; i < polyconv_onnx_layer_count(model); ++i) {
      const polyconv_onnx_layer *layer = polyconv_onnx_layer_at(model, i);
      require(*layer->reason != '\0' || polyconv_problem_validate(&layer->problem, 1) == POLYCONV_SUCCESS,
              "a layer has a reason or a valid problem");
      require(layer->input_layer < i && layer->residual_layer < i, "a layer reads what is before it");
    }
    polyconv_onnx_free(model);
  }
  return 0;
}
