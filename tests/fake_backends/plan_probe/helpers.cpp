// helpers.cpp - plan_probe's steps beside convolutions: pooling of f32, slower and faster, and conversion of layouts.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/sdk/backend.hpp>

#include <cstring>

#include "probe.hpp"

namespace probe {
namespace {

const char *const kOnly[] = {"only"};

// Calls body(n, c, d, h, w) for every element of a tensor.
template <class Body>
void each(const polyconv_tensor &t, const Body &body) {
  for (int64_t n = 0; n < t.size[0]; ++n)
    for (int64_t c = 0; c < t.size[1]; ++c)
      for (int64_t d = 0; d < t.size[2]; ++d)
        for (int64_t h = 0; h < t.size[3]; ++h)
          for (int64_t w = 0; w < t.size[4]; ++w) body(n, c, d, h, w);
}

class Pool final : public Instance {
 public:
  explicit Pool(const polyconv_request &request) : layer_(*request.layers[0]) {}

  void run(const polyconv_arguments &a, void *) const override {
    const auto *in = static_cast<const float *>(a.input);
    each(layer_.result, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
      int32_t winner = 0;
      const float v = quantise(window(in, n, c, {d, h, w}, &winner), layer_.epilogue, layer_.result.type);
      store_as(a.output, layer_.result.type, at(layer_.result, n, c, d, h, w), v);
      if (layer_.save == POLYCONV_SAVE_ARGMAX)
        static_cast<int32_t *>(a.saved[0])[at(layer_.saved, n, c, d, h, w)] = winner;
    });
  }

 private:
  struct Place {
    int64_t d, h, w;
  };

  // Maximum, or average over what lies inside.
  float window(const float *in, int64_t n, int64_t c, Place o, int32_t *winner) const {
    const polyconv_pool &p = layer_.epilogue.pool;
    const bool max = p.kind == POLYCONV_POOL_MAX;
    float sum = 0, best = 0;
    int64_t count = 0;
    int32_t index = 0;
    for (int64_t d = 0; d < p.window[0]; ++d)
      for (int64_t h = 0; h < p.window[1]; ++h)
        for (int64_t w = 0; w < p.window[2]; ++w, ++index) {
          const int64_t id = o.d * p.stride[0] - p.pad_begin[0] + d, ih = o.h * p.stride[1] - p.pad_begin[1] + h,
                        iw = o.w * p.stride[2] - p.pad_begin[2] + w;
          const int64_t(&size)[5] = layer_.input.size;
          if (id < 0 || ih < 0 || iw < 0 || id >= size[2] || ih >= size[3] || iw >= size[4]) continue;
          const float v = in[at(layer_.input, n, c, id, ih, iw)];
          if (count++ == 0 || v > best) best = v, *winner = index;
          sum += v;
        }
    return max ? best : sum / static_cast<float>(count);
  }

  polyconv_layer layer_;
};

template <int us>
bool pools(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.op != POLYCONV_OP_POOL) return offer.reject("only pools");
  const polyconv_layer &l = *request.layers[0];
  if (l.input.type != POLYCONV_F32) return offer.reject("pools f32 only");
  if (l.epilogue.pool.count_include_pad != 0) return offer.reject("never counts padding");
  offer.estimate_us = us;
  return true;
}

std::unique_ptr<Instance> create_pool(const polyconv_request &request, int32_t) {
  return std::make_unique<Pool>(request);
}

class Convert final : public Instance {
 public:
  explicit Convert(const polyconv_request &request) : layer_(*request.layers[0]) {}

  void run(const polyconv_arguments &a, void *) const override {
    each(layer_.result, [&](int64_t n, int64_t c, int64_t d, int64_t h, int64_t w) {
      const float v = static_cast<const float *>(a.input)[at(layer_.input, n, c, d, h, w)];
      static_cast<float *>(a.output)[at(layer_.result, n, c, d, h, w)] = v;
    });
  }

 private:
  polyconv_layer layer_;
};

bool converts(const polyconv_request &request, int32_t, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVERT) return offer.reject("only converts");
  if (request.layers[0]->input.type != POLYCONV_F32) return offer.reject("converts f32 only");
  offer.estimate_us = 1;
  return true;
}

std::unique_ptr<Instance> create_convert(const polyconv_request &request, int32_t) {
  return std::make_unique<Convert>(request);
}

const Kernel kPoolSlowly = {"pool_slowly", 0, kOnly, 1, pools<9>, create_pool};
const Kernel kPool = {"pool", 0, kOnly, 1, pools<7>, create_pool};
const Kernel kPoolGeneric = {"pool_generic", POLYCONV_KERNEL_GENERIC, kOnly, 1, pools<1>, create_pool};
const Kernel kConvert = {"convert", 0, kOnly, 1, converts, create_convert};

} // namespace

const std::vector<const Kernel *> helpers = {&kPoolSlowly, &kPool, &kPoolGeneric, &kConvert};

} // namespace probe
