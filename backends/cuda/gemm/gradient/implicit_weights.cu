// implicit_weights.cu - the gradient of weights, f32, and f16 and bf16 by f32 products: the fused implicit matrix
// product with pixels as its depth (gradient.hpp). Configs are tiles, columns x filters, where a column is an input
// channel of a tap.
//
// Floor: 2 N K P Q C R S at the FMA rate: 50.5 TFLOP/s of strict f32 on an H200.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "common/device/launch.hpp"
#include "common/host.hpp"
#include "common/sums/bias_gradient.hpp"
#include "gradient/gradient.hpp"

namespace polyconv::cuda {
namespace {

using namespace gemm;

constexpr const char *kNames[] = {"256x128", "128x128", "128x64", "64x64", "128x32", "128x24", "64x32", "32x32"};
static_assert(sizeof kNames / sizeof *kNames == kGradientTileCount, "every config has a name");

// ---------------------------------------------------------------- supports

// Whether four neighbouring pixels are 16 bytes that lie side by side, were the pointer aligned to them.
bool has_runs(const polyconv_tensor &t) {
  if (sdk::spatial(t) % 4 != 0 || t.offset % 4 != 0) return false;
  int64_t dense = 1;
  for (const int axis : {4, 3, 2}) {
    if (t.size[axis] > 1 && t.stride[axis] != dense) return false;
    dense *= t.size[axis];
  }
  return (t.size[0] == 1 || t.stride[0] % 4 == 0) && (t.size[1] == 1 || t.stride[1] % 4 == 0);
}

Runs runs_of(const polyconv_layer &l) {
  if (!has_runs(l.output)) return Runs::kNone;
  bool same = has_runs(l.input) && sdk::taps(l) == 1; // a pixel's window is the pixel of the input
  for (int axis = 0; axis < 3; ++axis)
    same = same && l.stride[axis] == 1 && l.pad_begin[axis] == 0 && l.input.size[2 + axis] == l.output.size[2 + axis];
  return same ? Runs::kBoth : Runs::kOutput;
}

Reach reach_of(const polyconv_layer &l) {
  const int64_t filters = l.weights.size[0] / l.groups;
  const bool f32 = l.input.type == POLYCONV_F32 && l.output.type == POLYCONV_F32;
  if (f32 && has_vectors(l.input, l.weights.size[1]) && has_vectors(l.output, filters)) return Reach::kVectors;
  if (l.input.stride[1] == 1 && l.output.stride[1] == 1) return Reach::kColumns;
  const bool zeros = l.pad_mode == POLYCONV_PAD_ZERO;
  return l.input.type == POLYCONV_F32 && zeros && has_places(l) ? Reach::kDeep : Reach::kPixels;
}

Shape shape_of(const polyconv_layer &l, int tile) {
  return gradient_shape(tile, reach_of(l), l.input.type == POLYCONV_F32);
}

// Of the FMA rate, as measured: elements that are fetched one by one cost issue slots, and the more, the fewer products
// each has.
double gathering_of(const polyconv_layer &l, int tile) {
  const Reach reach = reach_of(l);
  if (reach != Reach::kDeep) return reach == Reach::kVectors ? 1 : 0.43;
  const Runs runs = runs_of(l);
  if (runs == Runs::kBoth) return 1;
  const bool output = runs == Runs::kOutput;
  switch (tile) {
    case kGradient256x128: return output ? 0.96 : 0.87;
    case kGradient64x32: return output ? 0.66 : 0.55;
    case kGradient32x32: return output ? 0.75 : 0.585;
    default: return output ? 0.92 : 0.76;
  }
}

// Microseconds in a tile, in pieces. Fitted to 120 times of 40 layers in three deep tiles on an H200, small tiles to 80
// times of as many: 5 % off on average.
double pieces_us(const polyconv_layer &l, int tile, const Shape &shape, const Gradient &g) {
  const double rate = kHopperFmaRate / kHopperMultiprocessors,
               area = shape.pixels * shape.channels; // operations a microsecond
  const double blocks = std::ceil(real(g.shares.tiles) * g.shares.blocks / g.shares.workers) * shape.blocks;
  const bool deep = reach_of(l) == Reach::kDeep, narrow = tile == kGradient64x32 || tile == kGradient32x32;
  const double multiplying = blocks * 2 * area * shape.depth / (rate * shape.efficiency * gathering_of(l, tile));
  const double pieces = std::min(real(g.shares.tiles) + g.shares.workers, real(g.shares.most) * g.shares.workers);
  double read = real(sdk::elements(l.input)); // what strides leave out of planes and rows is not
  for (int axis = 0; axis < 2; ++axis) read *= std::min(1.0, real(l.weights.size[2 + axis]) / real(l.stride[axis]));
  const double bytes = 4 * (read + real(sdk::elements(l.output)));
  // Every tile of filters reads all columns, by sectors of eight elements, of which a line of taps and the next pixel
  // find some again; and a copy of a warp's pixels takes as long as they lie in lines of 32 apart.
  const int64_t apart = std::max<int64_t>(1, std::abs(l.input.stride[4] * l.stride[2])), line = l.weights.size[4];
  const double columns = real(g.x.columns) * g.groups * g.pixels * g.filter_tiles;
  const double sectors = 4 * columns * real(std::min(apart, std::max<int64_t>(line, 8))) / real(line);
  const double copying =
      0.6 * columns / 32 * real(std::min<int64_t>(apart, 32) - 1) / (kHopperMultiprocessors * kHopperClocks);
  const double begin = !deep ? 8 : tile == kGradient64x64 ? 7 : tile == kGradient128x64 ? 8.8 : narrow ? 8.7 : 8;
  // A worker with parts of two tiles begins twice, which shows where the first blocks take long to come.
  const double again = narrow && g.shares.most > 1 && runs_of(l) == Runs::kNone ? 1.8 : 0;
  return begin + again + std::max({multiplying + (deep ? copying : 0), bytes / 3.5e6, deep ? sectors / 7.5e6 : 0}) +
         pieces * area * 8 / (deep ? 4.8e6 : 2.5e6);
}

// In clusters: blocks of depth one after the other, and more than one block of threads on a multiprocessor, all
// clusters at once: of 8 blocks an H200 runs 15 with a multiprocessor each. Fitted to 12 layers: 5 % off on average.
double shared_us(const polyconv_layer &l, const Shape &shape, const Gradient &g) {
  constexpr int kClusters = 15;
  const double busiest = std::ceil(real(g.shares.tiles) / kClusters);
  if (busiest > shape.blocks) return 0;
  const double block = runs_of(l) == Runs::kBoth ? 0.27 : 0.38;
  return 6.9 + g.shares.longest() * block * (busiest > 1 ? 1.1 * busiest : 1);
}

// A tile's way to share out the depth that takes the least time.
struct Plan {
  Gradient gradient;
  double us;
};
Plan plan_of(const polyconv_layer &l, int tile) {
  const Shape shape = shape_of(l, tile);
  const Gradient pieces = make_gradient(l, shape);
  Plan plan = {pieces, pieces_us(l, tile, shape, pieces)};
  if (tile != kGradient32x32 || pieces.shares.blocks < kSharing) return plan;
  const Gradient shared = make_gradient(l, shape, kSharing);
  const double us = shared_us(l, shape, shared);
  return us > 0 && us < plan.us ? Plan{shared, us} : plan;
}

double estimate(const polyconv_layer &l, int tile) {
  return plan_of(l, tile).us + bias_gradient_us(l);
}

int64_t pieces_end(const polyconv_layer &l, int tile) {
  return aligned_bytes(pieces_bytes(plan_of(l, tile).gradient, shape_of(l, tile)));
}

bool fits(const polyconv_layer &l, sdk::Offer &offer) {
  if (!fits_implicit_both(l, l.output, offer)) return false;
  const double columns = real(l.weights.size[1]) * real(sdk::taps(l)) * real(l.weights.size[0]);
  if (!(columns < 1 << 30)) return offer.reject("takes weights of less than 2^30 elements");
  const double pixels = real(l.output.size[0]) * real(sdk::spatial(l.output));
  return pixels < 1 << 30 || offer.reject("takes batches of less than 2^30 pixels");
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_single_or_half(type) || l.output.type != type)
    return offer.reject("takes f32, f16 and bf16, the same for input and output");
  if (!takes_no_empty({&l.output}, offer)) return false;
  if (!fits(l, offer)) return false;
  if (config >= 0 && shape_of(l, config).threads == 0)
    return offer.reject("has no tile of %s for this type and layout", kNames[config]);
  const auto us = [&](int32_t c) { return shape_of(l, c).threads > 0 ? estimate(l, c) : 0; };
  offer_cheapest(kGradientTileCount, config, offer, us);
  const Shares shares = plan_of(l, offer.config).gradient.shares;
  if (!(real(shares.tiles) * shares.blocks < 1 << 30)) return offer.reject("takes less than 2^30 blocks of products");
  // The second: where a device lends blocks too little shared memory for a tile.
  const int64_t pieces = std::max(pieces_end(l, offer.config), pieces_end(l, kGradient64x64));
  offer.workspace_bytes = pieces + bias_gradient_bytes(l);
  return takes_workspace(request, offer);
}

// ---------------------------------------------------------------- plan and run

// `aligned`: whether 16 bytes can be read at once where the layout has them.
GradientLauncher launcher_for(const polyconv_layer &l, int tile, bool aligned) {
  Reach reach = reach_of(l);
  if (reach == Reach::kDeep) return gradient_deep(tile, aligned ? runs_of(l) : Runs::kNone);
  if (reach == Reach::kVectors && !aligned) reach = Reach::kColumns;
  return of_type(l.input.type, [&](auto from) { return gradient_of<decltype(from)>(tile, reach); });
}

// The tile, or where the device does not lend a block its shared memory, the one that fits every chip.
int tile_on(int device, const polyconv_layer &l, int tile) {
  const int64_t wanted = std::max(launcher_for(l, tile, true).shared_bytes, launcher_for(l, tile, false).shared_bytes);
  return wanted <= block_shared_bytes(device) ? tile : kGradient64x64;
}

class ImplicitWeights final : public CudaInstance {
 public:
  ImplicitWeights(const polyconv_request &request, int tile)
      : CudaInstance(request),
        tile_(tile_on(device_, layer_, tile)),
        gradient_(plan_of(layer_, tile_).gradient),
        preferred_(launcher_for(layer_, tile_, true)),
        unaligned_(launcher_for(layer_, tile_, false)) {
    const DeviceScope scope(device_);
    preferred_.prepare(), unaligned_.prepare();
  }

 private:
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Gradient g = gradient_;
    g.x.data = begin_of(layer_.input, a.input);
    g.y.data = begin_of(layer_.output, a.output);
    g.result = a.weights[0];
    g.pieces = static_cast<float *>(a.workspace);
    if (!clusters_) g.sharing = 1; // the same shares, as pieces
    (aligned(g.x.data, 16) && aligned(g.y.data, 16) ? preferred_ : unaligned_).launch(g, stream);
    bias_gradient(layer_, a, static_cast<char *>(a.workspace) + pieces_end(layer_, tile_), stream);
  }

  const int tile_;
  const Gradient gradient_;
  const GradientLauncher preferred_, unaligned_;
  const bool clusters_ = begins_early(device_);
};

} // namespace

POLYCONV_DEFINE_KERNEL(implicit_weights, kNames, supports, instance_of<ImplicitWeights>);

} // namespace polyconv::cuda
