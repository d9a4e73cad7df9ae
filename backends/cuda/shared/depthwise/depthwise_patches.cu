// depthwise_patches.cu - depthwise layers of any window, stride, dilation and number of dimensions, channels last
// (patches.cuh). Configs are the bytes of a pixel that a block has.
//
// Floor: one read and one write of every element, up to some ten taps; then what a multiprocessor issues.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <limits>

#include "common/host.hpp"
#include "common/implicit.hpp"
#include "depthwise/patches.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int32_t kChunks[] = {8, 4, 2, 1};
constexpr const char *kNames[] = {"128", "64", "32", "16"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;
constexpr int kBlocksTogether = 2;

int32_t vector_of(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F32 ? 4 : 8;
}

DepthwiseLauncher launcher_for(const polyconv_layer &l) {
  return of_type(l.input.type, [](auto t) { return depthwise_launcher<decltype(t)>(); });
}

// ---------------------------------------------------------------- how it ends

// A bias and bounds at most between sum and result, whose chunks can be stored at once where its pointer is aligned.
bool is_plain(const polyconv_layer &l) {
  const int32_t activation = l.epilogue.activation;
  polyconv_layer without = l;
  without.epilogue.activation = POLYCONV_ACT_NONE;
  const bool bounds =
      activation == POLYCONV_ACT_NONE || activation == POLYCONV_ACT_RELU || activation == POLYCONV_ACT_CLIPPED_RELU;
  return bounds && bias_and_relu_at_most(without) && l.result.type == l.input.type &&
         has_neighbouring_channels(l.result) && l.result.size[1] % vector_of(l) == 0 && slab_width(l.result, 0) == 16;
}

void set_end(const polyconv_layer &l, DepthwisePatches *p) {
  const polyconv_epilogue &e = l.epilogue;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  p->plain = is_plain(l) ? 1 : 0;
  p->low = e.activation == POLYCONV_ACT_NONE ? -kInfinity : 0;
  p->high = e.activation == POLYCONV_ACT_CLIPPED_RELU ? e.activation_alpha : kInfinity;
  p->result_image = l.result.stride[0];
  for (int axis = 0; axis < 3; ++axis) p->result_stride[axis] = small(l.result.stride[2 + axis]);
}

// ---------------------------------------------------------------- patches

// Clocks of a multiprocessor for a patch: chunks on their way in, then taps of four pixels of a warp, then results.
double patch_clocks(const polyconv_layer &l, const DepthwisePatches &p) {
  const double copying = p.x.width == 16 ? 0.4 : p.x.width == 8 ? 0.6 : p.x.width == 4 ? 1 : 2.4;
  const double rows = kPatchThreads / p.chunks * kThreadPixels; // pixels that a block has at a time
  const double passes = std::ceil(real(p.patches.tile_pixels()) / rows);
  const double tap = l.input.type == POLYCONV_F32 ? 24 : 22, ending = p.plain ? 60 : 6500; // one by one
  return real(p.patches.positions) * p.chunks * copying +
         passes * (kPatchThreads / 32) * (p.patches.all_taps() * tap + ending) + 250;
}

bool fits(DepthwisePatches *p) {
  return p->patches.positions <= kLentShared / 16 && p->patches.all_taps() <= kLentShared / 16 &&
         p->shared_bytes() <= kLentShared;
}

// Raw filters that blocks stage; f32 is made of others by packing.
Filters staged_filters(const polyconv_request &request) {
  const Filters filters = filters_of(request);
  return filters.in_place ? Filters{} : filters;
}

DepthwisePatches make_product(const polyconv_layer &l, int config, const Filters &filters) {
  DepthwisePatches p = {Conv<int64_t>(l, {})};
  p.filters = filters;
  set_end(l, &p);
  p.x.width = slab_width(l.input, 0);
  p.chunks = kChunks[config], p.vector = vector_of(l), p.row_channels = small(l.input.size[1]);
  p.slices = small(ceil_div(l.input.size[1], int64_t{p.chunks} * p.vector));
  p.patches = make_patches(l);
  choose_patches(&p.patches, [&] { return fits(&p) ? p.patches.count * patch_clocks(l, p) : 0; });
  const int64_t workers = int64_t{kHopperMultiprocessors} * kBlocksTogether;
  p.shares = small(std::clamp<int64_t>(workers / p.slices, 1, std::max(p.patches.count, 1)));
  return p;
}

// Microseconds, 0 where no patch fits.
double estimate(const polyconv_layer &l, int config, const Filters &filters) {
  const DepthwisePatches p = make_product(l, config, filters);
  if (p.patches.pixels == 0) return 0;
  const double blocks = real(p.slices) * p.shares, together = kHopperMultiprocessors * kBlocksTogether;
  const double beside =
      blocks < kHopperMultiprocessors ? 1.3 : std::min<double>(kBlocksTogether, blocks / kHopperMultiprocessors);
  const double patches = real(ceil_div(p.patches.count, p.shares)) * std::ceil(blocks / together);
  const double summing = patches * beside * patch_clocks(l, p) / kHopperClocks;
  const double bytes = (l.input.type == POLYCONV_F32 ? 4 : 2) * real(sdk::elements(l.input)) +
                       (l.result.type == POLYCONV_F32 ? 4 : 2) * real(sdk::elements(l.result));
  const double moving = bytes / 3.6e6;
  return 4.5 + 1.2 * std::max(summing, moving) + 0.3 * std::min(summing, moving); // 50 layers on an H200
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_no_pooling(l, offer)) return false;
  if (!takes_floats(l, l.input.type, offer)) return false;
  if (!takes_one_filter(l, offer)) return false;
  if (!takes_no_empty({&l.input, &l.result}, offer)) return false;
  if (!takes_zeros(pads_zeros(l), offer)) return false;
  if (!takes_channels_last(has_neighbouring_channels(l.input), offer,
                           "loads neighbouring channels: wants channels last"))
    return false;
  if (!fits_implicit_both(l, l.result, offer)) return false;
  const int64_t lent = block_shared_bytes(request.policy->device_index); // less before 8.0
  return lent >= kLentShared ||
         offer.reject("takes %d KiB of shared memory a block, of which the device lends %" PRId64, kLentShared >> 10,
                      lent >> 10);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const Filters filters = staged_filters(request);
  if (!offer_cheapest(kConfigCount, config, offer, [&](int32_t c) { return estimate(l, c, filters); }))
    return offer.reject("holds no patch of this window and its weights in the shared memory of a block");
  offer_filters(request, filters, staging_us(l), "cuda_taps_channels_as_f32:1", sdk::elements(l.weights) * 4, offer);
  return true;
}

// ---------------------------------------------------------------- plan and run

class DepthwiseByPatches final : public CudaInstance {
 public:
  DepthwiseByPatches(const polyconv_request &request, int config)
      : CudaInstance(request),
        product_(make_product(layer_, config, staged_filters(request))),
        launcher_(launcher_for(layer_)) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void pack_on(const void *raw, void *packed, cudaStream_t stream) override {
    launcher_.pack(layer_, product_, raw, static_cast<float *>(packed), stream);
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    DepthwisePatches p = product_;
    p.conv = Conv<int64_t>(layer_, a);
    p.x = make_slab(layer_.input, a.input, product_.x.width);
    p.weights = a.weights[0];
    p.result = a.output;
    p.early = early_;
    if (make_slab(layer_.result, a.output, 16).width < 16) p.plain = 0;
    launcher_.launch(p, stream);
  }

  const DepthwisePatches product_;
  const DepthwiseLauncher launcher_;
  const int32_t early_ = begins_early(device_) ? 1 : 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_patches, kNames, supports, instance_of<DepthwiseByPatches>);

} // namespace polyconv::cuda
