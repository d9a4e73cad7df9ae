// wgmma_pair.cpp - MobileNets' depthwise 3 x 3 and the 1 x 1 layer after it, f16 and bf16, channels last, on Hopper:
// fetched by the TMA, filtered by FMA, multiplied by warpgroups, all at once (wgmma.cuh).
//
// Floor: the input and the result once, at the rate of a copy.
// SPDX-License-Identifier: Apache-2.0
#include "common/host.hpp"
#include "pair/pair.hpp"
#include "pair/wgmma.hpp"

#include "common/device/device.hpp"
#include "common/device/maps.hpp"

namespace polyconv::cuda {
namespace piped {
namespace {

// Strips of a tile; blocks of a cluster, which share what they fetch of the last weights.
struct Config {
  int strips, cluster;
};
constexpr Config kConfigs[] = {{2, 1}, {1, 1}, {1, 2}};
constexpr const char *kConfigNames[] = {"t14", "t7", "t7_c2"};
constexpr int kConfigCount = 3;

using Plan = chain::PairPlan<Pair>;

// ---------------------------------------------------------------- plan

// As many stages as there is room for, inputs first.
bool set_stages(const Shape &s, Pair &p, int64_t most_shared, Plan &plan, sdk::Offer &offer) {
  const int64_t fixed = 1024 + kBarrierBytes + 4 * (p.chunks * int64_t{s.chunk()} + s.results()) +
                        (p.m.vectors_residual ? s.residual_bytes() : 0);
  const auto bytes = [&] {
    return fixed + p.inputs * int64_t{s.input_bytes()} + p.products * int64_t{s.product_bytes()};
  };
  p.inputs = p.products = s.teams;
  if (bytes() > most_shared)
    return offer.reject("needs at least %" PRId64 " bytes of shared memory a block, %" PRId64 " may be used", bytes(),
                        most_shared);
  const auto grow = [&](int32_t &stages, int most) {
    while (stages + s.teams <= most) {
      stages += s.teams;
      if (bytes() <= most_shared) continue;
      stages -= s.teams;
      return;
    }
  };
  grow(p.inputs, 6), grow(p.products, 6);
  plan.shared_bytes = bytes();
  return true;
}

// A chunk of a tile, and what a tile takes besides: where its results are many, products wait for weights, else filters
// for nothing. Fitted to the pairs of MobileNetV2 at batch 128 on an H200.
double chunk_us(const Shape &s) {
  if (s.strips == 2 && s.step == 2) return 1.7;
  if (s.strips == 2) return s.teams == 3 ? 0.68 : 0.55 + s.columns / 300.0;
  const double multiply = s.results() > 256 ? 0.83 : 0.34 + s.results() * 0.00095;
  return s.step == 2 ? std::max(0.78, multiply) : multiply;
}
// A residual waits in shared memory where a tile ends; or else is read there, four values after the other, and nothing
// hides that.
double tile_us(const Shape &s, const Mobile &m, bool adds) {
  const double adding = !adds ? 0 : (m.vectors_residual ? 4e-5 : 1.2e-3) * s.tile() * s.tile() * m.results;
  return (s.strips == 2 ? 0.77 : s.step == 2 ? 0.15 : 0.65) + adding;
}

double plan_us(const Shape &s, const Pair &p, int64_t blocks, bool adds) {
  const Mobile &m = p.m;
  const double rounds = real(ceil_div(p.tiles, blocks));
  const double results = real(m.out[0]) * m.out[1] * m.results * (adds ? 2 : 1);
  const double moved = 2.0 * m.batch * (real(m.in[0]) * m.in[1] * m.hidden + results);
  const double begin = 1.7 + 0.01 * real(blocks); // their first bytes come at once
  const double us = begin + std::max(rounds * (p.chunks * chunk_us(s) + tile_us(s, m, adds)), moved / 3.6e6);
  return p.cluster == 1 ? us : us + 1 - 0.1 * rounds; // weights are fetched half as often
}

bool make_plan(const polyconv_request &request, int config, Plan &plan, sdk::Offer &offer) {
  const Mobile m = mobile::mobile_shape(chain::pair_layers(request));
  const Config &c = kConfigs[config];
  plan = {};
  for (int i = kShapeCount - 1; i >= 0; --i)
    if (kShapes[i].step == m.step && kShapes[i].strips == c.strips && kShapes[i].results() >= m.results) plan.shape = i;
  if (plan.shape < 0)
    return offer.reject("has no tiles of %dx%d at stride %d for %d channels of the result", kStrip * c.strips,
                        kStrip * c.strips, m.step, m.results);
  const Shape &s = kShapes[plan.shape];
  Pair &p = plan.pair;
  p.m = m;
  for (int i = 0; i < 2; ++i) p.m.tiles[i] = small(std::max<int64_t>(ceil_div(m.out[i], s.tile()), 1));
  const double tiles = real(m.batch) * p.m.tiles[0] * p.m.tiles[1];
  p.chunks = small(ceil_div(m.hidden, s.chunk()));
  if (!(tiles * p.chunks < 1 << 30)) return offer.reject("takes less than 2^30 tiles and chunks of channels");
  if (!set_stages(s, p, chain::most_shared(request), plan, offer)) return false;
  p.cluster = c.cluster;
  const auto wanted = std::max<int64_t>(static_cast<int64_t>(tiles), 1);
  plan.blocks = std::min<int64_t>(ceil_div(wanted, p.cluster), kHopperMultiprocessors / p.cluster) * p.cluster;
  p.tiles = small(wanted);
  const bool adds = request.layers[1]->epilogue.residual_from != POLYCONV_RESIDUAL_NONE;
  plan.us = plan_us(s, p, plan.blocks, adds);
  return true;
}

struct Side {
  using Plan = piped::Plan;
  static constexpr const char *name = "cuda-chain/wgmma_pair";
  static constexpr int configs = kConfigCount;

