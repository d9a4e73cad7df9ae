// banded.cu - forward 2D for few input channels in f16 and bf16, on the matrix units: the weights are the band of a
// matrix (filter, row and column of the output x elements of a window), the other operand is the image as it lies in
// memory.
//
// Floor: max(compulsory bytes / copy rate, matrix instructions / their rate). A band of 7 taps for two neighbouring
// outputs fills 7 of 8 elements of a window, and 7 of the 8 rows of two output rows: 77 % of the products are wanted
// ones. One filter alone takes windows of 16 elements for 8 outputs: 38 %.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "banded.hpp"
#include "common/conv.cuh"
#include "common/instance.hpp"

namespace polyconv::cuda {
namespace {

using namespace banded;

constexpr int kRows[] = {8, 16, 32, 64, 128, 256};
const char *const kNames[] = {"rows8", "rows16", "rows32", "rows64", "rows128", "rows256"};
constexpr int kConfigCount = 6;

// ---------------------------------------------------------------- pack

// What the packed weights depend on besides the weights.
struct Band {
  Form form;
  int32_t columns, filters, shift, inner, step_w, groups;

  explicit Band(const Choice &c)
      : form(c.variant->form),
        columns(c.geometry.columns),
        filters(c.geometry.filters),
        shift(c.geometry.shift),
        inner(c.geometry.inner),
        step_w(c.geometry.step_w),
        groups(c.geometry.groups) {}
  __host__ __device__ int32_t operands() const { return groups * form.products() * form.tiles * 32; }
};

// What row `m` of tile `tile` weighs element `element` of half window `half` with.
__device__ float banded_weight(const Band &b, const View<int64_t> &raw, const void *from, int32_t type, int32_t tile,
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

// The A operand of each lane, in the order in which a warp loads it, and behind all of them the weights as they are.
__global__ void pack_weights(const __grid_constant__ View<int64_t> raw, const __grid_constant__ Band b,
                             const void *from, int32_t type, void *to) {
  const Form &f = b.form;
  const int64_t banded = int64_t{b.operands()} * 8,
                all = banded + raw.size[0] * raw.size[1] * raw.size[3] * raw.size[4];
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all; i += int64_t{gridDim.x} * blockDim.x) {
    float v;
    if (i < banded) {
      const auto in_lane = static_cast<int32_t>(i % 8), lane = static_cast<int32_t>(i / 8 % 32);
      const auto operand = static_cast<int32_t>(i / 8 / 32);
      const int32_t product = operand / f.tiles % f.products();
      const int32_t tile = operand / (f.tiles * f.products()) * f.tiles + operand % f.tiles;
      const int32_t half = product * 2 + in_lane / 4; // of a lane: rows g and g + 8 of one half, then of the next
      const int32_t element = (lane % 4 * f.words + half % f.words) * 2 + in_lane % 2;
      v = banded_weight(b, raw, from, type, tile, lane / 4 + in_lane / 2 % 2 * 8, half, element);
    } else {
      int64_t rest = i - banded;
      const int64_t s = rest % raw.size[4], r = (rest /= raw.size[4]) % raw.size[3];
      const int64_t c = (rest /= raw.size[3]) % raw.size[1], k = rest / raw.size[1];
      v = load<float>(from, type, raw.at(k, c, 0, r, s));
    }
    store(to, type, i, v);
  }
}

// ---------------------------------------------------------------- plan and run

bool aligned(const void *pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

class Banded final : public CudaInstance {
 public:
  Banded(const polyconv_request &request, int rows) : CudaInstance(request), choice_(choose(layer_, rows)) {
    if (choice_.variant == nullptr)
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-tensor/banded: no way through this layer");
    const DeviceScope scope(device_);
    if (choice_.shared == 0) return;
    // For all plans alike: the attributes belong to the kernel. Left to itself, the driver leaves room for one block.
    const auto *const kernel = reinterpret_cast<const void *>(choice_.variant->kernel);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared),
          "asking for shared memory");
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
          "asking for more shared memory than cache");
  }

