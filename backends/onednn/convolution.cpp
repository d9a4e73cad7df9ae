// convolution.cpp - see convolution.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "convolution.hpp"

#include <algorithm>
#include <polyconv/sdk/formula.hpp>
#include <polyconv/sdk/kernel.hpp>

namespace polyconv::onednn {
namespace {

// The entries of D, H, W that the description has.
struct Spatial {
  dnnl_dims_t stride = {}, dilation = {}, pad_begin = {}, pad_end = {};

  explicit Spatial(const polyconv_layer &l) {
    const int axes = spatial_axes(l);
    for (int i = 0, axis = 3 - axes; axis < 3; ++i, ++axis) {
      stride[i] = sdk::formula_stride(l, axis);
      dilation[i] = l.dilation[axis] - 1; // oneDNN counts the elements between two taps
      pad_begin[i] = l.pad_begin[axis];
      pad_end[i] = l.pad_end[axis];
    }
  }
};

void append_activation(dnnl_post_ops_t operations, const polyconv_epilogue &e) {
  const auto append = [&](dnnl_alg_kind_t kind, float alpha, float beta) {
    check(library().post_ops_append_eltwise(operations, kind, alpha, beta), "describing the activation");
  };
  switch (e.activation) {
    case POLYCONV_ACT_LEAKY_RELU: return append(dnnl_eltwise_relu, e.activation_alpha, 0);
    case POLYCONV_ACT_TANH: return append(dnnl_eltwise_tanh, 0, 0);
    case POLYCONV_ACT_SIGMOID: return append(dnnl_eltwise_logistic, 0, 0);
    case POLYCONV_ACT_GELU: return append(dnnl_eltwise_gelu_erf, 0, 0);
    case POLYCONV_ACT_SILU: return append(dnnl_eltwise_swish, 1, 0);
    case POLYCONV_ACT_HARD_SWISH: return append(dnnl_eltwise_hardswish, 1.0f / 6, 0.5f);
    default: return;
  }
}

dnnl_status_t describe(const polyconv_layer &l, Order input, Order output, dnnl_primitive_desc_t *result) {
  const Library &dnnl = library();
  const Attributes attr = attributes(&l);
  const Spatial s(l);
  const int axes = spatial_axes(l);
  const bool forward = l.direction == POLYCONV_FORWARD;
  const MemoryDesc source = describe_data(l.input, axes, input);
  const MemoryDesc weights = describe_weights_in_any_order(l);
  const MemoryDesc destination = describe_data(l.output, axes, output);
  MemoryDesc bias;
  if (l.epilogue.has_bias) bias = describe_bias(l.output.size[sdk::kC], l.bias_type);
  if (forward)
    return dnnl.convolution_forward_primitive_desc_create(
        result, dnnl.engine, dnnl_forward_inference, dnnl_convolution_direct, source.get(), weights.get(), bias.get(),
        destination.get(), s.stride, s.dilation, s.pad_begin, s.pad_end, attr.get());
  if (l.direction == POLYCONV_BACKWARD_DATA)
    return dnnl.convolution_backward_data_primitive_desc_create(
        result, dnnl.engine, dnnl_convolution_direct, source.get(), weights.get(), destination.get(), s.stride,
        s.dilation, s.pad_begin, s.pad_end, nullptr, attr.get());
  return dnnl.convolution_backward_weights_primitive_desc_create(
      result, dnnl.engine, dnnl_convolution_direct, source.get(), weights.get(), bias.get(), destination.get(),
      s.stride, s.dilation, s.pad_begin, s.pad_end, nullptr, attr.get());
}

std::string name_of(const_dnnl_primitive_desc_t description) {
  const char *name = nullptr;
  check(library().primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name), "reading a name");
  return name;
}

// Whether it ends the process now and then, behind trials that came back: 3.13.1's writes to a null pointer on layers
// of one pixel, on one thread too where there is no AVX-512.
bool crashes(const polyconv_layer &layer, const std::string &name) {
  return layer.direction == POLYCONV_FORWARD && sdk::spatial(layer.output) == 1 && name.rfind("brgconv_1x1", 0) == 0;
}

} // namespace

Attributes attributes(const polyconv_layer *layer) {
  Attributes attr;
  check(library().primitive_attr_create(attr.out()), "making attributes");
  check(library().primitive_attr_set_scratchpad_mode(attr.get(), dnnl_scratchpad_mode_user), "setting attributes");
  if (layer != nullptr && layer->epilogue.activation != POLYCONV_ACT_NONE) {
    PostOps operations;
    check(library().post_ops_create(operations.out()), "describing the activation");
    append_activation(operations.get(), layer->epilogue);
    check(library().primitive_attr_set_post_ops(attr.get(), operations.get()), "describing the activation");
  }
  return attr;
}

std::vector<Implementation> implementations(const polyconv_layer &layer, Order input, Order output) {
  std::vector<Implementation> found;
  PrimitiveDesc current;
  const dnnl_status_t described = describe(layer, input, output, current.out());
  if (described == dnnl_unimplemented || described == dnnl_invalid_arguments) return found;
  check(described, "describing the convolution");
  do {
    PrimitiveDesc copy;
    check(library().primitive_desc_clone(copy.out(), current.get()), "describing the convolution");
    std::string name = name_of(copy.get());
    if (!crashes(layer, name)) found.push_back({std::move(copy), std::move(name)});
  } while (library().primitive_desc_next_impl(current.get()) == dnnl_success);
  return found;
}

} // namespace polyconv::onednn
