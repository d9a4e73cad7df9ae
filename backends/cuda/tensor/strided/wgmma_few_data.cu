// wgmma_few_data.cu - backward data for few input channels, f16 and bf16, compute capability 9.0: the channels of all
// residues of the strides are output channels of one forward layer of stride 1 over the output's gradient, whose
// windows hold every tap that any residue has, with zeros for those that it has not. wgmma_halo or wgmma computes it,
// and a copy puts residues and channels into place.
//
// Floor: a forward layer of 64 output channels, which is the least that the products of either kernel are wide.
// SPDX-License-Identifier: Apache-2.0
#include "common/conv.cuh"
#include "common/host.hpp"
#include "common/rewrite/products.hpp"
#include "common/values.cuh"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma, kernel_wgmma_halo;

namespace {

constexpr int kThreads = 256, kMostChannels = 256;
constexpr const char *kNames[] = {"halo", "tiles"};
const sdk::Kernel *const kForward[] = {&kernel_wgmma_halo, &kernel_wgmma};

int64_t floor_divide(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((b - 1 - a) / b);
}

void make_dense(const int (&inner_to_outer)[5], int32_t type, polyconv_tensor *t) {
  t->type = type, t->offset = 0;
  int64_t stride = 1;
  for (const int axis : inner_to_outer) t->stride[axis] = stride, stride *= t->size[axis];
}

// Input q s + a reads output q + t through tap a + p - t s, for every t from `first` on.
struct Axis {
  int64_t first, taps;
};
Axis axis_of(const polyconv_layer &l, int axis) {
  const int64_t s = l.stride[axis], p = l.pad_begin[axis];
  const int64_t first = -floor_divide(l.weights.size[2 + axis] - 1 - p, s);
  return {first, floor_divide(s - 1 + p, s) - first + 1};
}

// Its output channels: of each residue all channels, and zeros up to whole 16 bytes.
polyconv_layer forward_of(const polyconv_layer &l) {
  polyconv_layer f = l;
  f.direction = POLYCONV_FORWARD;
  f.input = l.output;
  f.pad_mode = POLYCONV_PAD_ZERO, f.pad_value = 0;
  f.weights.size[0] = (l.weights.size[1] * l.stride[1] * l.stride[2] + 7) / 8 * 8;
  f.weights.size[1] = l.weights.size[0];
  f.output.size[0] = l.input.size[0], f.output.size[1] = f.weights.size[0];
  for (int axis = 0; axis < 3; ++axis) {
    const Axis a = axis_of(l, axis);
    f.weights.size[2 + axis] = a.taps;
    f.output.size[2 + axis] = (l.input.size[2 + axis] + l.stride[axis] - 1) / l.stride[axis];
    f.stride[axis] = 1, f.pad_begin[axis] = -a.first;
    f.pad_end[axis] = std::max<int64_t>(f.output.size[2 + axis] - 1 + a.taps + a.first - f.input.size[2 + axis], 0);
  }
  make_dense({4, 3, 2, 1, 0}, l.weights.type, &f.weights);
  make_dense({1, 4, 3, 2, 0}, l.result.type, &f.output);
  f.result = f.output;
  return f;
}

// ---------------------------------------------------------------- copies

// What both copies know of the strides: residues of an image's rows and columns, and where windows begin.
struct Residues {
  int64_t channels;
  int32_t stride[2], pad[2], first[2], taps[2];

  explicit Residues(const polyconv_layer &l) : channels(l.weights.size[1]) {
    for (int i = 0; i < 2; ++i) {
      stride[i] = static_cast<int32_t>(l.stride[1 + i]), pad[i] = static_cast<int32_t>(l.pad_begin[1 + i]);
      first[i] = static_cast<int32_t>(axis_of(l, 1 + i).first);
      taps[i] = static_cast<int32_t>(l.weights.size[3 + i]);
    }
  }
};

// `to`: the forward layer's weights, of shape `forward`.
__global__ void __launch_bounds__(kThreads, 1)
    place_weights(const View<int64_t> weights, const uint16_t *from, const View<int64_t> forward, const Residues r,
                  uint16_t *to, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> p = forward.along_w(i);
    const int64_t residue = p.n / r.channels, c = p.n - residue * r.channels;
    const int64_t h = residue / r.stride[1] + r.pad[0] - (p.h + r.first[0]) * r.stride[0];
    const int64_t w = residue % r.stride[1] + r.pad[1] - (p.w + r.first[1]) * r.stride[1];
    const bool there =
        residue < r.stride[0] * r.stride[1] && h >= 0 && h < weights.size[3] && w >= 0 && w < weights.size[4];
    to[i] = there ? from[weights.at(p.c, c, 0, h, w)] : uint16_t{};
  }
}

