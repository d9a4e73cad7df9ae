// way.cpp - see way.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "way.hpp"

#include <cuda_runtime.h>

namespace polyconv::cuda {
extern const sdk::Kernel kernel_convert; // cuda/direct/kernels/convert.cu, compiled into this plug-in too
}

namespace polyconv::cudnn {
namespace {

int64_t dense_bytes(const polyconv_tensor &t) {
  const int64_t size = t.type == POLYCONV_F64 ? 8 : t.type == POLYCONV_F32 ? 4 : 2;
  return (sdk::elements(t) * size + POLYCONV_ALIGNMENT - 1) / POLYCONV_ALIGNMENT * POLYCONV_ALIGNMENT;
}

int64_t copy_bytes(const polyconv_tensor &t, Order order) {
  return is_dense(t, order) ? 0 : dense_bytes(t);
}

} // namespace

int64_t packed_bytes(const polyconv_tensor &weights) {
  return 2 * dense_bytes(weights);
}

int64_t packed_offset(const polyconv_tensor &weights, Order order) {
  return order == Order::ChannelsFirst ? 0 : dense_bytes(weights);
}

int64_t copies_bytes(const polyconv_layer &layer, Order order) {
  return copy_bytes(layer.input, order) + copy_bytes(layer.result, order);
}

std::unique_ptr<sdk::Instance> make_conversion(const polyconv_tensor &from, const polyconv_tensor &to,
                                               const polyconv_policy &policy) {
  polyconv_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.input = from;
  layer.result = to;
  const polyconv_layer *const layers[] = {&layer};
  polyconv_request request = {};
  request.struct_size = sizeof request;
  request.op = POLYCONV_OP_CONVERT;
  request.count = 1;
  request.layers = layers;
  request.policy = &policy;
  return cuda::kernel_convert.create(request, 0);
}

Way::Way(cudnnHandle_t handle, const polyconv_layer &layer, Order order, const polyconv_policy &policy)
    : order_(order), weights_offset_(packed_offset(layer.weights, order)), graph_(handle, layer, order) {
  input_bytes_ = copy_bytes(layer.input, order);
  output_bytes_ = copy_bytes(layer.result, order);
  if (input_bytes_ > 0) to_dense_ = make_conversion(layer.input, dense(layer.input, order), policy);
  if (output_bytes_ > 0) from_dense_ = make_conversion(dense(layer.result, order), layer.result, policy);
}

Descriptor Way::pack(const Pointers &p) const {
  return variant_pack(to_dense_ ? input_copy(p) : p.input, static_cast<char *>(p.weights) + weights_offset_,
                      from_dense_ ? output_copy(p) : p.output, static_cast<char *>(p.workspace) + copies());
}

void Way::run(cudnnHandle_t handle, const Execution &execution, const Descriptor &pack, const Pointers &p,
              void *stream) const {
  polyconv_arguments move = {};
  move.struct_size = sizeof move;
  if (to_dense_) {
    move.input = p.input;
    move.output = input_copy(p);
    to_dense_->run(move, stream);
  }
  check(library().set_stream(handle, static_cast<cudaStream_t>(stream)), "setting the stream");
  check(library().execute(handle, execution.descriptor().get(), pack.get()), "running an engine");
  if (from_dense_) {
    move.input = output_copy(p);
    move.output = p.output;
    from_dense_->run(move, stream);
  }
}

} // namespace polyconv::cudnn
