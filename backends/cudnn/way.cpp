// way.cpp - see way.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "way.hpp"

#include <cuda_runtime.h>

#include <utility>

namespace polyconv::cuda {
extern const sdk::Kernel kernel_convert; // cuda/direct/convert.cu, compiled into this plug-in too
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
  return copy_bytes(layer.input, order) + copy_bytes(layer.output, order) +
         (writes_weights(layer) ? copy_bytes(layer.weights, order) : 0);
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
    : order_(order),
      written_(layer.direction == POLYCONV_FORWARD ? kOutput
               : writes_weights(layer)             ? kWeights
                                                   : kInput),
      weights_offset_(writes_weights(layer) ? 0 : packed_offset(layer.weights, order)),
      graph_(handle, layer, order) {
  add_copy(kInput, layer.input, policy);
  add_copy(kOutput, layer.output, policy);
  if (writes_weights(layer)) add_copy(kWeights, layer.weights, policy);
}

void Way::add_copy(Role role, const polyconv_tensor &tensor, const polyconv_policy &policy) {
  if (is_dense(tensor, order_)) return;
  const polyconv_tensor there = dense(tensor, order_);
  copy_[role] = {role == written_ ? make_conversion(there, tensor, policy) : make_conversion(tensor, there, policy),
                 copies_bytes_};
  copies_bytes_ += copy_bytes(tensor, order_);
}

void *Way::callers(Role role, const Pointers &p) const {
  return role == kInput ? p.input : role == kOutput ? p.output : static_cast<char *>(p.weights) + weights_offset_;
}

void *Way::dense_one(Role role, const Pointers &p) const {
  return copy_[role].conversion ? static_cast<char *>(p.workspace) + copy_[role].offset : callers(role, p);
}

void Way::convert(Role role, const Pointers &p, void *stream) const {
  if (!copy_[role].conversion) return;
  polyconv_arguments move = {};
  move.struct_size = sizeof move;
  move.input = callers(role, p), move.output = dense_one(role, p);
  if (role == written_) std::swap(move.input, move.output);
  copy_[role].conversion->run(move, stream);
}

Descriptor Way::pack(const Pointers &p) const {
  return variant_pack(dense_one(kInput, p), dense_one(kWeights, p), dense_one(kOutput, p),
                      static_cast<char *>(p.workspace) + copies());
}

void Way::run(cudnnHandle_t handle, const Execution &execution, const Descriptor &pack, const Pointers &p,
              void *stream) const {
  for (const Role role : {kInput, kWeights, kOutput})
    if (role != written_) convert(role, p, stream);
  check(library().set_stream(handle, static_cast<cudaStream_t>(stream)), "setting the stream");
  check(library().execute(handle, execution.descriptor().get(), pack.get()), "running an engine");
  convert(written_, p, stream);
}

} // namespace polyconv::cudnn
