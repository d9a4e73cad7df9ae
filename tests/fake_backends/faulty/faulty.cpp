// faulty.cpp - one plain convolution (fake_direct.hpp), and copies of it with one defect each. A defect lies in what
// the kernel reads or stores; the sums are those of the correct one, except where sums are the defect.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include "../fake_direct.hpp"
#include "chain.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

using namespace fake;

enum class Defect {
#define FAULTY(name) name,
#include "defects.inc"
#undef FAULTY
};

constexpr Defect kDefects[] = {
#define FAULTY(name) Defect::name,
#include "defects.inc"
#undef FAULTY
};
constexpr int kDefectCount = sizeof kDefects / sizeof *kDefects;

// Weights as the defect sees them.
struct SeenWeights {
  const polyconv_tensor &tensor;
  const float *data;
  Defect defect;

  float operator()(int64_t k, int64_t c, int64_t d, int64_t r, int64_t s) const {
    const int64_t(&size)[5] = tensor.size;
    if (defect == Defect::dropped_last_tap && d + 1 == size[2] && r + 1 == size[3] && s + 1 == size[4]) return 0;
    if (defect == Defect::dropped_last_channel && c + 1 == size[1]) return 0;
    if (defect == Defect::swapped_r_and_s && size[3] == size[4]) std::swap(r, s);
    return data[at(tensor, k, c, d, r, s)];
  }
};

// The layer as the defect sees it.
polyconv_layer seen(polyconv_layer l, Defect defect) {
  if (defect == Defect::shifted_border) l.pad_begin[2] += l.pad_begin[2] > 0; // one column too far to the left
  return l;
}

// Every partial sum rounded to f16.
float f16_sum(const polyconv_layer &l, const float *input, const float *weights, const float *bias,
              const int64_t (&o)[5]) {
  const int64_t channels = l.weights.size[kC], group = o[kC] / (l.output.size[kC] / l.groups);
  float sum = 0;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t d = 0; d < l.weights.size[2]; ++d)
      for (int64_t r = 0; r < l.weights.size[3]; ++r)
        for (int64_t s = 0; s < l.weights.size[4]; ++s) {
          const int64_t tap[3] = {d, r, s};
          int64_t i[3];
          bool outside = false;
          for (int axis = 0; axis < 3; ++axis) {
            i[axis] = padded_index(o[2 + axis] * l.stride[axis] - l.pad_begin[axis] + tap[axis] * l.dilation[axis],
                                   l.input.size[2 + axis], l.pad_mode);
            outside = outside || i[axis] < 0;
          }
          const int64_t channel = group * channels + c;
          const float x =
              outside ? static_cast<float>(l.pad_value) : input[at(l.input, o[0], channel, i[0], i[1], i[2])];
          sum = to_float(to_f16(sum + x * weights[at(l.weights, o[kC], c, d, r, s)]));
        }
  return activate(l.epilogue.has_bias ? sum + bias[o[kC]] : sum, l.epilogue);
}

class FaultyInstance final : public Instance {
 public:
  FaultyInstance(const polyconv_layer &layer, Defect defect) : layer_(layer), defect_(defect) {}

  void pack(int, const void *raw, void *packed, void *) override {
    pack_negated(layer_.weights, static_cast<const float *>(raw), static_cast<float *>(packed));
    static_cast<float *>(packed)[elements(layer_.weights)] = 0; // the defect of overruns_packed
  }

  void run(const polyconv_arguments &a, void *) const override {
    const polyconv_layer l = seen(layer_, defect_);
    const float *const weights = static_cast<const float *>(a.weights[0]);
    const float *const bias = static_cast<const float *>(a.bias[0]);
    float *const input = static_cast<float *>(a.input), *const output = static_cast<float *>(a.output);
    if (elements(l.output) == 0) return;
    const int64_t last = at(l.result, l.output.size[0] - 1, l.output.size[1] - 1, l.output.size[2] - 1,
                            l.output.size[3] - 1, l.output.size[4] - 1);
    const float before = output[last];
    if (defect_ == Defect::overruns_packed)
      convolve(l, input, NegatedWeights{l.weights, weights}, bias, output);
    else if (defect_ == Defect::f16_sums)
      sum_in_f16(l, input, weights, bias, output);
    else
      convolve(l, input, SeenWeights{l.weights, weights, defect_}, bias, output);
    misbehave(l, a, last, before);
  }

