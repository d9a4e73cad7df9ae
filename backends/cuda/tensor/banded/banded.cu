// banded.cu - forward 2D for few input channels in f16 and bf16, on the matrix units: the weights are the band of a
// matrix (filter, row and column of the output x elements of a window), the other operand is the image as it lies in
// memory. From five channels on windows are long enough without bands.
//
// Floor: max(compulsory bytes / copy rate, matrix instructions / their rate). A band of 7 taps for two neighbouring
// outputs fills 7 of 8 elements of a window, and 7 of the 8 rows of two output rows: 77 % of the products are wanted
// ones. One filter alone takes windows of 16 elements for 8 outputs: 38 %.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "banded/parts.cuh"
#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/conv.cuh"
#include "common/kernel.hpp"
#include "few/few.hpp"

namespace polyconv::cuda {
namespace banded {
namespace {

using few::is_hopper;

// ---------------------------------------------------------------- pack

constexpr int kUnit = 8; // elements of an operand

// What the packed weights depend on besides the weights.
struct Packing {
  Form form;
  int32_t columns, filters, shift, inner, step_w, groups;

  explicit Packing(const Choice &c)
      : form(c.variant->form),
        columns(c.geometry.columns),
        filters(c.geometry.tile_filters),
        shift(c.geometry.shift),
        inner(c.geometry.inner),
        step_w(c.geometry.step_w),
        groups(c.geometry.groups) {}
  __host__ __device__ int32_t operands() const { return groups * form.products() * form.tiles * 32; }
};

// What row `m` of tile `tile` weighs element `element` of half window `half` with.
__device__ float banded_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int32_t tile,
                               int32_t m, int32_t half, int32_t element) {
  const Form &f = b.form;
  const int32_t group = tile / f.tiles, g = m % 8, pairs = f.pixels ? 1 : b.columns / 2;
  const int32_t dy = f.pixels ? 0 : g / pairs % f.rows, dx = f.pixels ? 0 : g % pairs * 2 + m / 8;
  const int32_t k = f.pixels ? (group * b.filters + g * 2) * f.tiles + tile % f.tiles * 2 + m / 8
                             : tile * b.filters + g / pairs / f.rows;
  const int32_t r = half / (f.planes * f.words) - dy * f.step;
  const int32_t tap = element - b.shift - dx * b.step_w * b.inner;
  const int32_t c = f.planes > 1 ? half / f.words % f.planes : tap % b.inner, s = tap / b.inner;
  if (k >= raw.size[0] || c >= raw.size[1] || r < 0 || r >= raw.size[3] || tap < 0 || s >= raw.size[4]) return 0.0f;
  return load<float>(from, type, raw.at(k, c, 0, r, s));
}

// The A operand of each lane, in the order in which a warp loads it: element i.
__device__ float operand_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int64_t i) {
  const Form &f = b.form;
  const auto in_lane = static_cast<int32_t>(i % 8), lane = static_cast<int32_t>(i / 8 % 32);
  const auto operand = static_cast<int32_t>(i / 8 / 32);
  const int32_t product = operand / f.tiles % f.products();
  const int32_t tile = operand / (f.tiles * f.products()) * f.tiles + operand % f.tiles;
  const int32_t half = product * 2 + in_lane / 4; // of a lane: rows g and g + 8 of one half, then of the next
  const int32_t element = (lane % 4 * f.words + half % f.words) * 2 + in_lane % 2;
  return banded_weight(b, raw, from, type, tile, lane / 4 + in_lane / 2 % 2 * 8, half, element);
}

// The operands, and behind all of them the weights as they are.
__global__ void pack_weights(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Packing b,
                             const void *from, int32_t type, void *to) {
  const int64_t banded = int64_t{b.operands()} * kUnit,
                all = banded + raw.size[0] * raw.size[1] * raw.size[3] * raw.size[4];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all; i += int64_t{gridDim.x} * blockDim.x) {
    const float v =
        i >= banded ? load<float>(from, type, raw.at(raw.along_w(i - banded))) : operand_weight(b, raw, from, type, i);
    store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- the run

// Multiprocessors are not equally far from memory: where bands are many and large, so that a counter costs little
// beside them, blocks come back for each.
constexpr int32_t kManyBands = 4096, kLargeResults = 16 * 1024; // bytes
constexpr int64_t kCounterBytes = 16;
bool takes_in_turn(const Choice &c, const polyconv_policy &policy) {
  const Geometry &g = c.geometry;
  return c.variant != nullptr && is_sheet(c.variant->way) && g.runs > 0 && g.bands >= kManyBands &&
         g.output_stage >= kLargeResults && policy.workspace_limit >= kCounterBytes;
}

class Banded final : public CudaInstance {
 public:
  Banded(const polyconv_request &request, int rows)
      : CudaInstance(request),
        choice_(choose(layer_, rows, is_hopper(device_))),
        blocks_(choice_.blocks),
        in_turn_(takes_in_turn(choice_, *request.policy)) {
    if (choice_.variant == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-tensor/banded: no way through this layer");
    const DeviceScope scope(device_);
    if (choice_.shared == 0) return;
    blocks_ = std::min<int64_t>(blocks_, multiprocessors_of(device_));
    allow_shared(choice_.variant->kernel, kHopperShared);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    const Packing band(choice_);
    pack_weights<<<blocks_for(int64_t{band.operands()} * kUnit + sdk::elements(layer_.weights), 256), 256, 0, stream>>>(
        View<int64_t>(layer_.weights), band, raw, layer_.weights.type, packed);
    check_launch("the packing of cuda-tensor/banded");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Pointers p = {};
    p.x = begin_of(layer_.input, a.input);
    p.weights = static_cast<const uint4 *>(a.weights[0]);
    p.exact = p.weights + Packing(choice_).operands();
    p.bias = layer_.epilogue.has_bias ? static_cast<const float *>(a.bias[0]) : nullptr;
    p.y = begin_of(layer_.result, a.output);
    Geometry g = choice_.geometry;
    const Variant *variant = choice_.variant;
    if (variant->way == Way::kMarch && !(aligned(p.x, 16) && aligned(p.y, 16))) variant = choice_.singly, g.spread = 0;
    if (!aligned(p.x, 4)) g.runs = 0;
    if (in_turn_ && g.runs > 0) {
      p.taken = static_cast<int32_t *>(a.workspace);
      check(cudaMemsetAsync(p.taken, 0, kCounterBytes, stream), "setting a counter");
    }
    if (!aligned(p.y, 4)) g.runs_leave = 0;
    if (variant->way == Way::kSheet && !aligned(p.y, 8)) g.spread = 1;
    variant->kernel<<<static_cast<unsigned>(blocks_), variant->threads, static_cast<size_t>(choice_.shared), stream>>>(
        g, p);
    check_launch("cuda-tensor/banded");
  }

  const Choice choice_;
  int64_t blocks_;
  const bool in_turn_;
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!few::takes_16_bits(request, offer) || !few::takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (l.dilation[1] != 1 || l.dilation[2] != 1) return offer.reject("a window has no gaps: takes no dilation");
  if (!takes_int32(l, offer)) return false;
  const bool hopper = is_hopper(request.policy->device_index);
  const auto choice_of = [&](int32_t i) { return choose(l, kRows[i], hopper); };
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return choice_of(i).us; }))
    return offer.reject("has no instance for %" PRId64 " channels in this layout, %" PRId64 "x%" PRId64
                        " taps, stride %" PRId64 "x%" PRId64 " and rows of %" PRId64 " results",
                        l.weights.size[1], l.weights.size[3], l.weights.size[4], l.stride[1], l.stride[2],
                        l.output.size[4]);
  const Choice best = choice_of(offer.config);
  if (takes_in_turn(best, *request.policy)) offer.workspace_bytes = kCounterBytes;
  const Form &f = best.variant->form;
  const Packing band(best);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "banded_%d.%d.%d.%d.%d.%d_%d.%d.%d:1", f.taps, f.step, f.rows, f.planes, f.words,
                f.tiles, band.columns, band.shift, band.inner * band.step_w);
  offer.set_weights(0, format,
                    int64_t{band.operands()} * 16 + sdk::elements(l.weights) * sdk::type_bytes(l.input.type));
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Banded>(request, kRows[config]);
}

} // namespace
} // namespace banded

// Which form a config takes, and when its sums get their bias, depends on the batch and on the pointers' alignment.
POLYCONV_DEFINE_KERNEL(banded, banded::kConfigNames, banded::supports, banded::create, POLYCONV_KERNEL_VARIANT);

} // namespace polyconv::cuda
