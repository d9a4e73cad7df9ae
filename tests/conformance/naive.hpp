// naive.hpp - the definition of a convolution a second time, straight from polyconv.h and from nothing else of this
// project: no normalised layers, a transposed problem scatters, padding folds coordinate by coordinate. Slow and small.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

namespace naive {

using Values = std::vector<double>;

// Dense arrays in order N C spatial (K C/g spatial for weights), as the problem's tensors.
struct Data {
  Values input, weights, bias, scale, residual, slope, output;
  Values weights_zero_point;
  Values saved; // argmax
};

struct Shape {
  int dims = 0;
  int64_t input[3], output[3], kernel[3]; // before pooling
  int64_t inputs = 1, outputs = 1, taps = 1;
};

inline Shape shape_of(const polyconv_problem &p) {
  Shape s;
  s.dims = p.spatial_dims;
  for (int a = 0; a < s.dims; ++a) {
    const int64_t reach = p.dilation[a] * (p.kernel_size[a] - 1) + 1, pads = p.pad_begin[a] + p.pad_end[a];
    s.input[a] = p.input_size[a];
    s.kernel[a] = p.kernel_size[a];
    s.output[a] = p.transposed ? (s.input[a] - 1) * p.stride[a] - pads + reach + p.output_padding[a]
                               : (s.input[a] + pads - reach) / p.stride[a] + 1;
    s.inputs *= s.input[a], s.outputs *= s.output[a], s.taps *= s.kernel[a];
  }
  return s;
}

// One step of the padding rule at a time until the coordinate lies inside; -1 for the padding value.
inline int64_t fold(int64_t i, int64_t size, int32_t mode) {
  while (i < 0 || i >= size) {
    switch (mode) {
      case POLYCONV_PAD_REFLECT:
        if (size == 1) return 0;
        i = i < 0 ? -i : 2 * (size - 1) - i;
        break;
      case POLYCONV_PAD_SYMMETRIC: i = i < 0 ? -1 - i : 2 * size - 1 - i; break;
      case POLYCONV_PAD_REPLICATE: i = i < 0 ? 0 : size - 1; break;
      case POLYCONV_PAD_CIRCULAR: i = i < 0 ? i + size : i - size; break;
      default: return -1;
    }
  }
  return i;
}

// A product of one channel pair: its place on the small side, on the large side (-1: padding), and its tap as stored.
// The small side is the output of a convolution, and the input of a transposed one.
struct Product {
  int64_t small, large, tap;
};

// All of them, in order; the same ones for every pair of channels.
inline std::vector<Product> products_of(const polyconv_problem &p, const Shape &s) {
  const int64_t *const small = p.transposed ? s.input : s.output, *const large = p.transposed ? s.output : s.input;
  const int64_t smalls = p.transposed ? s.inputs : s.outputs;
  std::vector<Product> products;
  products.reserve(static_cast<size_t>(smalls * s.taps));
  for (int64_t from = 0; from < smalls; ++from)
    for (int64_t tap = 0; tap < s.taps; ++tap) {
      int64_t f = from, t = tap, to = 0, to_step = 1, stored = 0, stored_step = 1;
      bool outside = false;
      for (int a = s.dims - 1; a >= 0; --a) {
        const int64_t i = f % small[a], r = t % s.kernel[a];
        f /= small[a], t /= s.kernel[a];
        // Negative padding of an input crops: padding then sees the rest.
        const int64_t before = p.transposed ? 0 : std::max<int64_t>(-p.pad_begin[a], 0);
        const int64_t behind = p.transposed ? 0 : std::max<int64_t>(-p.pad_end[a], 0);
        const int64_t from_first = i * p.stride[a] + r * p.dilation[a] - p.pad_begin[a] - before;
        const int64_t folded = fold(from_first, large[a] - before - behind, p.pad_mode);
        const int64_t at = folded < 0 ? -1 : folded + before;
        outside = outside || at < 0;
        to += at * to_step, to_step *= large[a];
        stored += (p.flip ? s.kernel[a] - 1 - r : r) * stored_step, stored_step *= s.kernel[a];
      }
      products.push_back({from, outside ? -1 : to, stored});
    }
  return products;
}

// Sums only: output before the epilogue, or the gradient that the direction writes.
inline void sums(const polyconv_problem &p, Data &data) {
  const Shape s = shape_of(p);
  const int64_t in_group = p.in_channels / p.groups, out_group = p.out_channels / p.groups;
  const int64_t small_group = p.transposed ? in_group : out_group, large_group = p.transposed ? out_group : in_group;
  const int64_t smalls = p.transposed ? s.inputs : s.outputs, larges = p.transposed ? s.outputs : s.inputs;
  Values &small = p.transposed ? data.input : data.output, &large = p.transposed ? data.output : data.input;
  Values &written = p.direction == POLYCONV_FORWARD         ? data.output
                    : p.direction == POLYCONV_BACKWARD_DATA ? data.input
                                                            : data.weights;
  const int64_t size = p.direction == POLYCONV_FORWARD         ? p.batch * p.out_channels * s.outputs
                       : p.direction == POLYCONV_BACKWARD_DATA ? p.batch * p.in_channels * s.inputs
                                                               : p.groups * small_group * large_group * s.taps;
  written.assign(static_cast<size_t>(size), 0.0);
  const double padding = p.pad_mode == POLYCONV_PAD_CONSTANT ? p.pad_value - p.input_zero_point : 0;
  const std::vector<Product> products = products_of(p, s);
  for (int64_t n = 0; n < p.batch; ++n)
    for (int64_t g = 0; g < p.groups; ++g)
      for (int64_t k = 0; k < small_group; ++k)
        for (int64_t c = 0; c < large_group; ++c) {
          double *a = small.data() + ((n * p.groups + g) * small_group + k) * smalls;
          double *b = large.data() + ((n * p.groups + g) * large_group + c) * larges;
          double *w = data.weights.data() + ((g * small_group + k) * large_group + c) * s.taps;
          for (const auto &[i, j, tap] : products) {
            const int64_t channel = p.transposed ? g * large_group + c : g * small_group + k; // of the output
            const double zero_point = p.has_weights_zero_points ? data.weights_zero_point[static_cast<size_t>(channel)]
                                                                : static_cast<double>(p.weights_zero_point);
            const double weight = w[tap] - zero_point;
            if (&written == &data.weights) {
              w[tap] += a[i] * (j < 0 ? padding : b[j]);
            } else if (&written == &small) {
              a[i] += weight * (j < 0 ? padding : b[j] - p.input_zero_point);
            } else if (j >= 0) {
              b[j] += weight * (a[i] - p.input_zero_point);
            }
          }
        }
}

// The gradient of the bias.
inline Values bias_gradient(const polyconv_problem &p, const Values &output) {
  Values bias(static_cast<size_t>(p.out_channels), 0.0);
  const auto outputs = static_cast<size_t>(shape_of(p).outputs);
  for (size_t i = 0; i < output.size(); ++i) bias[i / outputs % bias.size()] += output[i];
  return bias;
}

template <class T>
T activated(T v, const polyconv_epilogue &e, T slope = 0) {
  const T alpha = static_cast<T>(e.activation_alpha);
  switch (e.activation) {
    case POLYCONV_ACT_RELU: return std::fmax(v, T(0));
    case POLYCONV_ACT_CLIPPED_RELU: return std::fmin(std::fmax(v, T(0)), alpha);
    case POLYCONV_ACT_LEAKY_RELU: return v >= 0 ? v : alpha * v;
    case POLYCONV_ACT_TANH: return std::tanh(v);
    case POLYCONV_ACT_SIGMOID: return 1 / (1 + std::exp(-v));
    case POLYCONV_ACT_GELU: return v * (1 + std::erf(v / std::sqrt(T(2)))) / 2;
    case POLYCONV_ACT_SILU: return v * (1 / (1 + std::exp(-v)));
    case POLYCONV_ACT_HARD_SWISH: return v * std::fmin(std::fmax(v + 3, T(0)), T(6)) / 6;
    case POLYCONV_ACT_ELU: return v >= 0 ? v : alpha * (std::exp(v) - 1);
    case POLYCONV_ACT_GELU_TANH: {
      const double x = static_cast<double>(v), u = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3.0));
      return static_cast<T>(x / 2 * (1 + std::tanh(u))); // in double, as it loses digits near -1
    }
    case POLYCONV_ACT_PRELU: return v >= 0 ? v : slope * v;
    default: return v;
  }
}

