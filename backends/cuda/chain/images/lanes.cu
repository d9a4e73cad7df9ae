// lanes.cu - two LeNets in f32, layers of few channels in one kernel, a lane an image: the four layers with strides in
// place of pooling, and the two pooled ones on 28 x 28 pixels.
//
// Floor: the products at the FMA rate, 12.1 and 7.2 GFLOP for 10000 images. Input and result take a twentieth of that.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "images/lanes.hpp"

#include <cinttypes>
#include <cmath>

#include "plan.hpp"

namespace polyconv::cuda {
namespace {

using namespace lanes;

constexpr const char *kNames[] = {"images8"};

// The net that a chain is by its layers' number, or nullptr.
const Net *net_of(const polyconv_request &request) {
  return request.count == kStrided.layers ? &kStrided : request.count == kPooled.layers ? &kPooled : nullptr;
}

class LanesInstance final : public chain::ChainInstance {
 public:
  explicit LanesInstance(const polyconv_request &request) : ChainInstance(request), net_(*net_of(request)) {
    const polyconv_tensor &result = layers_[net_.layers - 1].result;
    const bool first = sdk::channels_first(result);
    shape_.batch = small(layers_[0].input.size[0]);
    shape_.groups = small(ceil_div(shape_.batch, kImages));
    shape_.channel_step = first ? small(sdk::spatial(result)) : 1;
    shape_.pixel_step = first ? 1 : small(result.size[1]);
    for (int i = 0; i < net_.layers; ++i)
      shape_.floor[i] = layers_[i].epilogue.activation == POLYCONV_ACT_RELU ? 0.0f : -INFINITY;
    const DeviceScope scope(device_);
    allow_shared(kernel_of(net_), block_shared_bytes(device_));
    blocks_ = std::min(shape_.groups, multiprocessors_of(device_) * kTogether);
  }

 private:
  void pack_layer(const polyconv_layer &layer, int number, const void *raw, void *packed,
                  cudaStream_t stream) override {
    lanes::pack(net_, layer, number, raw, packed, stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Lanes p = shape_;
    p.input = static_cast<const float *>(a.input), p.result = static_cast<float *>(a.output);
    for (int i = 0; i < net_.layers; ++i) {
      p.weights[i] = static_cast<const float *>(a.weights[i]);
      p.bias[i] = layers_[i].epilogue.has_bias ? static_cast<const float *>(a.bias[i]) : nullptr;
    }
    kernel_of(net_)<<<static_cast<unsigned>(blocks_), kThreads, static_cast<size_t>(shared_bytes_of(net_)), stream>>>(
        p);
    check_launch("cuda-chain/lanes");
  }

  const Net &net_;
  Lanes shape_ = {};
  int blocks_ = 0;
};

bool takes_pooling(const polyconv_layer &l, int window) {
  const polyconv_pool &pool = l.epilogue.pool;
  if (window == 1) return !sdk::has_pooling(l);
  bool same = pool.kind == POLYCONV_POOL_MAX;
  for (int axis = 1; axis < 3; ++axis)
    same = same && pool.window[axis] == window && pool.stride[axis] == window && pool.pad_begin[axis] == 0 &&
           l.result.size[2 + axis] * window == l.output.size[2 + axis];
  return same;
}

bool takes_layer(const polyconv_layer &l, const LayerShape &s, int i, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("layer %d: computes outputs, not gradients", i);
  if (l.input.type != POLYCONV_F32 || l.weights.type != POLYCONV_F32 || l.result.type != POLYCONV_F32)
    return offer.reject("layer %d: takes f32 only", i);
  if (!is_2d(l)) return offer.reject("layer %d: takes images of two dimensions", i);
  if (l.groups != 1 || l.input.size[1] != s.in || l.output.size[1] != s.out)
    return offer.reject("layer %d: has %d channels in and %d out, not %" PRId64 " and %" PRId64, i, s.in, s.out,
                        l.input.size[1], l.output.size[1]);
  for (int axis = 1; axis < 3; ++axis) {
    if (l.weights.size[2 + axis] != s.taps || l.stride[axis] != s.stride || l.dilation[axis] != 1)
      return offer.reject("layer %d: has %dx%d taps at stride %d", i, s.taps, s.taps, s.stride);
    if (l.pad_begin[axis] != s.pad || l.output.size[2 + axis] != s.size)
      return offer.reject("layer %d: pads by %d and gives %d rows and columns, not %" PRId64 " and %" PRId64, i, s.pad,
                          s.size, l.pad_begin[axis], l.output.size[2 + axis]);
  }
  if (s.pad > 0 && l.pad_mode != POLYCONV_PAD_ZERO) return offer.reject("layer %d: pads with zeros", i);
  if (!takes_pooling(l, s.pool))
    return offer.reject("layer %d: ends with the maximum of %dx%d outputs", i, s.pool, s.pool);
  return bias_and_relu_at_most(l) || offer.reject("layer %d: finishes with a bias and a relu at most", i);
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  const Net *net = net_of(request);
  if (net == nullptr) return offer.reject("fuses 2 or 4 layers, not %d", request.count);
  for (int i = 0; i < net->layers; ++i)
    if (!takes_layer(*request.layers[i], net->layer[i], i, offer)) return false;
  const polyconv_tensor &input = request.layers[0]->input, &result = request.layers[net->layers - 1]->result;
  if (!sdk::channels_first(input)) return offer.reject("layer 0: takes a dense input");
  if (!sdk::channels_first(result) && !sdk::channels_last(result))
    return offer.reject("layer %d: gives a dense result", net->layers - 1);
  return input.size[0] <= 1 << 26 || offer.reject("takes at most 2^26 images, not %" PRId64, input.size[0]);
}

// A block that is alone waits for itself; five of them reach the rate that an image's products take. Fitted to batches
// of 1 to 10000 on an H200.
double lanes_us(const Net &net, int64_t batch) {
  const double blocks = std::ceil(real(ceil_div(batch, kImages)) / kHopperMultiprocessors); // of a multiprocessor
  const double rounds = std::ceil(blocks / kTogether), busy = std::min<double>(blocks, kTogether);
  const bool strided = &net == &kStrided;
  return 2 + rounds * std::max(strided ? 49.0 : 28.5, (strided ? 34.0 : 19.0) * busy);
}

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const Net &net = *net_of(request);
  const int64_t batch = request.layers[0]->input.size[0], most = chain::most_shared(request);
  offer.shared_bytes = shared_bytes_of(net);
  if (offer.shared_bytes > most)
    return offer.reject("needs at least %" PRId64 " bytes of shared memory a block, %" PRId64 " may be used",
                        offer.shared_bytes, most);
  for (int i = 0; i < net.layers; ++i) {
    char format[POLYCONV_FORMAT_SIZE];
    std::snprintf(format, sizeof format, "cuda_chain_lanes%d_%d:3", net.layers, i);
    offer.set_weights(i, format, int64_t{packed_floats(net, i)} * 4);
  }
  offer.estimate_us = lanes_us(net, batch);
  offer.blocks = std::min<int64_t>(ceil_div(batch, kImages), int64_t{kHopperMultiprocessors} * kTogether);
  offer.threads = kThreads;
  offer.occupancy = static_cast<float>(kThreads * kTogether) / 2048;
  offer.say("%d images a block, a lane each", kImages);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(lanes, kNames, supports, instance_of<LanesInstance>);

} // namespace polyconv::cuda
