// depthwise_patch_weights.cpp - the gradient of weights of depthwise layers by patches in shared memory (patch.hpp); of
// one or two dimensions, stride 1 or 2, without dilation, any layout; f32, f16 and bf16. Configs are the channels of a
// pixel that a block has.
//
// Floor: one read of x and dy; or the products.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "common/machine.hpp"
#include "common/patches.hpp"
#include "common/sums/bias_gradient.hpp"
#include "weights/depthwise_host.hpp"
#include "weights/patch.hpp"

namespace polyconv::cuda {
namespace {

using namespace shared;

constexpr int32_t kLanes[] = {32, 16, 8, 4};
constexpr const char *kNames[] = {"64", "32", "16", "8"};
constexpr int kConfigCount = sizeof kNames / sizeof *kNames;
constexpr int kBlockReserve = 1 << 10; // bytes of shared memory that every block costs beside its own

// ---------------------------------------------------------------- how a layer is cut

int64_t turns_across(const polyconv_layer &l, const LastColumns &c) {
  return ceil_div(l.weights.size[4], c.taps);
}
int64_t turns_down(const polyconv_layer &l, const LastColumns &c) {
  return ceil_div(l.weights.size[3], c.lines);
}

// Whether turns begin at an odd line of taps, and so at an odd line of x, where the others begin at an even one.
bool has_odd_turns(const polyconv_layer &l, const LastColumns &c) {
  return c.stride == 2 && c.lines % 2 != 0 && turns_down(l, c) > 1;
}

// The place in kPatchColumns of the window, -1 where it has none.
int columns_of(const polyconv_layer &l) {
  const auto cost = [&](const LastColumns &c) {
    return turns_across(l, c) * (c.taps + 2) * turns_down(l, c) * c.lines;
  };
  int best = -1;
  for (int i = 0; i < kPatchColumnsCount; ++i) {
    const LastColumns &c = kPatchColumns[i];
    if (steps_by(l, 1, c.stride) && steps_by(l, 2, c.stride) &&
        turns_across(l, c) * turns_down(l, c) <= patch_warps(c.taps) &&
        (best < 0 || cost(c) < cost(kPatchColumns[best])))
      best = i;
  }
  return best;
}

PatchLoads loads_of(const polyconv_layer &l) {
  const int64_t bytes = sdk::type_bytes(l.input.type), channels = l.input.size[1];
  if (!has_neighbouring_channels(l.input) || !has_neighbouring_channels(l.output)) return PatchLoads::kElements;
  const int64_t width = std::min(slab_width(l.input, 0), slab_width(l.output, 0));
  const auto moves = [&](int64_t at_once) {
    return width >= at_once && channels * bytes % at_once == 0 && l.input.offset * bytes % at_once == 0 &&
           l.output.offset * bytes % at_once == 0;
  };
  return moves(16) ? PatchLoads::kChunks : moves(2 * bytes) ? PatchLoads::kPairs : PatchLoads::kElements;
}

int pixel_bytes(const polyconv_layer &l) {
  return 64 * static_cast<int>(sdk::type_bytes(l.input.type));
}

// Two stages, which the sums of the block's warps take in the end.
int64_t shared_bytes(const polyconv_layer &l, const PatchSums &p, const LastColumns &c) {
  return std::max(int64_t{2} * p.pixels() * pixel_bytes(l), int64_t{p.warps()} * c.lines * c.taps * 256);
}

// Blocks that a multiprocessor runs at once.
int64_t blocks_together(const polyconv_layer &l, const PatchSums &p, const LastColumns &c) {
  return std::min<int64_t>(kHopperShared / (shared_bytes(l, p, c) + kBlockReserve), patch_warps(c.taps) / p.warps());
}

// ---------------------------------------------------------------- what it takes

// Instructions of all warps for a patch's sums. Fitted, as what follows, to 900 cuts of 85 layers on an H200: 13% off.
double patch_instructions(const polyconv_layer &l, const PatchSums &p, const LastColumns &c) {
  const LastSums &s = p.sums;
  const double load = l.input.type == POLYCONV_F32 ? 2 : 3.5; // with its conversions
  const double lines = s.taps[1] / real(turns_down(l, c));    // of a turn
  const int inputs = (kStrip - 1) * c.stride + c.taps;
  const double loads = s.band * (std::min<double>(c.stride, lines) * inputs + kStrip) + // and the first rows of dy
                       kStrip * ((c.lines - 1) / c.stride);
  const double products = 2.0 * c.taps * kStrip * lines * s.band;
  const double strips = std::min(real(p.strips), real(ceil_div(s.out[2], kStrip)) / p.tiles); // that have outputs
  return s.turns * p.sets * strips * (products + loads * load);
}

// Of the bytes of a pixel, how much longer narrow ones take.
double narrowness(int32_t lanes) {
  return lanes == 32 ? 1 : lanes == 16 ? 1.17 : lanes == 8 ? 1.56 : 2.8;
}

double sums_us(const polyconv_layer &l, const PatchSums &p, const LastColumns &c) {
  const LastSums &s = p.sums;
  const double blocks = real(s.slices) * s.splits, most = real(blocks_together(l, p, c));
  const double together = std::min(most, std::ceil(blocks / kHopperMultiprocessors));
  const double waves = std::ceil(blocks / (most * kHopperMultiprocessors));
  const double instructions = patch_instructions(l, p, c), pixels = real(p.pixels());
  const double pairs = p.loads == PatchLoads::kPairs ? pixels * 25.5 : 0;
  const double issued = (instructions + pairs + p.warps() * (200 + 100 * p.sets)) / 4;
  const double moved = pixels * pixel_bytes(l) * narrowness(s.lanes) / 39;
  const bool apart = !has_neighbouring_channels(l.input) || !has_neighbouring_channels(l.output);
  const double again = apart ? std::max(1.0, s.in[2] * real(sdk::type_bytes(l.input.type)) / 64) : 1; // as L1 forgets
  const double elements = p.loads == PatchLoads::kElements ? 330 * again * pixels / p.warps() : 0;    // each awaited
  // Of a block, which others fill in part.
  const double alone = 1.15 * (instructions + pairs) / p.warps() + elements + 1670;
  const double clocks = waves * (p.each * (together * (issued + moved) + alone) + 560);
  const double bytes =
      real(sdk::type_bytes(l.input.type)) * (real(sdk::elements(l.input)) + real(sdk::elements(l.output)));
  const double adding = 4 + real(pieces_bytes(s)) / 1.5e6 + s.splits * 0.01;
  return std::max(clocks / kHopperClocks, bytes / 3.6e6) + adding;
}

// ---------------------------------------------------------------- the cheapest cut

struct Cut {
  PatchSums sums;
  double us = 0; // 0: none fits
};

// Which lines of x an image's steps have: those that meet a row of dy, from one on that the first line of taps meets.
void set_steps(const polyconv_layer &l, const LastColumns &c, PatchSums *p) {
  const LastSums &s = p->sums;
  p->first_line = -(s.pad[1] % c.stride) - (has_odd_turns(l, c) ? c.stride : 0);
  const int32_t end = std::min(s.in[1], (s.out[1] - 1) * c.stride + s.taps[1] - s.pad[1]);
  p->steps = std::max(small(ceil_div(std::max(end - p->first_line, 1), c.stride)), 1);
}

// By the strips, sets and rows of a patch, which are set.
void finish_cut(const polyconv_layer &l, const LastColumns &c, PatchSums *p) {
  LastSums &s = p->sums;
  p->x_rows = s.band * c.stride + (has_odd_turns(l, c) ? 1 : 0);
  p->x_columns = (p->y_columns() - 1) * c.stride + p->across * c.taps;
  p->halo = small((turns_down(l, c) - 1) * c.lines / c.stride + (c.lines - 1) / c.stride);
  p->y_rows = s.band + p->halo;
  s.bands = small(ceil_div(p->steps, s.band));
  p->tiles = small(ceil_div(s.out[2], p->y_columns()));
  const int64_t sets = ceil_div(p->images, int64_t{p->sets} * (32 / s.lanes));
  p->patches = small(sets * s.bands * p->tiles);
  const int64_t together = std::max<int64_t>(blocks_together(l, *p, c), 1);
  const int64_t blocks = std::max<int64_t>(1, kHopperMultiprocessors * together / s.slices);
  p->each = small(std::min(ceil_div(p->patches, blocks), std::max<int64_t>(1, kLongestSum / (s.band * kStrip))));
  s.splits = small(ceil_div(p->patches, p->each));
}

// The highest bands that fit, and some lower ones.
void try_bands(const polyconv_layer &l, const LastColumns &c, PatchSums *p, Cut *best) {
  constexpr int kTried = 8;
  int tried = 0;
  for (int32_t bands = 1, last = 0; bands <= p->steps && tried < kTried; ++bands) {
    p->sums.band = small(ceil_div(p->steps, bands));
    if (p->sums.band == last) continue;
    last = p->sums.band;
    finish_cut(l, c, p);
    if (blocks_together(l, *p, c) < 1) continue;
    ++tried;
    const double us = sums_us(l, *p, c);
    if (best->us == 0 || us < best->us) *best = {*p, us};
  }
}

Cut cheapest_cut(const polyconv_layer &l, int columns, int32_t lanes) {
  const LastColumns &c = kPatchColumns[columns];
  PatchSums p = {sums_of(l)};
  p.x_channel = l.input.stride[1], p.dy_channel = l.output.stride[1];
  p.loads = loads_of(l), p.images = small(l.input.size[0]), p.across = small(turns_across(l, c));
  LastSums &s = p.sums;
  s.lanes = lanes, s.slices = small(ceil_div(s.channels, 2 * lanes)), s.turns = small(p.across * turns_down(l, c));
  set_steps(l, c, &p);
  Cut best = {p};
  const int32_t most = patch_warps(c.taps) / s.turns, strips = small(ceil_div(s.out[2], kStrip));
  for (p.strips = 1; p.strips <= std::min(most, strips); ++p.strips) {
    if (p.strips > 1 && ceil_div(strips, p.strips) == ceil_div(strips, p.strips - 1)) continue; // as many, with gaps
    for (p.sets = 1; p.sets * p.strips <= most && (p.sets - 1) * (32 / lanes) < p.images; ++p.sets)
      try_bands(l, c, &p, &best);
  }
  return best;
}

Cut cut_of(const polyconv_layer &l, int32_t config) {
  const int columns = columns_of(l);
  return columns < 0 ? Cut{{sums_of(l)}} : cheapest_cut(l, columns, kLanes[config]);
}

// ---------------------------------------------------------------- supports

bool takes(const polyconv_request &request, sdk::Offer &offer) {
  if (!takes_depthwise_gradient(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!takes_2d(l, offer)) return false;
  if (columns_of(l) < 0)
    return offer.reject(
        "has no instance for this window: stride 1 or 2 both ways, no dilation, and no more taps than a "
        "block's warps hold");
  const int64_t lent = block_shared_bytes(request.policy->device_index);
  return lent >= kHopperShared ||
         offer.reject("takes %d KiB of shared memory a block, of which the device lends %" PRId64, kHopperShared >> 10,
                      lent >> 10);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!takes(request, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  Cut best = {{sums_of(l)}};
  const auto us = [&](int32_t c) {
    const Cut cut = cut_of(l, c);
    if (cut.us > 0 && (best.us == 0 || cut.us < best.us)) best = cut;
    return cut.us > 0 ? cut.us + bias_gradient_us(l) : 0;
  };
  if (!offer_cheapest(kConfigCount, config, offer, us))
    return offer.reject("holds no patch of this window in the shared memory of a block");
  const LastSums &s = best.sums.sums;
  if (s.splits > 65535) return offer.reject("takes up to 65535 splits of the images, not %d", s.splits);
  offer.workspace_bytes = pieces_bytes(s) + bias_gradient_bytes(l);
  offer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

class DepthwisePatchWeights final : public CudaInstance {
 public:
  DepthwisePatchWeights(const polyconv_request &request, int config)
      : CudaInstance(request),
        columns_(columns_of(layer_)),
        sums_(cut_of(layer_, config).sums),
        launcher_(of_type(layer_.input.type, [&](auto t) { return patch_launcher<decltype(t)>(columns_); })) {
    const DeviceScope scope(device_);
    launcher_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    const int64_t bytes = sdk::type_bytes(layer_.input.type);
    PatchSums p = sums_;
    set_pointers(layer_, a, &p.sums);
    p.sums.early = early_;
    const auto both = [&](int64_t at_once) { return aligned(p.sums.x, at_once) && aligned(p.sums.dy, at_once); };
    if (p.loads == PatchLoads::kChunks && !both(16)) p.loads = PatchLoads::kPairs; // the same sums in the same order
    if (p.loads == PatchLoads::kPairs && !both(2 * bytes)) p.loads = PatchLoads::kElements;
    launcher_.launch(p, small(shared_bytes(layer_, p, kPatchColumns[columns_])), stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + pieces_bytes(p.sums), stream);
  }

  const int columns_;
  const PatchSums sums_;
  const PatchLauncher launcher_;
  const int32_t early_ = begins_early(device_) ? 1 : 0;
};

} // namespace

POLYCONV_DEFINE_KERNEL(depthwise_patch_weights, kNames, supports, instance_of<DepthwisePatchWeights>, 0,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
