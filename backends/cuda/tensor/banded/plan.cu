// plan.cu - what cuda-tensor's banded kernels share: how weights are packed, what is taken, and the run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "banded/parts.cuh"
#include "common/accepts.hpp"
#include "common/cheapest.hpp"
#include "common/conv.cuh"
#include "few/few.hpp"

namespace polyconv::cuda::banded {
namespace {

using few::is_hopper;

// ---------------------------------------------------------------- pack

// What the packed weights depend on besides the weights.
struct Packing {
  Form form;
  bool tracks;
  int32_t unit; // elements of 16 bytes
  int32_t columns, filters, shift, inner, step_w, group, groups, taps_h, plane;

  explicit Packing(const Choice &c)
      : form(c.variant->form),
        tracks(is_tracks(c.variant->way)),
        unit(c.variant->type == POLYCONV_F32 ? 4 : 8),
        columns(c.geometry.columns),
        filters(c.geometry.tile_filters),
        shift(c.geometry.shift),
        inner(c.geometry.inner),
        step_w(c.geometry.step_w),
        group(c.geometry.group),
        groups(c.geometry.groups),
        taps_h(c.geometry.taps_h),
        plane(c.geometry.plane) {}
  __host__ __device__ int32_t operands() const {
    return tracks ? groups * form.words * 2 * taps_h * group : groups * form.products() * form.tiles * 32;
  }
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

// Of tracks: [group][product][half of the depth][row of taps, from the last][filter][16 bytes]. Depth is in the order
// in which lanes load windows: of the two words of a lane the first is in one half, the second in the other.
__device__ float track_weight(const Packing &b, const View<int64_t> &raw, const void *from, int32_t type, int64_t i) {
  auto rest = static_cast<int32_t>(i / b.unit);
  const int32_t in_half = static_cast<int32_t>(i % b.unit), in_word = b.unit / 4;
  const int32_t filter = rest % b.group, r = b.taps_h - 1 - (rest /= b.group) % b.taps_h;
  const int32_t half = (rest /= b.taps_h) % 2, product = (rest /= 2) % b.form.words;
  const int32_t k = rest / b.form.words * b.group + filter;
  const int32_t element = (product * 8 + in_half / in_word * 2 + half) * in_word + in_half % in_word;
  const int32_t c = element % b.plane, s = element / b.plane;
  if (k >= raw.size[0] || c >= raw.size[1] || s >= raw.size[4]) return 0.0f;
  const auto v = load<float>(from, type, raw.at(k, c, 0, r, s));
  return type == POLYCONV_F32 ? ptx::nearest_tf32(v) : v;
}

// The operands, and behind all of them the weights as they are.
__global__ void pack_weights(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Packing b,
                             const void *from, int32_t type, void *to) {
  const int64_t banded = int64_t{b.operands()} * b.unit,
                all = banded + raw.size[0] * raw.size[1] * raw.size[3] * raw.size[4];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all; i += int64_t{gridDim.x} * blockDim.x) {
    const float v = i >= banded ? load<float>(from, type, raw.at(raw.along_w(i - banded)))
                    : b.tracks  ? track_weight(b, raw, from, type, i)
                                : operand_weight(b, raw, from, type, i);
    store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- plan and run

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
    const int multiprocessors = multiprocessors_of(device_);
    const int each = is_tracks(choice_.variant->way) ? choice_.geometry.groups : 1;
    blocks_ = std::min<int64_t>(blocks_, std::max(1, multiprocessors / each)) * each;
    allow_shared(choice_.variant->kernel, kHopperShared);
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    const Packing band(choice_);
    pack_weights<<<blocks_for(int64_t{band.operands()} * band.unit + sdk::elements(layer_.weights), 256), 256, 0,
                   stream>>>(View<int64_t>(layer_.weights), band, raw, layer_.weights.type, packed);
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
    void *arguments[] = {&g, &p};
    cudaLaunchKernel(reinterpret_cast<const void *>(variant->kernel), dim3(static_cast<unsigned>(blocks_)),
                     dim3(static_cast<unsigned>(variant->threads)), arguments, static_cast<size_t>(choice_.shared),
                     stream);
    check_launch("cuda-tensor/banded");
  }

  const Choice choice_;
  int64_t blocks_;
  const bool in_turn_;
};

} // namespace

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!few::takes(request, offer)) return false;
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

} // namespace polyconv::cuda::banded
