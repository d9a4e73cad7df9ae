// chain.cpp - chains in one kernel, in f32 and f16: every output asks for what it needs of the layer before, so that
// nothing is stored between; and copies of the kernel with one defect each, those that tiles of real kernels tempt to.
// SPDX-License-Identifier: Apache-2.0
#include "chain.hpp"

#include <polyconv/sdk/epilogue.hpp>
#include <polyconv/sdk/tensor.hpp>

namespace faulty {
namespace {

using namespace polyconv::sdk;

constexpr int64_t kTile = 4; // outputs of the last layer that a defect takes for one tile

enum class Defect { none, computes_padding, short_halo, unrounded, drops_inner_bias };

class Chain final : public Instance {
 public:
  Chain(const polyconv_request &request, Defect defect) : defect_(defect), count_(request.count) {
    for (int i = 0; i < count_; ++i) layers_[i] = *request.layers[i];
  }

  void run(const polyconv_arguments &a, void *) const override {
    const polyconv_tensor &out = layers_[count_ - 1].result;
    for (int64_t n = 0; n < out.size[kN]; ++n)
      for (int64_t k = 0; k < out.size[kC]; ++k)
        for (int64_t h = 0; h < out.size[kH]; ++h)
          for (int64_t w = 0; w < out.size[kW]; ++w) {
            const float v = value(a, count_ - 1, {n, h, w, (w / kTile + 1) * kTile}, k);
            store_as(a.output, out.type, at(out, n, k, 0, h, w), v);
          }
  }

 private:
  struct Place {
    int64_t n, h, w;
    int64_t tile_end; // the first column behind the tile that the final output belongs to
  };

  float value(const polyconv_arguments &a, int layer, const Place &place, int64_t k) const {
    const polyconv_layer &l = layers_[layer];
    const int64_t channels = l.weights.size[1], group = k / (l.output.size[kC] / l.groups);
    float sum = 0;
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t r = 0; r < l.weights.size[3]; ++r)
        for (int64_t s = 0; s < l.weights.size[4]; ++s) {
          const Place from = {place.n, place.h * l.stride[1] - l.pad_begin[1] + r * l.dilation[1],
                              place.w * l.stride[2] - l.pad_begin[2] + s * l.dilation[2], place.tile_end};
          sum += read(a, layer, from, group * channels + c) *
                 load_as<float>(a.weights[layer], l.weights.type, at(l.weights, k, c, 0, r, s));
        }
    const bool biased = l.epilogue.has_bias && !(defect_ == Defect::drops_inner_bias && layer + 1 < count_);
    if (biased) sum += static_cast<const float *>(a.bias[layer])[k];
    return activate(sum, l.epilogue);
  }

  // What `layer` reads at a place, of its padding too.
  float read(const polyconv_arguments &a, int layer, const Place &p, int64_t c) const {
    const polyconv_tensor &in = layers_[layer].input;
    const bool outside = p.h < 0 || p.w < 0 || p.h >= in.size[kH] || p.w >= in.size[kW];
    if (layer == 0) return outside ? 0 : load_as<float>(a.input, in.type, at(in, p.n, c, 0, p.h, p.w));
    if (outside && defect_ != Defect::computes_padding) return 0;
    if (defect_ == Defect::short_halo && p.w >= p.tile_end) return 0;
    const float v = value(a, layer - 1, p, c);
    if (defect_ == Defect::unrounded) return v;
    double stored = 0; // room for every type
    store_as(&stored, in.type, 0, v);
    return load_as<float>(&stored, in.type, 0);
  }

  const Defect defect_;
  const int count_;
  polyconv_layer layers_[POLYCONV_MAX_CHAIN];
};

bool takes(const polyconv_layer &l, int index, Offer &offer) {
  const polyconv_epilogue &e = l.epilogue;
  if (l.direction != POLYCONV_FORWARD || (l.sum_type != POLYCONV_F32) || is_integer_type(l.input.type))
    return offer.reject("layer %d is no forward convolution of floats", index);
  if (l.pad_mode != POLYCONV_PAD_ZERO || l.input.size[kD] != 1 || l.weights.size[2] != 1)
    return offer.reject("layer %d pads with something else than zeros, or has three axes", index);
  if (has_pooling(l) || e.has_scale || e.residual_from != POLYCONV_RESIDUAL_NONE || l.save != POLYCONV_SAVE_NONE)
    return offer.reject("layer %d has more than bias and activation", index);
  return true;
}

bool supports(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count < 2) return offer.reject("convolves several layers");
  for (int i = 0; i < request.count; ++i)
    if (!takes(*request.layers[i], i, offer)) return false;
  offer.estimate_us = 20;
  return true;
}

template <Defect defect>
std::unique_ptr<Instance> create(const polyconv_request &request, int32_t) {
  return std::make_unique<Chain>(request, defect);
}

constexpr const char *kConfigs[] = {"only"};

template <Defect defect>
constexpr Kernel kernel_of(const char *name) {
  return {name, 0, kConfigs, 1, supports, create<defect>};
}

const Kernel kCorrect = kernel_of<Defect::none>("chain_correct");
const Kernel kComputesPadding = kernel_of<Defect::computes_padding>("chain_computes_padding");
const Kernel kShortHalo = kernel_of<Defect::short_halo>("chain_short_halo");
const Kernel kUnrounded = kernel_of<Defect::unrounded>("chain_unrounded");
const Kernel kDropsInnerBias = kernel_of<Defect::drops_inner_bias>("chain_drops_inner_bias");

} // namespace

const std::vector<const Kernel *> chains = {&kCorrect, &kComputesPadding, &kShortHalo, &kUnrounded, &kDropsInnerBias};

} // namespace faulty
