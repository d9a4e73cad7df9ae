// plan.cu - how cuda-tensor/octets cuts up a layer, how its weights are packed, and the run.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "octets/plan.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cmath>

#include "banded/parts.cuh"
#include "common/conv.cuh"

namespace polyconv::cuda::octets {
namespace {

using few::is_hopper;

// ---------------------------------------------------------------- choice

struct Choice {
  const Variant *variant = nullptr; // NULL: none serves
  Geometry geometry = {};
  int shared = 0; // bytes
  double us = 0;
};

// Whether every row is whole words, where the first is.
bool in_words(const polyconv_tensor &t) {
  const auto whole = [&](int axis) { return t.size[axis] == 1 || t.stride[axis] % 2 == 0; };
  return whole(0) && whole(1) && whole(3) && t.offset % 2 == 0 && t.size[4] % 2 == 0;
}

uint32_t magic_of(int64_t divisor) {
  return static_cast<uint32_t>(((int64_t{1} << 32) + divisor - 1) / divisor);
}

int64_t weight_bytes(const Geometry &g) {
  return int64_t{g.depth_rows} * g.pairs * g.blocks * 256;
}

// Octets of images, those of each 1 << shift apart; of the last ones some may have fewer than eight.
int64_t octets_of(int64_t images, int shift) {
  const int64_t run = int64_t{kImages} << shift;
  return (images / run << shift) + std::min(images % run, int64_t{1} << shift);
}

// The ring and the stages: a ring that is three slots ahead if possible, and as many steps of results as fit.
bool place_shared(const Form &f, Choice &c) {
  Geometry &g = c.geometry;
  const int64_t run = int64_t{g.output_w} * f.rows * 2, filters = std::min(g.group, g.filters);
  for (int ahead = 3; ahead >= 2; --ahead) {
    g.slots = g.span + ahead;
    if (g.slots > kMostSlots) continue;
    const int64_t fixed = kBarrierBytes + weight_bytes(g) + int64_t{g.slots} * g.slot_units * kUnit +
                          int64_t{kLoaders} * kRawStages * g.raw_stage;
    for (g.chunk = std::min(g.steps, 8); g.chunk >= 1; --g.chunk) {
      // From multiples of 16 bytes on, as the TMA wants it; what is beyond makes a warp's results fall into different
      // banks, all of them or half as many.
      const int64_t image = (ceil_div(g.chunk * run + 14, 16) | 1) * 16, filter = kImages * image + (3 - f.rows) * 32;
      if (fixed + kStages * filters * filter > kHopperShared) continue;
      g.y_wait_filter = small(filter), g.y_wait_image = small(image);
      g.stage = small(filters * filter);
      c.shared = small(fixed + kStages * int64_t{g.stage});
      return true;
    }
  }
  return false;
}

// Microseconds. Three kinds of warps work side by side, and hold each other up: fitted on an H200.
double estimate(const Form &f, const polyconv_layer &l, const Choice &c) {
  const Geometry &g = c.geometry;
  const double steps = real(g.share), chunks = std::ceil(steps / g.chunk),
               runs = kImages * real(std::min(g.group, g.filters)),
               slots = steps + (std::floor(steps / g.steps) + 1) * (g.span - 1);
  const double multiply = steps * g.across * (g.depth_rows * (g.pairs * f.positions * 4.0 + 22) + 370),
               store = chunks * runs * 16, load = slots * 1050;
  constexpr double kTogether = 1.64; // 1: one after the other; more: side by side
  const double clocks =
      std::pow(std::pow(multiply, kTogether) + std::pow(store, kTogether) + std::pow(load, kTogether), 1 / kTogether);
  const double bytes = 2.0 * (real(sdk::elements(l.input)) + real(sdk::elements(l.result)));
  return 6 + std::max(clocks / kHopperClocks, bytes / 3.3e6);
}

// Of each group of filters.
int64_t blocks_of(int32_t groups) {
  return std::max(1, kHopperMultiprocessors / groups);
}

bool place(const polyconv_layer &l, int rows, Choice &c) {
  const Form &f = c.variant->form;
  Geometry &g = c.geometry;
  static_cast<few::Shape &>(g) = few::shape_of(l);
  g.images = small(l.input.size[0]);
  g.group = f.filters();
  g.groups = small(ceil_div(g.filters, g.group));
  g.steps = small(ceil_div(g.output_h, f.rows));
  while (g.x_image % (int64_t{8} >> g.image_shift) != 0) ++g.image_shift;
  g.all_steps = octets_of(g.images, g.image_shift) * g.steps;
  const int64_t share = std::max(ceil_div(g.all_steps, blocks_of(g.groups)), ceil_div(rows, f.rows));
  if (share > INT32_MAX / 2) return false;
  g.share = small(share);
  g.across = small(ceil_div(g.output_w, 2 * f.positions));
  g.pairs = small(ceil_div(g.channels, 2));
  g.pitch = 2 * f.positions * g.across + kWindow - 2;
  g.group_magic = magic_of(g.group);
  g.last_magic = magic_of(g.filters - (g.groups - 1) * g.group);
  g.depth_rows = g.taps_h + f.rows - 1;
  g.span = small(ceil_div(g.depth_rows, f.rows));
  g.slot_units = small(int64_t{2} * g.pairs * g.pitch * f.rows);
  g.pieces = small(ceil_div(g.input_w + 7, 8)); // wherever it begins
  g.turns = small(ceil_div(int64_t{g.pieces} * g.channels * f.rows, 4 * kLoaders));
  if (g.turns > kMostTurns || g.pairs > kMostPairs) return false;
  g.raw_stage = (4 * g.turns + 1) * kImages * kUnit;
  g.blocks = small(ceil_div(int64_t{std::min(g.group, g.filters)} * f.rows, 8) * 2);
  g.y_words = in_words(l.result);
  return place_shared(f, c);
}

Choice choose(const polyconv_layer &l, int rows) {
  Choice best;
  for (const Variant &v : variants()) {
    if (v.type != l.input.type) continue;
    Choice c;
    c.variant = &v;
    if (!place(l, rows, c)) continue;
    c.us = estimate(v.form, l, c);
    if (best.variant == nullptr || c.us < best.us) best = c;
  }
  return best;
}

// ---------------------------------------------------------------- pack

struct Packing {
  int32_t rows, blocks, depth_rows, pairs, group, groups;

