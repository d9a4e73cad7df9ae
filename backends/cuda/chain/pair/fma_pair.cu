// fma_pair.cu - MobileNets' depthwise 3 x 3 and the 1 x 1 layer after it in f32: the tensor between them stays in
// shared memory, sixteen channels of it at a time (fma.cuh).
//
// Floor: the products of both layers at the FMA rate, or the input and the result once at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#include "common/machine.hpp"
#include "pair/fma.hpp"
#include "pair/pair.hpp"

namespace polyconv::cuda {
namespace single {
namespace {

// Pixels and results of a tile; a shape of the layer's stride has them, or none.
struct Config {
  int tile, results;
};
constexpr Config kConfigs[] = {{256, 16}, {256, 24}, {256, 32}, {128, 24}, {128, 32},
                               {128, 64}, {128, 96}, {64, 64},  {64, 160}};
constexpr const char *kConfigNames[] = {"256x16", "256x24", "256x32", "128x24", "128x32",
                                        "128x64", "128x96", "64x64",  "64x160"};
constexpr int kConfigCount = sizeof kConfigs / sizeof *kConfigs;
static_assert(sizeof kConfigNames / sizeof *kConfigNames == kConfigCount, "every config has a name");

using Plan = chain::PairPlan<Pair>;

// ---------------------------------------------------------------- plan

int shape_of(const Config &config, int step) {
  for (int i = 0; i < kShapeCount; ++i)
    if (kShapes[i].step == step && kShapes[i].tile() == config.tile && kShapes[i].results() == config.results) return i;
  return -1;
}

void set_tile(const Shape &s, int rows, int columns, int images, Pair &p) {
  Mobile &m = p.m;
  const int size[2] = {rows, columns};
  for (int i = 0; i < 2; ++i) {
    m.units[i] = size[i];
    m.patch[i] = (size[i] - 1) * s.step + 3;
    m.tiles[i] = small(std::max<int64_t>(ceil_div(m.out[i], size[i]), 1));
  }
  m.images = images;
  m.groups_of_images = small(ceil_div(m.batch, images));
  p.strips = Divider::make(columns / s.strip()), p.bands = Divider::make(small(ceil_div(rows, kStripRows)));
  p.columns = Divider::make(columns), p.rows = Divider::make(rows);
  p.tasks = p.strips.by * p.bands.by * images * kQuads;
}

double blocks_of(const Mobile &m) {
  return real(m.groups_of_images) * m.tiles[0] * m.tiles[1] * m.slices;
}

// How many blocks a multiprocessor holds at a time: by shared memory, and by registers, 168 of a thread.
int64_t together_of(const Shape &s, int64_t shared) {
  return std::clamp<int64_t>(kHopperShared / (shared + 1024), 1, 65536 / (168 * s.threads()));
}

// Rounds of as many blocks as fit, and a last one of the rest; what a block begins with is not hidden. Fitted to the
// pairs of MobileNetV2 at batches of 1 to 128 on an H200: 4 to 13 % off on average.
double plan_us(const Shape &s, const Pair &p, int64_t shared) {
  constexpr double kBegin = 1.5;
  const Mobile &m = p.m;
  const double chunks = real(ceil_div(m.hidden, kChunk)), together = real(together_of(s, shared));
  const double blocks = std::ceil(blocks_of(m) / kHopperMultiprocessors); // of a multiprocessor
  const auto round = [&](double of) { return std::max(of * (chunks * s.beside + kBegin), chunks * s.alone + kBegin); };
  const double rounds = std::floor(blocks / together), rest = blocks - rounds * together;
  const double moved = 4.0 * m.batch * (real(m.in[0]) * m.in[1] * m.hidden + real(m.out[0]) * m.out[1] * m.results);
  return 3 + std::max(rounds * round(together) + (rest > 0 ? round(rest) : 0), moved / 3.3e6);
}

// The best tile of a shape that shared memory holds; false, with the least that would do, where there is none.
bool choose_tile(const Shape &s, int64_t most_shared, Plan &plan, sdk::Offer &offer) {
  const Mobile &m = plan.pair.m;
  int64_t least = INT64_MAX;
  const auto consider = [&](int rows, int columns, int images) {
    Pair p = plan.pair;
    set_tile(s, rows, columns, images, p);
    const int64_t shared = shared_bytes(s, p.m);
    if (blocks_of(p.m) > 1 << 30 || real(m.in_at.image) * images > INT32_MAX) return;
    least = std::min(least, shared);
    if (shared > most_shared) return;
    const double us = plan_us(s, p, shared);
    // Of equals the smaller patch, which has the shorter border.
    if (plan.us > 0 && (us > plan.us || (us == plan.us && shared >= plan.shared_bytes))) return;
    plan.pair = p, plan.shared_bytes = shared, plan.us = us, plan.blocks = static_cast<int64_t>(blocks_of(p.m));
  };
  const int widest = std::min(small(ceil_div(std::max(m.out[1], 1), s.strip())) * s.strip(), s.tile());
  for (int columns = s.strip(); columns <= widest; columns += s.strip()) {
    const int most = std::min(std::max(m.out[0], 1), s.tile() / columns);
    for (int rows = 1; rows <= most; ++rows) consider(rows, columns, 1);
    const bool whole = columns >= m.out[1] && most >= m.out[0];
    for (int images = 2; whole && images <= std::min(s.tile() / (columns * most), m.batch); ++images)
      consider(most, columns, images);
  }
  if (plan.us > 0) return true;
  if (least == INT64_MAX) return offer.reject("takes less than 2^30 tiles");
  return offer.reject("needs at least %" PRId64 " bytes of shared memory a block, %" PRId64 " may be used", least,
                      most_shared);
}

bool make_plan(const polyconv_request &request, int config, Plan &plan, sdk::Offer &offer) {
  plan = {};
  Mobile &m = plan.pair.m;
  m = mobile::mobile_shape(chain::pair_layers(request));
  plan.shape = shape_of(kConfigs[config], m.step);
  if (plan.shape < 0) return offer.reject("has no tiles of %s at stride %d", kConfigNames[config], m.step);
  const Shape &s = kShapes[plan.shape];
  m.slices = small(ceil_div(m.results, s.results()));
  plan.pair.taps_row = small(taps_bytes(m.hidden) / 36), plan.pair.weights_row = small(rows_bytes(1, m.results) / 4);
  return choose_tile(s, chain::most_shared(request), plan, offer);
}

struct Side {
  using Plan = single::Plan;
  static constexpr const char *name = "cuda-chain/fma_pair";
  static constexpr int configs = kConfigCount;

