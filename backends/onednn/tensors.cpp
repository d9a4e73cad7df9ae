// tensors.cpp - see tensors.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

namespace polyconv::onednn {
namespace {

using sdk::kC;
using sdk::kD;
using sdk::kK;

struct Axes {
  int count = 0;
  dnnl_dims_t size = {}, stride = {};

  void add(int64_t axis_size, int64_t axis_stride) {
    size[count] = axis_size;
    stride[count++] = axis_stride;
  }
};

Axes weights_axes(const polyconv_layer &l) {
  const polyconv_tensor &w = l.weights;
  const int64_t filters = w.size[kK] / l.groups;
  Axes axes;
  if (l.groups > 1) axes.add(l.groups, filters * w.stride[kK]);
  axes.add(filters, w.stride[kK]);
  axes.add(w.size[kC], w.stride[kC]);
  for (int axis = 5 - spatial_axes(l); axis < 5; ++axis) axes.add(w.size[axis], w.stride[axis]);
  return axes;
}

MemoryDesc with_tag(const Axes &axes, int32_t type, dnnl_format_tag_t tag) {
  MemoryDesc description;
  check(library().memory_desc_create_with_tag(description.out(), axes.count, axes.size, type_of(type), tag),
        "describing a tensor");
  return description;
}

dnnl_format_tag_t tag_of(int spatial_axes, Order order) {
  constexpr dnnl_format_tag_t first[] = {dnnl_ncw, dnnl_nchw, dnnl_ncdhw}, last[] = {dnnl_nwc, dnnl_nhwc, dnnl_ndhwc};
  return order == Order::Any             ? dnnl_format_tag_any
         : order == Order::ChannelsFirst ? first[spatial_axes - 1]
                                         : last[spatial_axes - 1];
}

template <class Result>
Result ask(const_dnnl_memory_desc_t description, dnnl_query_t what) {
  Result result = {};
  check(library().memory_desc_query(description, what, &result), "reading a description");
  return result;
}

// FNV-1a.
void mix(uint64_t *hash, uint64_t value) {
  for (int byte = 0; byte < 8; ++byte) *hash = (*hash ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3u;
}

} // namespace

std::vector<Order> orders_of(const polyconv_tensor &tensor) {
  std::vector<Order> orders;
  if (sdk::channels_last(tensor)) orders.push_back(Order::ChannelsLast);
  if (sdk::channels_first(tensor)) orders.push_back(Order::ChannelsFirst);
  return orders;
}

int spatial_axes(const polyconv_layer &l) {
  for (int axis = 0; axis < 2; ++axis) {
    const int a = kD + axis;
    if (l.input.size[a] != 1 || l.weights.size[a] != 1 || l.output.size[a] != 1 || l.pad_begin[axis] != 0 ||
        l.pad_end[axis] != 0)
      return 3 - axis;
  }
  return 1;
}

dnnl_data_type_t type_of(int32_t type) {
  switch (type) {
    case POLYCONV_F32: return dnnl_f32;
    case POLYCONV_F16: return dnnl_f16;
    case POLYCONV_BF16: return dnnl_bf16;
    case POLYCONV_S32: return dnnl_s32;
    case POLYCONV_S8: return dnnl_s8;
    case POLYCONV_U8: return dnnl_u8;
    default: return dnnl_data_type_undef;
  }
}

int64_t bytes_of_type(int32_t type) {
  return type == POLYCONV_F32 || type == POLYCONV_S32 ? 4 : type == POLYCONV_F16 || type == POLYCONV_BF16 ? 2 : 1;
}

MemoryDesc describe_data(const polyconv_tensor &t, int spatial_axes, Order order) {
  Axes axes;
  axes.add(t.size[0], 0);
  axes.add(t.size[kC], 0);
  for (int axis = 5 - spatial_axes; axis < 5; ++axis) axes.add(t.size[axis], 0);
  return with_tag(axes, t.type, tag_of(spatial_axes, order));
}

MemoryDesc describe_weights(const polyconv_layer &l) {
  const Axes axes = weights_axes(l);
  MemoryDesc description;
  check(library().memory_desc_create_with_strides(description.out(), axes.count, axes.size, type_of(l.weights.type),
                                                  axes.stride),
        "describing the weights");
  return description;
}

MemoryDesc describe_weights_in_any_order(const polyconv_layer &l) {
  return with_tag(weights_axes(l), l.weights.type, dnnl_format_tag_any);
}

MemoryDesc describe_bias(int64_t channels, int32_t type) {
  Axes axes;
  axes.add(channels, 1);
  return with_tag(axes, type, dnnl_a);
}

MemoryDesc describe_bytes(int64_t count) {
  Axes axes;
  axes.add(count, 1);
  return with_tag(axes, POLYCONV_U8, dnnl_a);
}

int64_t bytes_of(const_dnnl_memory_desc_t description) {
  return static_cast<int64_t>(library().memory_desc_get_size(description));
}

uint64_t fingerprint(const_dnnl_memory_desc_t d) {
  const int axes = ask<int>(d, dnnl_query_ndims_s32), blocks = ask<int>(d, dnnl_query_inner_nblks_s32);
  uint64_t hash = 0xcbf29ce484222325u;
  mix(&hash, static_cast<uint64_t>(bytes_of(d)));
  mix(&hash, static_cast<uint64_t>(ask<dnnl_data_type_t>(d, dnnl_query_data_type)));
  for (const dnnl_query_t what : {dnnl_query_dims, dnnl_query_padded_dims, dnnl_query_strides}) {
    const auto *const values = ask<const dnnl_dims_t *>(d, what);
    for (int axis = 0; axis < axes; ++axis) mix(&hash, static_cast<uint64_t>((*values)[axis]));
  }
  for (const dnnl_query_t what : {dnnl_query_inner_blks, dnnl_query_inner_idxs}) {
    const auto *const values = ask<const dnnl_dims_t *>(d, what);
    for (int block = 0; block < blocks; ++block) mix(&hash, static_cast<uint64_t>((*values)[block]));
  }
  return hash;
}

} // namespace polyconv::onednn
