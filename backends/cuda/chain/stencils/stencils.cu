// stencils.cu - two to four filters of one channel after another over images: a warp marches down a strip, and every
// filter's rows under way stay in its registers. The weights are parameters of the launch, operands of the products.
//
// Floor: one read of the image and one write of the last filter's result, or the products at the FMA rate. A strip
// reads again, and filters again, the few rows above it that its first results need; a tile the columns beside it.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "stencils/stencils.hpp"

#include <cinttypes>
#include <cmath>

#include "plan.hpp"

namespace polyconv::cuda {
namespace {

using namespace chain;

// Columns of a lane.
constexpr int kColumns = 4;

// How many warps share a multiprocessor, at most as many as a kernel lets: strips are as high as that many make them.
constexpr int kWarps[] = {8, 12, 16};
constexpr const char *kNames[] = {"w8", "w12", "w16"};
constexpr int kConfigCount = 3;
constexpr const char *kFormat = "cuda_chain_stencil:1";

const StencilKernel *kernel_for(const polyconv_request &request) {
  int known = 0;
  const StencilKernel *kernels = nullptr;
  if (request.count == 2) kernels = stencils_of<2>(known);
  if (request.count == 3) kernels = stencils_of<3>(known);
  if (request.count == 4) kernels = stencils_of<4>(known);
  for (int i = 0; i < known; ++i) {
    bool same = true;
    for (int j = 0; j < request.count; ++j) same = same && kernels[i].sizes[j] == request.layers[j]->weights.size[3];
    if (same) return kernels + i;
  }
  return nullptr;
}

// Rows in so many strips, each of which is some steps of the loop, and as many rows as filters wait for others.
StencilStrips cut_rows(int64_t rows, double strips, int32_t count, int32_t ahead) {
  StencilStrips cut = {};
  cut.strips = small(std::clamp<int64_t>(static_cast<int64_t>(strips), 1, ceil_div(rows, 8)));
  cut.times = small(std::max<int64_t>(ceil_div(rows - int64_t{cut.strips} * (count - 1), ahead), cut.strips));
  cut.spared = cut.strips < 4 ? 0 : cut.times / cut.strips / 5;
  return cut;
}

// How a chain is cut into strips for `warps`, of all images together. A strip at a border takes a quarter longer.
Stencils make_stencils(const polyconv_request &request, int64_t warps) {
  Stencils p = {};
  const polyconv_layer &head = *request.layers[0], &tail = *request.layers[request.count - 1];
  const polyconv_tensor &result = tail.result;
  p.rows = small(head.input.size[3]), p.columns = small(head.input.size[4]);
  p.padding = padding_of(head);
  int32_t left = 0, right = 0, shift = 0; // columns beside a tile that the filters read
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    const int32_t size = small(l.weights.size[4]), before = (size - 1) / 2;
    left += before, right += size - 1 - before;
    shift += small(l.pad_begin[2]) - before;
    StencilLayer &s = p.layer[i];
    s.rows = small(l.output.size[3]), s.columns = small(l.output.size[4]);
    s.pad = small(l.pad_begin[1]), s.shift = shift;
    s.relu = l.epilogue.activation == POLYCONV_ACT_RELU ? 1 : 0;
    s.finishes = s.relu != 0 || l.epilogue.has_bias ? 1 : 0;
    p.finishes |= s.finishes;
    s.padding = i + 1 < request.count ? padding_of(*request.layers[i + 1]) : 0;
  }
  p.skip_left = small(ceil_div(left, 4)) * 4; // so that tiles begin where vectors do
  p.step = 32 * kColumns - p.skip_left - small(ceil_div(right, 4)) * 4;
  p.tiles = small(ceil_div(result.size[4], p.step));
  const double strips =
      real(warps) / real(std::max<int64_t>(result.size[0], 1)) / (p.tiles + 0.25 * std::min(p.tiles, 2));
  const int32_t ahead = kernel_for(request)->ahead;
  p.inner = cut_rows(result.size[3], strips, request.count, ahead);
  p.outer = cut_rows(result.size[3], strips * 1.25, request.count, ahead);
  p.input_row = small(head.input.stride[3]), p.result_row = small(result.stride[3]);
  p.input_image = head.input.stride[0], p.result_image = result.stride[0];
  p.input_offset = small(head.input.offset), p.result_offset = small(result.offset);
  return p;
}

int64_t pieces_of(const Stencils &p) {
  const int32_t outer = std::min(p.tiles, 2);
  return int64_t{outer} * p.outer.strips + int64_t{p.tiles - outer} * p.inner.strips;
}

// Whether images are rows of vectors of four: where the pointers are such, too.
bool has_vectors(const polyconv_request &request, const Stencils &p) {
  const auto whole = [](const polyconv_tensor &t) {
    return t.size[4] % 4 == 0 && t.stride[3] % 4 == 0 && t.stride[0] % 4 == 0 && t.offset % 4 == 0;
  };
  return whole(request.layers[0]->input) && whole(request.layers[request.count - 1]->result) &&
         p.layer[request.count - 1].shift % 4 == 0;
}

// ---------------------------------------------------------------- pack

__global__ void pack_taps(const View<int32_t> weights, const float *raw, float *packed) {
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i < weights.size[3] * weights.size[4])
    packed[i] = raw[weights.at(0, 0, 0, i / weights.size[4], i % weights.size[4])];
}

