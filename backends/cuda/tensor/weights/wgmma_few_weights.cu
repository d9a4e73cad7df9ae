// wgmma_few_weights.cu - the gradient of weights for few input channels, f16 and bf16, compute capability 9.0: a row of
// a window, its taps and channels, is taken for 64 channels of one pixel. The input is copied so that they lie side by
// side, with 2 to 16 channels a pixel and zeros for the padding of rows; windows that overlap are a tensor whose pixels
// are less than 64 elements apart. wgmma_weights does the rest, and a small kernel picks out what are weights.
//
// Floor: 64 channels' products for each row of a window; the copy reads and writes the input once.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/sums/bias_gradient.hpp"
#include "common/values.cuh"

namespace polyconv::cuda {

extern const sdk::Kernel kernel_wgmma_weights, kernel_wgmma_few_weights;

namespace {

constexpr int kThreads = 256, kWindow = 64; // elements

// The input as it is copied, in elements: `channels` a pixel, `row` a row of an image.
struct Wide {
  int64_t channels = 0, row = 0, size = 0;
};

// The least channels, a power of two, with which windows begin at whole 16 bytes; without any where they do not fit.
Wide wide_of(const polyconv_layer &l) {
  const int64_t reach = (l.weights.size[4] - 1) * l.dilation[2] + 1;
  Wide w;
  for (int64_t channels = 2; channels <= 16 && w.channels == 0; channels *= 2)
    if (channels >= l.weights.size[1] && channels * l.stride[2] % 8 == 0 && channels * reach <= kWindow)
      w.channels = channels;
  w.row = (l.output.size[4] - 1) * l.stride[2] * w.channels + kWindow;
  w.size = l.input.size[0] * l.input.size[3] * w.row;
  return w;
}

void make_dense(polyconv_tensor *t, int32_t type) {
  t->type = type, t->offset = 0;
  int64_t stride = 1;
  for (const int axis : {4, 3, 2, 1, 0}) t->stride[axis] = stride, stride *= t->size[axis];
}

// The layer as wgmma_weights gets it: 64 channels, windows of one column. The bias's gradient is of other channels.
polyconv_layer windows_of(const polyconv_layer &l, const Wide &wide) {
  polyconv_layer w = l;
  w.weights.size[1] = w.input.size[1] = kWindow;
  w.weights.size[4] = w.stride[2] = w.dilation[2] = 1;
  w.pad_begin[2] = w.pad_end[2] = 0;
  w.input.size[4] = l.output.size[4], w.input.offset = 0;
  w.input.stride[1] = 1, w.input.stride[4] = l.stride[2] * wide.channels, w.input.stride[3] = wide.row;
  w.input.stride[0] = w.input.stride[2] = wide.row * l.input.size[3];
  make_dense(&w.weights, POLYCONV_F32);
  w.result = w.weights;
  w.epilogue.has_bias = 0, w.bias_over_input = 0;
  return w;
}

// ---------------------------------------------------------------- copies

template <class T>
struct Vector {
  alignas(16) T element[8];
};

template <class T>
__global__ void __launch_bounds__(kThreads) widen(const View<int64_t> input, const T *from, int32_t channels,
                                                  int64_t row, int32_t pad, Vector<T> *to, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads, vectors = row / 8;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t line = i / vectors, n = line / input.size[3], h = line - n * input.size[3];
    const auto first = static_cast<int32_t>(i - line * vectors) * 8;
    Vector<T> v = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int32_t w = (first + e) / channels - pad, c = (first + e) % channels;
      if (w >= 0 && w < input.size[4] && c < input.size[1]) v.element[e] = from[input.at(n, c, 0, h, w)];
    }
    to[i] = v;
  }
}

// windows: filters x 64 x rows of taps.
__global__ void __launch_bounds__(kThreads)
    pick(const View<int64_t> weights, const float *windows, int32_t pitch, void *result, int32_t type, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> p = weights.along_w(i);
    store(result, type, weights.at(p), windows[(p.n * kWindow + p.w * pitch + p.c) * weights.size[3] + p.h]);
  }
}