// A factor that is not finite, times the zero of a tap that a residue has not, is NaN where nothing belongs. So what is
// not finite is summed again, over the taps that are there.
template <class T>
struct Factors {
  View<int64_t> gradient, weights; // the forward layer's
  const T *dy, *w;

  // Residue `a`, `b` of the strides, element `at` of the forward layer's output.
  __device__ float sum(const Residues &r, int64_t a, int64_t b, const Place<int64_t> &at) const {
    float sum = 0;
    for (int64_t y = 0; y < weights.size[3]; ++y)
      for (int64_t x = 0; x < weights.size[4]; ++x) {
        const int64_t tap_y = a + r.pad[0] - (y + r.first[0]) * r.stride[0], h = at.h + y + r.first[0];
        const int64_t tap_x = b + r.pad[1] - (x + r.first[1]) * r.stride[1], v = at.w + x + r.first[1];
        if (tap_y < 0 || tap_y >= r.taps[0] || tap_x < 0 || tap_x >= r.taps[1]) continue;
        if (h < 0 || h >= gradient.size[3] || v < 0 || v >= gradient.size[4]) continue;
        for (int64_t k = 0; k < weights.size[1]; ++k)
          sum += value(dy[gradient.at(at.n, k, 0, h, v)]) * value(w[weights.at(at.c, k, 0, y, x)]);
      }
    return sum;
  }
};

// `from`: the forward layer's result, dense with channels last.
template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    place_result(const __grid_constant__ Factors<T> factors, const View<int64_t> forward, const T *from,
                 const View<int64_t> result, const Residues r, T *to, int64_t pixels) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < pixels; i += step) {
    const Place<int64_t> p = result.pixel_of(i);
    const int64_t h = p.h / r.stride[0], w = p.w / r.stride[1], a = p.h - h * r.stride[0], b = p.w - w * r.stride[1];
    const int64_t channel = (a * r.stride[1] + b) * r.channels, first = result.at(p);
    const T *const sums = from + forward.at(p.n, channel, 0, h, w);
    for (int64_t c = 0; c < r.channels; ++c) {
      const bool finite = fabsf(value(sums[c])) < INFINITY;
      to[first + c * result.stride[1]] =
          finite ? sums[c] : static_cast<T>(factors.sum(r, a, b, {p.n, channel + c, 0, h, w}));
    }
  }
}

// ---------------------------------------------------------------- supports

bool accepts(const polyconv_request &request, const polyconv_layer &forward, int32_t config, sdk::Offer *offer) {
  *offer = {};
  offer->struct_size = sizeof(polyconv_offer);
  return kForward[config]->supports(InnerRequest(request, forward, 0).get(), -1, *offer);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_DATA, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.output.type;
  if (!is_half(type) || l.weights.type != type || l.result.type != type)
    return offer.reject("takes f16 and bf16, the same for output, weights and input");
  if (!takes_2d(l, offer)) return false;
  if (!takes_no_pooling(l, offer)) return false;
  if (l.pad_mode != POLYCONV_PAD_ZERO && l.pad_mode != POLYCONV_PAD_CONSTANT)
    return offer.reject("folds no gradient of the padding back: pads with zeros or a constant");
  if (!takes_one_group(l, offer)) return false;
  if (!bare(l)) return offer.reject("ends with the sums: takes no bias and no activation");
  if (!takes_no_empty({&l.output, &l.input}, offer)) return false;
  const int64_t channels = l.weights.size[1] * l.stride[1] * l.stride[2];
  if (channels > kMostChannels)
    return offer.reject("takes up to %d channels of all residues of the strides, not %lld", kMostChannels,
                        static_cast<long long>(channels));
  for (int axis = 1; axis < 3; ++axis) {
    if (l.dilation[axis] != 1) return offer.reject("takes no dilation");
    if (axis_of(l, axis).first > 0) return offer.reject("takes padding of less than the window");
  }
  return true;
}

