// few_out_plan.cu - which layers cuda-tensor/few_out takes and how it cuts them up, how weights are packed, and the
// run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "common/conv.cuh"
#include "common/host.hpp"
#include "few/few_out.cuh"

namespace polyconv::cuda::few_out {
namespace {

constexpr int kMostRows = 96;    // of products
constexpr int kMostByOneTap = 4; // filters: of more the loads, which read no input twice, are not what takes time

int element_bytes(const polyconv_layer &l) {
  return few::element_bytes(l.input);
}
// Bytes of shared memory, to each of so many blocks of a multiprocessor: the system keeps 1 KiB for every block.
int lent(int device, int blocks) {
  return (static_cast<int>(block_shared_bytes(device)) + 1024) / blocks - 1024;
}
int64_t operands_of(const Geometry &g, int tiles) { // of 16 bytes
  return int64_t{g.vectors} * 2 * tiles * 32;
}

// ---------------------------------------------------------------- choice

// An instance with the geometry that it gives a layer, and what that costs.
struct Choice {
  const Variant *variant = nullptr; // NULL: none serves
  Geometry geometry = {};
  int64_t blocks = 0, shared = 0; // bytes
  double us = 0;
};

Geometry describe(const polyconv_layer &l) {
  Geometry g = {};
  static_cast<few::Shape &>(g) = few::shape_of(l), g.depth = few::depth_of(l);
  g.wide = l.result.type == POLYCONV_F32;
  g.products = g.filters * g.depth.taps * g.taps_h * g.taps_w;
  // From the slice that a plane of outputs begins with to its last, so many planes have begun.
  g.waiting = g.depth.taps == 1 ? 0 : small(std::min<int64_t>(ceil_div(g.depth.reach(), g.depth.step), g.depth.output));
  g.dense = g.depth.dilation == 1 && g.depth.taps >= g.depth.step ? 1 : 0;
  g.by_step = Divider::make(g.depth.step), g.by_waiting = Divider::make(std::max(g.waiting, 1));
  g.vectors = small(ceil_div(g.channels * element_bytes(l), 64));
  return g;
}

// Microseconds: of each slice the loads of all blocks at what a multiprocessor gets of memory, their products, a warp's
// turns of them, and their sums, a thread's turns; and what is before and after them. Fitted to 24 times of 15 layers
// on an H200: 8 % rms; and two blocks to 13 more.
double estimate(const polyconv_layer &l, const Choice &c, const Config &config, int64_t pixels) {
  const Geometry &g = c.geometry;
  const int32_t groups = groups_of(c.variant->tiles);
  const double slices = std::min<double>(g.depth.input, real(int64_t{g.deep - 1} * g.depth.step + g.depth.reach()));
  const double turns = real(ceil_div(pixels, config.threads() / 32 * kPositions * groups));
  const double loading = real(pixels) * g.vectors * 64 / 31e3 * config.blocks,
               multiplying = turns * groups * c.variant->tiles * g.vectors / 59;
  const int64_t sums = ceil_div(int64_t{g.rows} * g.columns * g.depth.taps, config.threads()) * ceil_div(g.filters, 4);
  const double adding = real(sums) * (1.18 + 0.05 * g.taps_h * g.taps_w);
  const double together = config.blocks == 1 ? 1 : 0.95; // of what two blocks would take in turn
  const double rounds = std::ceil(real(c.blocks) / (kHopperMultiprocessors * config.blocks)) * together;
  return 2 + std::max(rounds * (1.7 + slices * (loading + multiplying + adding)),
                      real(sdk::elements(l.input)) * element_bytes(l) / 3.6e6);
}

// Cuts the planes of the output into patches of the input's `pixels`, and depth into as many parts as take least.
void consider(const polyconv_layer &l, Choice c, const Config &config, int64_t pixels, int shared, Choice &best) {
  Geometry &g = c.geometry;
  c.shared += int64_t{g.waiting} * g.filters * g.rows * g.columns * 4;
  if (c.shared > shared) return;
  for (int64_t deep = g.depth.output;; deep = ceil_div(deep, 2)) {
    g.deep = small(deep), g.along = small(ceil_div(g.depth.output, deep));
    c.blocks = l.output.size[0] * g.along * g.down * g.across;
    c.us = estimate(l, c, config, pixels);
    if (c.blocks <= INT32_MAX && (best.variant == nullptr || c.us < best.us)) best = c;
    if (deep == 1) return;
  }
}

// Patches with up to so many pixels of a slice of the input, those that take least.
Choice choose(const polyconv_layer &l, const Variant &v, const Config &config, int shared) {
  const int64_t most = config.pixels;
  Choice best;
  Choice c;
  c.variant = &v, c.geometry = describe(l);
  Geometry &g = c.geometry;
  const auto under = [](int64_t outputs, int64_t step, int64_t reach, int64_t size) {
    return std::min((outputs - 1) * step + reach, size);
  };
  const int64_t warp = groups_of(v.tiles) * kPositions;                    // pixels, all of which it stores
  g.pitch = small(ceil_div(ceil_div(most, warp) * warp - 8, 32) * 32 + 8); // rows of a tile lie in banks of their own
  c.shared = kPatchBytes + operands_of(g, v.tiles) * 16 + int64_t{g.products} * (g.pitch + 1) * 4;
  if (c.shared > shared) return best;
  // Every width that parts of equal size have, and of these the highest patches and their halves.
  for (int64_t across = 1, columns = g.output_w;;
       across = ceil_div(g.output_w, columns - 1), columns = ceil_div(g.output_w, across)) {
    const int64_t width = under(columns, g.step_w, g.reach_w(), g.input_w), lines = most / width;
    const int64_t fits = lines >= g.input_h ? g.output_h : (lines - g.reach_h()) / g.step_h + 1;
    if (lines >= std::min<int64_t>(g.reach_h(), g.input_h))
      for (int64_t rows = std::clamp<int64_t>(fits, 1, g.output_h);; rows = ceil_div(rows, 2)) {
        rows = ceil_div(g.output_h, ceil_div(g.output_h, rows));
        g.rows = small(rows), g.columns = small(columns);
        g.down = small(ceil_div(g.output_h, rows)), g.across = small(ceil_div(g.output_w, columns));
        consider(l, c, config, width * under(rows, g.step_h, g.reach_h(), g.input_h), shared, best);
        if (rows == 1) break;
      }
    if (columns == 1) break;
  }
  return best;
}

Choice choose(const polyconv_layer &l, const Config &config, int device) {
  const int64_t products = l.weights.size[0] * sdk::taps(l);
  for (const Variant &v : variants())
    if (v.type == l.input.type && v.aligned && products <= v.tiles * 16)
      return choose(l, v, config, lent(device, config.blocks));
  return {};
}

// ---------------------------------------------------------------- pack

// What the packed weights depend on besides the weights.
struct Packing {
  int32_t tiles, bytes, filters, products; // bytes: of an element
  int64_t operands;                        // of 16 bytes