 private:
  static void sum_in_f16(const polyconv_layer &l, const float *input, const float *weights, const float *bias,
                         float *output) {
    const int64_t(&size)[5] = l.output.size;
    for (int64_t i = 0; i < elements(l.output); ++i) {
      const int64_t o[5] = {i / (size[1] * size[2] * size[3] * size[4]), i / (size[2] * size[3] * size[4]) % size[1],
                            i / (size[3] * size[4]) % size[2], i / size[4] % size[3], i % size[4]};
      output[at(l.result, o[0], o[1], o[2], o[3], o[4])] = f16_sum(l, input, weights, bias, o);
    }
  }

  // One NaN of some images makes all their results NaN; they lie dense.
  static void spread_nan(const polyconv_layer &l, float *output, int64_t images) {
    const int64_t block = elements(l.output) / l.output.size[0] * images;
    for (float *p = output; p < output + elements(l.output); p += block)
      if (std::any_of(p, p + block, [](float v) { return std::isnan(v); }))
        std::fill(p, p + block, std::numeric_limits<float>::quiet_NaN());
  }

  // Defects of what is stored, after a correct result.
  void misbehave(const polyconv_layer &l, const polyconv_arguments &a, int64_t last, float before) const {
    float *const output = static_cast<float *>(a.output);
    switch (defect_) {
      case Defect::row_past_the_end:
        for (int64_t i = 1; i <= l.output.size[kW]; ++i) output[last + i] = 0;
        break;
      case Defect::stale_workspace: output[last] += static_cast<const float *>(a.workspace)[3]; break;
      case Defect::writes_gaps:
        if (l.result.stride[kW] > 1) output[1] = 0;
        break;
      case Defect::writes_input: static_cast<float *>(a.input)[0] += 1; break;
      case Defect::nan_to_zero:
        for (int64_t i = 0; i <= last; ++i)
          if (output[i] != output[i]) output[i] = 0;
        break;
      case Defect::nan_in_its_image: spread_nan(l, output, 1); break;
      case Defect::nan_everywhere: spread_nan(l, output, l.output.size[0]); break;
      case Defect::skips_last_element: output[last] = before; break;
      default: break;
    }
  }

  const polyconv_layer layer_;
  const Defect defect_;
};

template <int kIndex>
bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  constexpr Defect defect = kDefects[kIndex];
  if (request.op != POLYCONV_OP_CONVOLVE || request.count != 1) return offer.reject("convolves one layer");
  if (!takes(*request.layers[0], offer)) return false;
  if (defect == Defect::stale_workspace) offer.workspace_bytes = 4096;
  if (defect == Defect::overruns_packed)
    offer.set_weights(0, "fake_negated:1", negated_bytes(request.layers[0]->weights));
  return true;
}

template <int kIndex>
std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<FaultyInstance>(*request.layers[0], kDefects[kIndex]);
}

constexpr const char *kNames[] = {
#define FAULTY(name) #name,
#include "defects.inc"
#undef FAULTY
};
constexpr const char *kConfigs[] = {"only"};

constexpr uint32_t flags(Defect defect) {
  const bool transform = defect == Defect::nan_in_its_image || defect == Defect::nan_everywhere;
  return transform ? POLYCONV_KERNEL_TRANSFORM : 0;
}

template <int kIndex>
const Kernel kKernel = {kNames[kIndex], flags(kDefects[kIndex]), kConfigs, 1, supports<kIndex>, create<kIndex>};

template <int... kIndices>
std::vector<const Kernel *> kernels(std::integer_sequence<int, kIndices...>) {
  std::vector<const Kernel *> all = {&kKernel<kIndices>...};
  all.insert(all.end(), faulty::chains.begin(), faulty::chains.end());
  return all;
}

polyconv_status probe(char *, size_t) {
  return POLYCONV_SUCCESS;
}

} // namespace

POLYCONV_DEFINE_BACKEND({FAKE_NAME, "1", "cpu", kernels(std::make_integer_sequence<int, kDefectCount>()), probe,
                         nullptr, POLYCONV_BACKEND_ON_REQUEST})