// ---------------------------------------------------------------- supports

struct Bytes {
  int64_t input, windows, bias; // of the workspace, before what the product needs

  int64_t all() const { return input + windows + bias; }
};
Bytes bytes_of(const polyconv_layer &l, const Wide &wide) {
  return {aligned_bytes(wide.size * 2), aligned_bytes(l.weights.size[0] * kWindow * l.weights.size[3] * 4),
          aligned_bytes(bias_gradient_bytes(l))};
}

bool supports_few(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!is_half(l.input.type)) return offer.reject("takes f16 and bf16");
  if (!takes_2d(l, offer)) return false;
  if (!takes_zeros(has_zero_padding(l), offer)) return false;
  if (!takes_one_group(l, offer)) return false;
  if (!takes_no_empty({&l.output, &l.input}, offer)) return false;
  const Wide wide = wide_of(l);
  if (wide.channels == 0)
    return offer.reject("takes %lld taps of %lld channels in a row for %d channels: too many",
                        static_cast<long long>(l.weights.size[4]), static_cast<long long>(l.weights.size[1]), kWindow);
  const polyconv_layer windows = windows_of(l, wide);
  const polyconv_layer *const pointer = &windows;
  polyconv_request of_windows = request;
  of_windows.layers = &pointer;
  if (!kernel_wgmma_weights.supports(of_windows, config, offer)) return false;
  const Bytes bytes = bytes_of(l, wide);
  offer.workspace_bytes = aligned_bytes(offer.workspace_bytes) + bytes.all();
  offer.estimate_us += bias_gradient_us(l) + 5 + static_cast<double>(wide.size + sdk::elements(l.input)) * 2 / 2.5e6;
  return takes_workspace(request, offer, "its copy of the input");
}

// ---------------------------------------------------------------- plan and run

class FewWeights final : public CudaInstance {
 public:
  FewWeights(const polyconv_request &request, int32_t config)
      : CudaInstance(request), wide_(wide_of(layer_)), bytes_(bytes_of(layer_, wide_)) {
    const polyconv_layer windows = windows_of(layer_, wide_);
    const polyconv_layer *const pointer = &windows;
    polyconv_request of_windows = request;
    of_windows.layers = &pointer;
    product_ = kernel_wgmma_weights.create(of_windows, config);
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    char *const workspace = static_cast<char *>(a.workspace);
    auto *const windows = reinterpret_cast<float *>(workspace + bytes_.input);
    const View<int64_t> input(layer_.input);
    const int64_t vectors = wide_.size / 8, count = sdk::elements(layer_.weights);
    widen<<<blocks_for(vectors, kThreads), kThreads, 0, stream>>>(
        input, static_cast<const uint16_t *>(a.input), static_cast<int32_t>(wide_.channels), wide_.row,
        static_cast<int32_t>(layer_.pad_begin[2]), reinterpret_cast<Vector<uint16_t> *>(workspace), vectors);
    check_launch("the copy of few channels");
    polyconv_arguments b = a;
    b.input = workspace, b.weights[0] = windows, b.workspace = workspace + bytes_.all();
    product_->run(b, stream);
    pick<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(layer_.result), windows, static_cast<int32_t>(wide_.channels * layer_.dilation[2]), a.weights[0],
        layer_.result.type, count);
    check_launch("the end of a gradient of few channels");
    bias_gradient(layer_, a, workspace + bytes_.input + bytes_.windows, stream);
  }

  const Wide wide_;
  const Bytes bytes_;
  std::unique_ptr<sdk::Instance> product_;
};

std::unique_ptr<sdk::Instance> create_few(const polyconv_request &request, int32_t config) {
  return std::make_unique<FewWeights>(request, config);
}

} // namespace

const sdk::Kernel kernel_wgmma_few_weights = {
    "wgmma_few_weights", 0, kernel_wgmma_weights.configs, kernel_wgmma_weights.config_count, supports_few, create_few};

} // namespace polyconv::cuda
