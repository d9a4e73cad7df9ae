// finish.hpp - from a sum to what is stored: polyconv_epilogue in its order, one element at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

#include "kernels/sums.hpp"

namespace polyconv::reference {

// An element of the result before pooling.
struct Place {
  int64_t n, channel, d, h, w;
};

inline int64_t at(const polyconv_tensor &t, const Place &p) {
  return sdk::at(t, p.n, p.channel, p.d, p.h, p.w);
}

// Dense N C D H W doubles of a tensor's size: where values wait for pooling, in the workspace.
inline polyconv_tensor waiting_tensor(const polyconv_tensor &t) {
  polyconv_tensor dense = t;
  dense.type = POLYCONV_F64;
  dense.offset = 0;
  int64_t stride = 1;
  for (int axis = 4; axis >= 0; --axis) {
    dense.stride[axis] = stride;
    stride *= t.size[axis];
  }
  return dense;
}

struct Finish {
  const polyconv_layer &l;
  const polyconv_arguments &a;
  const polyconv_tensor waiting; // used where there is pooling
  void *const result;

  Finish(const polyconv_layer &layer, const polyconv_arguments &arguments)
      : l(layer),
        a(arguments),
        waiting(waiting_tensor(sdk::written(layer))),
        result(layer.direction == POLYCONV_FORWARD ? arguments.output : arguments.input) {}

  // Float rows: everything in double.
  void operator()(double sum, const Place &place) const {
    const polyconv_epilogue &e = l.epilogue;
    double v = sum;
    if (e.has_scale) v *= sdk::load_as<double>(a.scale[0], sdk::scale_type(l.sum_type), place.channel);
    if (e.has_bias) v += sdk::load_as<double>(a.bias[0], l.bias_type, place.channel);
    after_bias(v, place);
  }
  void operator()(Compensated sum, const Place &place) const { (*this)(rounded(sum), place); }

  // Quantised rows: integers up to the bias, then f32.
  void operator()(uint32_t sum, const Place &place) const {
    const polyconv_epilogue &e = l.epilogue;
    if (e.has_bias) sum += static_cast<uint32_t>(static_cast<const int32_t *>(a.bias[0])[place.channel]);
    const int32_t biased = static_cast<int32_t>(sum);
    if (sdk::stays_integer(l)) {
      static_cast<int32_t *>(result)[at(l.result, place)] = biased;
      if (l.save == POLYCONV_SAVE_PRE_ACTIVATION) save(static_cast<float>(biased), place);
      return;
    }
    float v = static_cast<float>(biased);
    if (e.has_scale) v *= static_cast<const float *>(a.scale[0])[place.channel];
    after_bias(v, place);
  }

 private:
  template <class T>
  void after_bias(T v, const Place &place) const {
    const polyconv_epilogue &e = l.epilogue;
    if (e.residual_from != POLYCONV_RESIDUAL_NONE) {
      const T residual = sdk::load_as<T>(a.residual[0], l.residual.type, at(l.residual, place));
      v += static_cast<T>(e.residual_scale) * (residual - static_cast<T>(e.residual_zero_point));
    }
    if (l.save == POLYCONV_SAVE_PRE_ACTIVATION) save(v, place);
    v = sdk::activate(v, e, sdk::alpha_of<T>(l, a.slope[0], place.channel));
    if (sdk::has_pooling(l))
      static_cast<double *>(a.workspace)[at(waiting, place)] = static_cast<double>(v);
    else
      sdk::store_as(result, l.result.type, at(l.result, place), sdk::quantise(v, e, l.result.type));
  }

  template <class T>
  void save(T v, const Place &place) const {
    sdk::store_as(a.saved[0], l.saved.type, at(l.saved, place), v);
  }
};

} // namespace polyconv::reference