  explicit Packing(const Choice &c)
      : rows(c.variant->form.rows),
        blocks(c.geometry.blocks),
        depth_rows(c.geometry.depth_rows),
        pairs(c.geometry.pairs),
        group(c.geometry.group),
        groups(c.geometry.groups) {}
  __host__ __device__ int64_t elements() const { return int64_t{groups} * depth_rows * pairs * blocks * 128; }
};

// [group][input row][pair of channels][channel of these][block of 8 rows][row][pixel]. Rows of the operand: of each 16
// the first 8 are the left outputs, the others the right ones; a filter's output rows are neighbours.
__device__ float banded_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int64_t i) {
  auto rest = static_cast<int32_t>(i / 64);
  const int32_t pixel = static_cast<int32_t>(i % 8), in_block = static_cast<int32_t>(i / 8 % 8);
  const int32_t block = rest % b.blocks, half = (rest /= b.blocks) % 2, pair = (rest /= 2) % b.pairs,
                depth_row = (rest /= b.pairs) % b.depth_rows, group = rest / b.depth_rows;
  const int32_t place = block / 2 * 8 + in_block, k = group * b.group + place / b.rows;
  const int32_t c = pair * 2 + half, r = depth_row - place % b.rows, s = pixel - block % 2;
  if (place / b.rows >= b.group || k >= raw.size[0] || c >= raw.size[1] || r < 0 || r >= raw.size[3] || s < 0 ||
      s >= raw.size[4])
    return 0.0f;
  return load<float>(from, type, raw.at(k, c, 0, r, s));
}

// The operand, and behind it the weights as they are.
__global__ void pack_octets(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Packing b,
                            const void *from, int32_t type, void *to) {
  const int64_t banded = b.elements(), all = banded + raw.size[0] * raw.size[1] * raw.size[3] * raw.size[4];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all; i += int64_t{gridDim.x} * blockDim.x) {
    const float v =
        i >= banded ? load<float>(from, type, raw.at(raw.along_w(i - banded))) : banded_weight(b, raw, from, type, i);
    store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- plan and run

class Octets final : public CudaInstance {
 public:
  Octets(const polyconv_request &request, int rows) : CudaInstance(request), choice_(choose(layer_, rows)) {
    if (choice_.variant == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-tensor/octets: no way through this layer");
    const DeviceScope scope(device_);
    const Geometry &g = choice_.geometry;
    blocks_ = small(ceil_div(g.all_steps, g.share)) * g.groups;
    allow_shared(choice_.variant->kernel, kHopperShared);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    const Packing band(choice_);
    pack_octets<<<blocks_for(band.elements() + sdk::elements(layer_.weights), 256), 256, 0, stream>>>(
        View<int64_t>(layer_.weights), band, raw, layer_.weights.type, packed);
    check_launch("the packing of cuda-tensor/octets");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Pointers p = {};
    p.x = static_cast<const uint16_t *>(a.input) + layer_.input.offset;
    p.weights = static_cast<const uint4 *>(a.weights[0]);
    p.exact = static_cast<const uint16_t *>(a.weights[0]) + Packing(choice_).elements();
    p.bias = layer_.epilogue.has_bias ? static_cast<const float *>(a.bias[0]) : nullptr;
    p.y = static_cast<uint16_t *>(a.output) + layer_.result.offset;
    Geometry g = choice_.geometry;
    if (!aligned(p.y, 4)) g.y_words = 0;
    void *arguments[] = {&g, &p};
    cudaLaunchKernel(reinterpret_cast<const void *>(choice_.variant->kernel), dim3(static_cast<unsigned>(blocks_)),
                     dim3(kThreads), arguments, static_cast<size_t>(choice_.shared), stream);
    check_launch("cuda-tensor/octets");
  }

  const Choice choice_;
  int blocks_ = 0;
};

} // namespace

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!few::takes_16_bits(request, offer) || !few::takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!is_hopper(request.policy->device_index)) return offer.reject("is code of compute capability 9.0");
  if (l.dilation[1] != 1 || l.dilation[2] != 1 || l.stride[1] != 1 || l.stride[2] != 1)
    return offer.reject("takes stride 1 and no dilation");
  if (l.weights.size[4] >= kWindow)
    return offer.reject("takes rows of 7 taps at most, not %" PRId64, l.weights.size[4]);
  if (l.result.type != l.input.type) return offer.reject("stores results as wide as its input");
  if (l.input.stride[4] != 1 && l.input.size[4] > 1) return offer.reject("takes rows of neighbouring pixels");
  if ((l.result.stride[4] != 1 && l.result.size[4] > 1) || l.result.stride[3] != l.result.size[4])
    return offer.reject("stores planes of results without gaps");
  if (!takes_int32(l, offer)) return false;
  const auto choice_of = [&](int32_t i) { return choose(l, kLeastRows[i]); };
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return choice_of(i).us; }))
    return offer.reject("has no room for %" PRId64 " channels of rows of %" PRId64 " pixels and %" PRId64 "x%" PRId64
                        " taps",
                        l.weights.size[1], l.input.size[4], l.weights.size[3], l.weights.size[4]);
  const Packing band(choice_of(offer.config));
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "octets_%d_%d:1", band.rows, band.blocks);
  offer.set_weights(0, format, 2 * (band.elements() + sdk::elements(l.weights)));
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Octets>(request, kLeastRows[config]);
}

} // namespace polyconv::cuda::octets