// ---------------------------------------------------------------- plan and run

// All warps of a device that run side by side.
int64_t warps_of(const polyconv_request &request, int32_t config, int64_t multiprocessors) {
  return multiprocessors * std::min(kWarps[config], kernel_for(request)->warps);
}

class Marching final : public ChainInstance {
 public:
  Marching(const polyconv_request &request, int32_t config)
      : ChainInstance(request),
        images_(request.layers[0]->input.size[0]),
        kernel_(*kernel_for(request)),
        pieces_(make_stencils(request, warps_of(request, config, multiprocessors_of(device_)))),
        vectors_(has_vectors(request, pieces_)) {}

 private:
  void pack_layer(const polyconv_layer &layer, int, const void *raw, void *packed, cudaStream_t stream) override {
    pack_taps<<<1, 64, 0, stream>>>(View<int32_t>(layer.weights), static_cast<const float *>(raw),
                                    static_cast<float *>(packed));
    check_launch("cuda-chain/stencils' packing");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const bool vectors = vectors_ && aligned(a.input, 16) && aligned(a.output, 16);
    Stencils p = pieces_;
    float *to = p.weights;
    for (int i = 0; i < count_; ++i) {
      if (layers_[i].epilogue.has_bias) p.layer[i].bias = static_cast<const float *>(a.bias[i]);
      const auto *taps = static_cast<const float *>(a.weights[i]); // on the host: POLYCONV_KERNEL_HOST_WEIGHTS
      to = std::copy(taps, taps + sdk::taps(layers_[i]), to);
    }
    const void *x = a.input;
    void *y = a.output;
    void *arguments[] = {&p, &x, &y};
    cudaLaunchKernel(vectors ? kernel_.vectors : kernel_.elements, dim3(static_cast<unsigned>(images_ * pieces_of(p))),
                     dim3(32), arguments, 0, stream);
    check_launch("cuda-chain/stencils");
  }

  const int64_t images_;
  const StencilKernel kernel_;
  const Stencils pieces_;
  const bool vectors_;
};

// ---------------------------------------------------------------- offer

bool takes_layer(const polyconv_layer &l, int i, sdk::Offer &offer) {
  if (l.direction != POLYCONV_FORWARD) return offer.reject("layer %d: computes outputs, not gradients", i);
  if (l.input.type != POLYCONV_F32 || l.weights.type != POLYCONV_F32 || l.result.type != POLYCONV_F32)
    return offer.reject("layer %d: takes f32 only", i);
  if (!is_2d(l)) return offer.reject("layer %d: takes images of one or two dimensions", i);
  if (l.input.size[1] != 1 || l.output.size[1] != 1) return offer.reject("layer %d: filters one channel into one", i);
  if (l.weights.size[3] != l.weights.size[4]) return offer.reject("layer %d: takes square filters", i);
  for (int axis = 1; axis < 3; ++axis) {
    if (l.stride[axis] != 1 || l.dilation[axis] != 1)
      return offer.reject("layer %d: takes neither stride nor dilation", i);
    if (l.pad_begin[axis] >= l.weights.size[2 + axis])
      return offer.reject("layer %d: pads by less than the filter's size, not by %" PRId64, i, l.pad_begin[axis]);
  }
  if (l.pad_mode != POLYCONV_PAD_ZERO && l.pad_mode != POLYCONV_PAD_CONSTANT)
    return offer.reject("layer %d: pads with zeros or a constant", i);
  if (sdk::has_pooling(l) || !bias_and_relu_at_most(l))
    return offer.reject("layer %d: finishes with a bias and a relu at most", i);
  if (!fits_int32(l)) return offer.reject("layer %d: a tensor has 2^31 elements or more", i);
  return true;
}

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count < 2 || request.count > kMostStencils)
    return offer.reject("fuses two to %d layers, not %d", kMostStencils, static_cast<int>(request.count));
  for (int i = 0; i < request.count; ++i)
    if (!takes_layer(*request.layers[i], i, offer)) return false;
  if (request.layers[0]->input.stride[4] != 1 || request.layers[request.count - 1]->result.stride[4] != 1)
    return offer.reject("takes rows whose pixels are neighbours");
  if (kernel_for(request) == nullptr) return offer.reject("has no kernel for filters of these sizes together");
  if (request.policy->dynamic_weights != 0)
    return offer.reject("weights are parameters of each launch, and a captured launch keeps those it was given");
  return true;
}