// Pools one image of one channel; `argmax` gets the place of the first maximum in each window.
template <class T>
std::vector<T> pooled(const polyconv_problem &p, const Shape &s, const std::vector<T> &image, Values *argmax) {
  const polyconv_pool &pool = p.epilogue.pool;
  if (pool.kind == POLYCONV_POOL_NONE) return image;
  int64_t results = 1, windows = 1, size[3];
  for (int a = 0; a < s.dims; ++a) {
    const int64_t reach = p.pool_dilation[a] * (pool.window[a] - 1) + 1, step = pool.stride[a];
    const int64_t room = s.output[a] + pool.pad_begin[a] + pool.pad_end[a] - reach;
    size[a] = room < 0 ? 0 : room / step + 1; // of a valid problem the room is short by less than a step
    const bool begins_inside = size[a] * step < s.output[a] + pool.pad_begin[a]; // one more would
    if (p.pool_ceil && room % step != 0 && begins_inside) ++size[a];
    results *= size[a], windows *= pool.window[a];
  }
  std::vector<T> out;
  for (int64_t result = 0; result < results; ++result) {
    T sum = 0, best = 0;
    int64_t count = 0, padded = 0, first = -1;
    for (int64_t w = 0; w < windows; ++w) {
      int64_t r = result, v = w, at = 0, step = 1;
      bool inside = true, counts = true;
      for (int a = s.dims - 1; a >= 0; --a) {
        const int64_t i = r % size[a] * pool.stride[a] - pool.pad_begin[a] + v % pool.window[a] * p.pool_dilation[a];
        r /= size[a], v /= pool.window[a];
        inside = inside && i >= 0 && i < s.output[a];
        counts = counts && i < s.output[a] + pool.pad_end[a];
        at += i * step, step *= s.output[a];
      }
      padded += counts;
      if (!inside) continue;
      const T value = image[static_cast<size_t>(at)];
      sum += value, ++count;
      if (first < 0 || value > best) best = value, first = w;
    }
    const T divisor = static_cast<T>(pool.count_include_pad ? padded : count);
    out.push_back(pool.kind == POLYCONV_POOL_MAX ? best : sum / divisor);
    if (argmax) argmax->push_back(static_cast<double>(first));
  }
  return out;
}