  Packing(const polyconv_layer &l, const Choice &c)
      : tiles(c.variant->tiles),
        bytes(element_bytes(l)),
        filters(c.geometry.filters),
        products(c.geometry.products),
        operands(operands_of(c.geometry, tiles)) {}
};

// The weight of a row of products for a channel.
__device__ float weight_of(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int32_t product,
                           int64_t c) {
  const int32_t tap = product / b.filters;
  const int64_t line = tap / raw.size[4], slice = line / raw.size[3];
  return load<float>(from, type,
                     raw.at(product - tap * b.filters, c, slice, line - slice * raw.size[3], tap - line * raw.size[4]));
}

// Element i of the operands: of [vector][step][tile][lane] the words of two rows of a tile, first of the one half of
// the lane's channels of the step, then of the other.
__device__ float operand_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int64_t i) {
  const int32_t in_word = 4 / b.bytes;
  auto rest = static_cast<int32_t>(i / in_word);
  const int32_t word = rest % 4, lane = (rest /= 4) % 32, tile = (rest /= 32) % b.tiles, step = (rest /= b.tiles) % 2;
  const int32_t product = tile * 16 + word % 2 * 8 + lane / 4;
  const int64_t c = ((rest / 2 * 4 + lane % 4) * 4 + step * 2 + word / 2) * in_word + i % in_word;
  if (product >= b.products || c >= raw.size[1]) return 0.0f;
  return weight_of(b, raw, from, type, product, c);
}

// What a row of products is where its pixels are zeros.
__device__ float outside_of(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type,
                            int32_t product) {
  float sum = 0;
  for (int64_t c = 0; c < raw.size[1]; ++c) sum = fmaf(0.0f, weight_of(b, raw, from, type, product, c), sum);
  return sum;
}

__global__ void pack_weights(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Packing b,
                             const void *from, int32_t type, void *to) {
  const int64_t elements = b.operands * 16 / b.bytes;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < elements + b.products;
       i += int64_t{gridDim.x} * blockDim.x) {
    if (i >= elements) {
      static_cast<float *>(to)[b.operands * 4 + i - elements] =
          outside_of(b, raw, from, type, static_cast<int32_t>(i - elements));
      continue;
    }
    const float v = operand_weight(b, raw, from, type, i);
    if (type == POLYCONV_F32)
      static_cast<uint32_t *>(to)[i] = tensor::rounded_to_tf32(__float_as_uint(v));
    else
      store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- plan and run

class FewOut final : public CudaInstance {
 public:
  FewOut(const polyconv_request &request, int32_t config)
      : CudaInstance(request), config_(kConfigs[config]), choice_(choose(few::as_image(layer_), config_, device_)) {
    if (choice_.variant == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-tensor/few_out: no way through this layer");
    const DeviceScope scope(device_);
    for (const Variant *v : {choice_.variant, unaligned()}) allow_shared(v->kernel, lent(device_, 1));
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    const Packing packing(layer_, choice_);
    pack_weights<<<blocks_for(packing.operands * 8 + packing.products, 256), 256, 0, stream>>>(
        View<int64_t>(layer_.weights), packing, raw, layer_.weights.type, packed);
    check_launch("the packing of cuda-tensor/few_out");
  }

  const Variant *unaligned() const { return choice_.variant + 1; } // as the list has them

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Pointers p = {};
    p.x = begin_of(layer_.input, a.input);
    p.weights = static_cast<const uint4 *>(a.weights[0]);
    p.outside = reinterpret_cast<const float *>(p.weights + Packing(layer_, choice_).operands);
    p.bias = layer_.epilogue.has_bias ? static_cast<const float *>(a.bias[0]) : nullptr;
    p.y = begin_of(layer_.result, a.output);
    Geometry g = choice_.geometry;
    const Variant *variant = aligned(p.x, 16) ? choice_.variant : unaligned();
    launch_waiting(variant->kernel, static_cast<unsigned>(choice_.blocks), config_.threads(),
                   static_cast<size_t>(choice_.shared), stream, g, p);
  }

  const Config config_;
  const Choice choice_;
};

bool takes(const polyconv_layer &l, sdk::Offer &offer) {
  if (!few::takes_layer(l, offer, true)) return false;
  if (l.weights.type != l.input.type || (l.result.type != l.input.type && l.result.type != POLYCONV_F32))
    return offer.reject("takes one type for input, weights and output, or f32 for the last");
  if (sdk::taps(l) == 1 && l.weights.size[0] > kMostByOneTap)
    return offer.reject("takes windows of one element of up to %d filters, not %" PRId64, kMostByOneTap,
                        l.weights.size[0]);
  if (l.weights.size[0] * sdk::taps(l) > kMostRows)
    return offer.reject("takes up to %d taps of all filters together, not %" PRId64, kMostRows,
                        l.weights.size[0] * sdk::taps(l));
  const int64_t vector = 16 / element_bytes(l);
  if (l.weights.size[1] % vector != 0)
    return offer.reject("takes input channels in whole 16 bytes, %" PRId64 ", not %" PRId64, vector, l.weights.size[1]);
  if (!takes_channels_last(l.input.stride[1] == 1, offer, "reads channels last")) return false;
  for (const int axis : {0, 2, 3, 4})
    if (l.input.size[axis] > 1 && l.input.stride[axis] % vector != 0)
      return offer.reject("takes inputs whose strides are whole 16 bytes, not %" PRId64 " elements",
                          l.input.stride[axis]);
  if (l.input.offset % vector != 0)
    return offer.reject("takes inputs that begin at whole 16 bytes, not at element %" PRId64, l.input.offset);
  if (!takes_int32(l, offer)) return false;
  return true;
}

} // namespace

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const polyconv_layer l = few::as_image(*request.layers[0]);
  if (!takes(l, offer)) return false;
  const auto choice_of = [&](int32_t i) { return choose(l, kConfigs[i], request.policy->device_index); };
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return choice_of(i).us; }))
    return offer.reject("has no place in shared memory for the weights of %" PRId64
                        " channels and the products of a patch",
                        l.weights.size[1]);
  const Packing packing(l, choice_of(offer.config));
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "few_out_%d:1", packing.bytes);
  offer.set_weights(0, format, packing.operands * 16 + packing.products * 4);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<FewOut>(request, config);
}

} // namespace polyconv::cuda::few_out