  static bool takes(const polyconv_request &request, sdk::Offer &offer) {
    const mobile::MobileLayers layers = chain::pair_layers(request);
    if (!mobile::mobile_takes(layers, offer)) return false;
    if (!mobile::mobile_shape(layers).vectors_in)
      return offer.reject("layer 0: takes pixels of whole 16 bytes, as far apart, not of %" PRId64 " channels",
                          layers.filter->input.size[1]);
    for (const int axis : {0, 3, 4})
      if (!(real(layers.filter->input.stride[axis]) < (1ll << 38)))
        return offer.reject("layer 0: takes strides of less than 2^38 elements");
    return has_code("90a", request.policy->device_index, offer);
  }
  static bool make_plan(const polyconv_request &request, int config, Plan &plan, sdk::Offer &offer) {
    return piped::make_plan(request, config, plan, offer);
  }
  static void tell(const Plan &plan, sdk::Offer &offer) {
    const Mobile &m = plan.pair.m;
    const Shape &s = kShapes[plan.shape];
    offer.set_weights(0, "cuda_chain_taps:1", taps_bytes(m.hidden));
    offer.set_weights(1, "cuda_chain_rows:1", rows_bytes(m.hidden, m.results));
    offer.recomputed_outputs = 0;
    offer.threads = s.threads();
    offer.occupancy = static_cast<float>(s.threads()) / 2048;
    offer.say("tiles of %dx%d pixels, %d channels at a time, %d and %d stages", s.tile(), s.tile(), s.chunk(),
              plan.pair.inputs, plan.pair.products);
  }
  static Kernel find(int32_t type, int shape) {
    return of_half(type, [&](auto t) { return kernel_of<decltype(t)>(shape); });
  }
  static void pack(const polyconv_layer &layer, int number, const void *raw, void *packed, cudaStream_t stream) {
    (number == 0 ? pack_taps : pack_rows)(layer, raw, packed, stream);
  }
  void launch(Kernel kernel, const polyconv_layer *layers, Pair &p, const Plan &plan, cudaStream_t stream) const {
    if (p.m.vectors_in == 0 || !aligned(p.m.filters, 16) || !aligned(p.m.project, 16))
      return run_unaligned(p.m, layers[0].input.type, stream);
    const Shape &s = kShapes[plan.shape];
    make_maps(layers, s, p);
    launch_clusters(kernel, static_cast<unsigned>(p.cluster), static_cast<unsigned>(plan.blocks), s.threads(),
                    small(plan.shared_bytes), stream, p);
  }

  // Maps hold the run's pointers. Making them is arithmetic on the host, 128 bytes each.
  void make_maps(const polyconv_layer *layers, const Shape &s, Pair &p) const {
    const Mobile &m = p.m;
    const MapShape taps({m.hidden, 9}, {m.hidden * 2}), rows({m.hidden, m.results}, {m.hidden * 2});
    const auto look = [&](CUtensorMapSwizzle swizzle) { return MapLook{map_type(layers[0].input.type), swizzle}; };
    maps_.boxes(MapShape(layers[0].input, {1, 4, 3, 0}, 2), {s.chunk(), s.patch(), s.patch(), 1},
                look(CU_TENSOR_MAP_SWIZZLE_NONE), m.input, "input", &p.input);
    if (p.m.vectors_residual)
      maps_.boxes(MapShape(layers[1].residual, {1, 4, 3, 0}, 2), {kResidualBytes / 2, s.tile(), s.tile(), 1},
                  look(CU_TENSOR_MAP_SWIZZLE_64B), m.residual, "residual", &p.residual);
    maps_.boxes(taps, {s.chunk(), 9}, look(CU_TENSOR_MAP_SWIZZLE_NONE), m.filters, "taps", &p.taps);
    maps_.boxes(rows, {s.chunk(), p.cluster > 1 ? s.results() / p.cluster : s.box_rows()},
                look(s.strips == 2 ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B), m.project, "weights",
                &p.weights);
  }

  TensorMaps maps_;
};

} // namespace
} // namespace piped

POLYCONV_DEFINE_KERNEL(wgmma_pair, piped::kConfigNames, chain::pair_supports<piped::Side>,
                       instance_of<chain::PairInstance<piped::Side>>);

} // namespace polyconv::cuda