// The epilogue in T on data.output, up to but without the rounding to a float output type. Integer outputs come out
// rounded and saturated.
template <class T>
void epilogue(const polyconv_problem &p, Data &data, double lowest, double highest) {
  const polyconv_epilogue &e = p.epilogue;
  const Shape s = shape_of(p);
  const bool quantised = p.input_type >= POLYCONV_S32 && p.weights_type >= POLYCONV_S32;
  const bool integer = p.output_type >= POLYCONV_S32;
  const bool only_bias = quantised && p.output_type == POLYCONV_S32 && !e.has_scale && !e.residual_from &&
                         !e.activation && !e.pool.kind && e.out_scale == 1.0f && !e.out_zero_point;
  Values result;
  data.saved.clear();
  for (int64_t image = 0; image < p.batch * p.out_channels; ++image) {
    const auto k = static_cast<size_t>(image % p.out_channels);
    std::vector<T> values;
    for (int64_t o = 0; o < s.outputs; ++o) {
      const auto i = static_cast<size_t>(image * s.outputs + o);
      double sum = data.output[i];
      if (quantised && e.has_bias) sum += data.bias[k];
      if (only_bias) {
        result.push_back(sum);
        continue;
      }
      T v = static_cast<T>(sum);
      if (e.has_scale) v *= static_cast<T>(data.scale[k]);
      if (!quantised && e.has_bias) v += static_cast<T>(data.bias[k]);
      if (e.residual_from) {
        const T residual = static_cast<T>(data.residual[i]) - static_cast<T>(e.residual_zero_point);
        v += static_cast<T>(e.residual_scale) * residual;
      }
      values.push_back(activated(v, e, e.activation == POLYCONV_ACT_PRELU ? static_cast<T>(data.slope[k]) : T(0)));
    }
    if (only_bias) continue;
    for (T v : pooled(p, s, values, &data.saved)) {
      if (integer) v = std::nearbyint(v / static_cast<T>(e.out_scale)) + static_cast<T>(e.out_zero_point);
      result.push_back(integer ? std::fmin(std::fmax(static_cast<double>(v), lowest), highest)
                               : static_cast<double>(v));
    }
  }
  data.output = result;
}

} // namespace naive