// Issue slots of the products and of what surrounds them, the first steps of a strip included, or the bytes, for which
// rows have to be under way, beside a part of these. Fitted to pairs and the image pipeline on an H200.
double stencils_us(const polyconv_request &request, int32_t config, const Stencils &p) {
  const StencilKernel &kernel = *kernel_for(request);
  double slots = 10, taps = 0;
  for (int i = 0; i < request.count; ++i) {
    const polyconv_layer &l = *request.layers[i];
    taps += real(sdk::taps(l));
    slots += real(sdk::taps(l) + (p.finishes != 0 ? 2 : 0)) * kColumns + real(l.weights.size[4] - 1);
  }
  slots += 0.4 * std::max(taps - 60, 0.0); // weights that uniform registers do not hold are loaded in every loop
  const int64_t images = request.layers[0]->input.size[0];
  const double elements =
      real(sdk::elements(request.layers[0]->input) + sdk::elements(request.layers[request.count - 1]->result));
  const double steps = real(p.inner.times) / p.inner.strips * kernel.ahead + kernel.lead;
  const double resident = std::ceil(real(images * pieces_of(p)) / (4 * kHopperMultiprocessors));
  const int32_t warps = std::min(kWarps[config], kernel.warps);
  const double issue = resident * steps * slots / (warps < 12 ? 1300 : 1500),
               alone = steps * std::max(slots / 0.5, 300.0) / 1700;
  const double under_way = 0.5 * kernel.ahead * warps; // KB of a multiprocessor
  const double memory = 4 * elements / 5.8e6 * (1 + 14.4 / under_way) + 0.17 * issue;
  return std::max(3 + alone, 4 + (has_vectors(request, p) ? 1 : 1.6) * std::max(issue, memory));
}

// What its strips compute again: rows above them, and columns beside their tiles.
void tell(const polyconv_request &request, int32_t config, const Stencils &p, sdk::Offer &offer) {
  const int64_t images = request.layers[0]->input.size[0], warps = images * pieces_of(p);
  const int64_t rows = request.layers[request.count - 1]->result.size[3];
  int64_t above = 0;
  offer.recomputed_outputs = 0;
  for (int i = request.count - 1; i > 0; --i) {
    above += request.layers[i]->weights.size[3] - 1;
    offer.recomputed_outputs += (images * p.tiles * rows + warps * above) * 32 * kColumns -
                                images * p.layer[i - 1].rows * p.layer[i - 1].columns;
  }
  offer.recomputed_outputs = std::max<int64_t>(offer.recomputed_outputs, 0);
  offer.blocks = warps;
  offer.threads = 32;
  offer.occupancy = static_cast<float>(std::min(kWarps[config], kernel_for(request)->warps)) / 64;
  offer.say("strips of %d rows, %d columns a lane, rows in registers", small(ceil_div(rows, p.inner.strips)), kColumns);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const auto stencils_of = [&](int32_t i) {
    return make_stencils(request, warps_of(request, i, kHopperMultiprocessors));
  };
  offer_cheapest(kConfigCount, config, offer, [&](int32_t i) { return stencils_us(request, i, stencils_of(i)); });
  tell(request, offer.config, stencils_of(offer.config), offer);
  for (int i = 0; i < request.count; ++i) offer.set_weights(i, kFormat, sdk::taps(*request.layers[i]) * 4);
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(stencils, kNames, supports, instance_of<Marching>, POLYCONV_KERNEL_HOST_WEIGHTS);

} // namespace polyconv::cuda