  static bool takes(const polyconv_request &request, sdk::Offer &offer) {
    if (request.layers[0]->input.type != POLYCONV_F32) return offer.reject("layer 0: takes f32 only");
    return mobile::mobile_takes_form(chain::pair_layers(request), offer);
  }
  static bool make_plan(const polyconv_request &request, int config, Plan &plan, sdk::Offer &offer) {
    return single::make_plan(request, config, plan, offer);
  }
  static void tell(const Plan &plan, sdk::Offer &offer) {
    const Mobile &m = plan.pair.m;
    const int threads = kShapes[plan.shape].threads();
    offer.set_weights(0, "cuda_chain_taps32:1", taps_bytes(m.hidden));
    offer.set_weights(1, "cuda_chain_rows32:1", rows_bytes(m.hidden, m.results));
    offer.recomputed_outputs = int64_t{m.batch} * m.out[0] * m.out[1] * m.hidden * (m.slices - 1);
    offer.threads = threads;
    offer.occupancy = static_cast<float>(together_of(kShapes[plan.shape], plan.shared_bytes) * threads) / 2048;
    offer.say("tiles of %dx%d pixels of %d images, %d channels at a time", m.units[0], m.units[1], m.images, kChunk);
  }
  static Kernel find(int32_t, int shape) { return find_kernel(shape); }
  static void pack(const polyconv_layer &layer, int number, const void *raw, void *packed, cudaStream_t stream) {
    (number == 0 ? pack_taps : pack_rows)(layer, raw, packed, stream);
  }
  void launch(Kernel kernel, const polyconv_layer *, Pair &p, const Plan &plan, cudaStream_t stream) const {
    p.m.vectors_in = p.m.vectors_in && aligned(p.m.filters, 16) && aligned(p.m.project, 16);
    kernel<<<static_cast<unsigned>(plan.blocks), static_cast<unsigned>(kShapes[plan.shape].threads()),
             static_cast<size_t>(plan.shared_bytes), stream>>>(p);
    check_launch(name);
  }
};

} // namespace
} // namespace single

POLYCONV_DEFINE_KERNEL(fma_pair, single::kConfigNames, chain::pair_supports<single::Side>,
                       instance_of<chain::PairInstance<single::Side>>);

} // namespace polyconv::cuda