  void pack(int, const void *raw, void *packed, void *stream) override {
    const DeviceScope scope(device_);
    const Band band(choice_);
    pack_weights<<<blocks_for(int64_t{band.operands()} * 8 + sdk::elements(layer_.weights), 256), 256, 0,
                   static_cast<cudaStream_t>(stream)>>>(View<int64_t>(layer_.weights), band, raw, layer_.weights.type,
                                                        packed);
    check_launch("the packing of cuda-tensor/banded");
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    if (sdk::elements(layer_.result) == 0) return;
    Pointers p = {};
    p.x = static_cast<const uint16_t *>(a.input) + layer_.input.offset;
    p.weights = static_cast<const uint4 *>(a.weights[0]);
    p.exact = p.weights + Band(choice_).operands();
    p.bias = layer_.epilogue.has_bias ? static_cast<const float *>(a.bias[0]) : nullptr;
    p.y = static_cast<char *>(a.output) + layer_.result.offset * (layer_.result.type == POLYCONV_F32 ? 4 : 2);
    Geometry g = choice_.geometry;
    const Variant *variant = choice_.variant;
    if (variant->way == Way::kMarch && !(aligned(p.x) && aligned(p.y))) variant = choice_.singly, g.spread = 0;
    if (!aligned(p.x)) g.in_one = 0;
    if (!aligned(p.y)) g.out_one = 1;
    void *arguments[] = {&g, &p};
    cudaLaunchKernel(reinterpret_cast<const void *>(variant->kernel), dim3(static_cast<unsigned>(choice_.blocks)),
                     dim3(static_cast<unsigned>(variant->threads)), arguments, static_cast<size_t>(choice_.shared),
                     stream);
    check_launch("cuda-tensor/banded");
  }

  const Choice choice_;
};

bool supports_layer(const polyconv_layer &l, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("computes the output, not gradients");
  if (l.input.type != POLYCONV_F16 && l.input.type != POLYCONV_BF16) return offer.reject("takes f16 and bf16");
  if (!is_2d(l)) return offer.reject("takes images of one or two dimensions");
  if (l.groups != 1) return offer.reject("takes one group, not %" PRId64, l.groups);
  if (l.dilation[1] != 1 || l.dilation[2] != 1) return offer.reject("a window has no gaps: takes no dilation");
  if (l.pad_mode != POLYCONV_PAD_ZERO && (l.pad_mode != POLYCONV_PAD_CONSTANT || l.pad_value != 0))
    return offer.reject("pads with zeros only");
  if (!bias_and_relu_at_most(l)) return offer.reject("finishes with a bias and a relu at most");
  if (sdk::has_pooling(l)) {
    offer.rejects_pooling = 1;
    return offer.reject("does not pool");
  }
  return true;
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count != 1) return offer.reject("takes one layer at a time, not %d", static_cast<int>(request.count));
  const polyconv_layer &l = *request.layers[0];
  if (!supports_layer(l, offer)) return false;
  if (!fits_int32(l)) return offer.reject("counts with 32 bits, and a tensor has 2^31 elements or more");
  Choice best;
  for (int32_t i = 0; i < kConfigCount; ++i) {
    if (config >= 0 && i != config) continue;
    const Choice other = choose(l, kRows[i]);
    if (other.variant == nullptr || (best.variant != nullptr && best.us <= other.us)) continue;
    best = other;
    offer.config = i;
  }
  if (best.variant == nullptr)
    return offer.reject("has no instance for %" PRId64 " channels in this layout, %" PRId64 "x%" PRId64
                        " taps, stride %" PRId64 "x%" PRId64 " and rows of %" PRId64 " results",
                        l.weights.size[1], l.weights.size[3], l.weights.size[4], l.stride[1], l.stride[2],
                        l.output.size[4]);
  offer.estimate_us = best.us;
  const Form &f = best.variant->form;
  const Band band(best);
  char format[POLYCONV_FORMAT_SIZE];
  std::snprintf(format, sizeof format, "banded_%d.%d.%d.%d.%d.%d_%d.%d.%d:1", f.taps, f.step, f.rows, f.planes, f.words,
                f.tiles, band.columns, band.shift, band.inner * band.step_w);
  offer.set_weights(0, format, int64_t{band.operands()} * 16 + sdk::elements(l.weights) * 2);
  return true;
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<Banded>(request, kRows[config]);
}

} // namespace

extern const sdk::Kernel kernel_banded;
// Which form a config takes, and when its sums get their bias, depends on the batch and on the pointers' alignment.
const sdk::Kernel kernel_banded = {"banded", POLYCONV_KERNEL_VARIANT, kNames, kConfigCount, supports, create};

} // namespace polyconv::cuda
