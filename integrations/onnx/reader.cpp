// reader.cpp - the C interface: files, and the wall behind which what is thrown becomes a status with a sentence.
//
// SPDX-License-Identifier: Apache-2.0
#include "polyconv_onnx_reader.h"

#include <cstdio>
#include <fstream>
#include <new>

#include "layers.hpp"

struct polyconv_onnx_model {
  std::deque<polyconv_onnx::Layer> layers;
};

namespace {

constexpr size_t kMostBytes = size_t{1} << 31; // protobuf's own bound of a message

std::string &last_error() {
  thread_local std::string sentence;
  return sentence;
}

polyconv_status failed(polyconv_status status, const std::string &sentence) {
  last_error() = "polyconv: " + sentence;
  return status;
}

template <class Work>
polyconv_status guarded(Work work) {
  try {
    return work();
  } catch (const polyconv_onnx::Malformed &error) {
    return failed(POLYCONV_IO_ERROR, std::string("this is no ONNX model that can be read: ") + error.what());
  } catch (const std::invalid_argument &error) {
    return failed(POLYCONV_INVALID_ARGUMENT, error.what());
  } catch (const std::bad_alloc &) {
    return failed(POLYCONV_OUT_OF_MEMORY, "no memory for the model");
  } catch (const std::exception &error) {
    return failed(POLYCONV_INTERNAL, error.what());
  }
}

polyconv_status read(std::string_view bytes, const polyconv_onnx_size *sizes, int32_t count,
                     polyconv_onnx_model **model) {
  if (!model || count < 0 || (count > 0 && !sizes))
    return failed(POLYCONV_INVALID_ARGUMENT, "model or sizes is NULL, or count is negative");
  polyconv_onnx::Graph graph = polyconv_onnx::read_graph(bytes);
  auto made = std::make_unique<polyconv_onnx_model>();
  made->layers = polyconv_onnx::read_layers(graph, sizes, count);
  *model = made.release();
  return POLYCONV_SUCCESS;
}

} // namespace

polyconv_status polyconv_onnx_read_memory(const void *bytes, size_t size, const polyconv_onnx_size *sizes,
                                          int32_t count, polyconv_onnx_model **model) {
  return guarded([&] {
    if (!bytes || size > kMostBytes) return failed(POLYCONV_INVALID_ARGUMENT, "bytes is NULL, or more than 2 GiB");
    return read({static_cast<const char *>(bytes), size}, sizes, count, model);
  });
}

polyconv_status polyconv_onnx_read(const char *path, const polyconv_onnx_size *sizes, int32_t count,
                                   polyconv_onnx_model **model) {
  return guarded([&] {
    if (!path) return failed(POLYCONV_INVALID_ARGUMENT, "path is NULL");
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : -1;
    if (size < 0 || size > static_cast<std::streamoff>(kMostBytes))
      return failed(POLYCONV_IO_ERROR, std::string(path) + " cannot be read, or has more than 2 GiB");
    std::string bytes(static_cast<size_t>(size), '\0');
    file.seekg(0);
    if (size > 0 && !file.read(&bytes[0], size))
      return failed(POLYCONV_IO_ERROR, std::string(path) + " cannot be read");
    return read(bytes, sizes, count, model);
  });
}

void polyconv_onnx_free(polyconv_onnx_model *model) {
  delete model;
}

int32_t polyconv_onnx_layer_count(const polyconv_onnx_model *model) {
  return model ? static_cast<int32_t>(model->layers.size()) : 0;
}

const polyconv_onnx_layer *polyconv_onnx_layer_at(const polyconv_onnx_model *model, int32_t index) {
  return model && index >= 0 && index < polyconv_onnx_layer_count(model) ? &model->layers[index].shown : nullptr;
}

const char *polyconv_onnx_error(void) {
  return last_error().c_str();
}
