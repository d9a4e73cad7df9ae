// key.cpp - see key.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "key.hpp"

#include <cuda_runtime.h>

#include "common/device/check.hpp"

namespace polyconv::cudnn {
namespace {

template <size_t N>
std::string joined(const int64_t (&values)[N]) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ".") + std::to_string(value);
  return text;
}

std::string text_of(const polyconv_tensor &t) {
  return std::to_string(t.type) + ":" + joined(t.size) + ":" + joined(t.stride);
}

} // namespace

std::string key_of(const polyconv_layer &l, const Rules &rules, int64_t limit, int device) {
  cudaDeviceProp properties;
  cuda::check(cudaGetDeviceProperties(&properties, device), "asking for the GPU's name");
  const auto flag = [](bool set) { return set ? "1" : "0"; };
  return std::string(properties.name) + ", cuDNN " + std::to_string(library().get_version()) + ", rules " +
         flag(rules.transforms) + flag(rules.tensor_cores) + flag(rules.reduced_precision) +
         flag(rules.nondeterministic) + ", limit " + std::to_string(limit) + ", direction " +
         std::to_string(l.direction) + ", sums " + std::to_string(l.sum_type) + ", input " + text_of(l.input) +
         ", weights " + text_of(l.weights) + ", output " + text_of(l.output) + ", pads " + joined(l.pad_begin) + "/" +
         joined(l.pad_end) + ", strides " + joined(l.stride) + ", dilation " + joined(l.dilation);
}

} // namespace polyconv::cudnn