bool supports_few(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0], f = forward_of(l);
  sdk::Offer best = {}, one;
  for (int c = config < 0 ? 0 : config; c < (config < 0 ? 2 : config + 1); ++c) {
    if (!accepts(request, f, c, &one)) {
      if (best.estimate_us <= 0) {
        offer.wants_layout = one.wants_layout;
        offer.reject("as a forward layer over the output's gradient: %s", one.reason);
      }
    } else if (best.estimate_us <= 0 || one.estimate_us < best.estimate_us) {
      best = one, best.config = c;
    }
  }
  if (best.estimate_us <= 0) return false;
  offer.wants_layout = 0;
  offer.config = best.config;
  const double bytes = static_cast<double>(sdk::elements(l.input) + sdk::elements(f.output)) * 2;
  // A thread copies a pixel's channels one after the other: 31 layers on an H200.
  const double channels = static_cast<double>(l.weights.size[1]);
  const double apart = channels > 8 ? 0.1 * channels + static_cast<double>(sdk::elements(l.input)) / 130e3 : 0;
  offer.estimate_us = best.estimate_us + 4 + bytes / 1.5e6 + apart;
  offer.workspace_bytes = aligned_bytes(best.workspace_bytes) + aligned_bytes(sdk::elements(f.output) * 2);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "few_p%dx%d_%.20s", static_cast<int>(l.pad_begin[1]),
                static_cast<int>(l.pad_begin[2]), best.weights_format[0]);
  offer.set_weights(0, format, aligned_bytes(best.weights_bytes[0]) + sdk::elements(f.weights) * 2);
  return takes_workspace(request, offer, "what it copies into place");
}

// ---------------------------------------------------------------- plan and run

class FewData final : public CudaInstance {
 public:
  FewData(const polyconv_request &request, int32_t config) : CudaInstance(request), forward_(forward_of(layer_)) {
    sdk::Offer offer;
    accepts(request, forward_, config, &offer);
    product_ = kForward[config]->create(InnerRequest(request, forward_, 0).get(), offer.config);
    packed_bytes_ = aligned_bytes(offer.weights_bytes[0]);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    auto *const dense = reinterpret_cast<uint16_t *>(static_cast<char *>(packed) + packed_bytes_);
    const int64_t count = sdk::elements(forward_.weights);
    place_weights<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(layer_.weights), static_cast<const uint16_t *>(raw), View<int64_t>(forward_.weights),
        Residues(layer_), dense, count);
    check_launch("the placing of weights");
    product_->pack(0, dense, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    polyconv_arguments b = a;
    b.input = a.output, b.output = a.workspace;
    b.workspace = static_cast<char *>(a.workspace) + aligned_bytes(sdk::elements(forward_.output) * 2);
    product_->run(b, stream);
    if (layer_.result.type == POLYCONV_F16)
      place<__half>(a, stream);
    else
      place<__nv_bfloat16>(a, stream);
    check_launch("the placing of residues");
  }

  template <class T>
  void place(const polyconv_arguments &a, cudaStream_t stream) const {
    const int64_t pixels = layer_.result.size[0] * sdk::spatial(layer_.result);
    const auto *const weights = reinterpret_cast<const T *>(static_cast<const char *>(a.weights[0]) + packed_bytes_);
    const Factors<T> factors = {View<int64_t>(forward_.input), View<int64_t>(forward_.weights),
                                static_cast<const T *>(a.output), weights};
    place_result<<<blocks_for(pixels, kThreads), kThreads, 0, stream>>>(
        factors, View<int64_t>(forward_.output), static_cast<const T *>(a.workspace), View<int64_t>(layer_.result),
        Residues(layer_), static_cast<T *>(a.input), pixels);
  }

  const polyconv_layer forward_;
  std::unique_ptr<sdk::Instance> product_;
  int64_t packed_bytes_ = 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(wgmma_few_data, kNames, supports_few, instance_of<FewData>);

} // namespace polyconv::cuda
