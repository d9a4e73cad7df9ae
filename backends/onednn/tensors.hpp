// tensors.hpp - a layer's tensors in oneDNN's terms. Axes of size one that nothing uses are left out from the front, so
// that a 2D layer is one with two spatial axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/tensor.hpp>

#include <vector>

#include "object.hpp"

namespace polyconv::onednn {

// The order of a data tensor's axes; Any lets the implementation choose.
enum class Order { Any, ChannelsFirst, ChannelsLast };

// The orders in which a tensor is dense: none, one, or both where they are the same memory.
std::vector<Order> orders_of(const polyconv_tensor &tensor);

// 1, 2 or 3.
int spatial_axes(const polyconv_layer &layer);

dnnl_data_type_t type_of(int32_t type);
int64_t bytes_of_type(int32_t type);

MemoryDesc describe_data(const polyconv_tensor &tensor, int spatial_axes, Order order);
// The layer's weights as the caller has them, or in whatever order the implementation likes.
MemoryDesc describe_weights(const polyconv_layer &layer);
MemoryDesc describe_weights_in_any_order(const polyconv_layer &layer);
MemoryDesc describe_bias(int64_t channels, int32_t type);
MemoryDesc describe_bytes(int64_t count);

int64_t bytes_of(const_dnnl_memory_desc_t description);

// Tells one order of a tensor's elements from another: equal for descriptions with the same blocks, strides and size.
uint64_t fingerprint(const_dnnl_memory_desc_t description);

} // namespace polyconv::onednn
