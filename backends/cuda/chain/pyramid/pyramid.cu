// pyramid.cu - a chain of 2D layers in one kernel: every layer's tile lies in shared memory, with the overlap that the
// layers after it need computed again by each block.
//
// Floor: the products of all layers, recomputed ones included, at the FMA rate, or the bytes of the chain's input and
// result. Nothing between them touches memory.
// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>
#include <cmath>

#include "common/host.hpp"
#include "plan.hpp"
#include "pyramid/pyramid.cuh"

namespace polyconv::cuda {
namespace {

using namespace chain;

__global__ void __launch_bounds__(kMostThreads, 1)
    fuse(const __grid_constant__ Pyramid p, const __grid_constant__ Pointers at) {
  float *const shared = shared_floats();
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t i = 0; i < p.layers; ++i)
    for (int32_t e = 4 * thread; e < p.stage[i].weight_count; e += 4 * static_cast<int32_t>(blockDim.x))
      copy_async<16>(shared + p.stage[i].weights + e, at.weights[i] + e, true);
  await_copies();
  __syncthreads();
  const int32_t group = thread / p.threads;
  Here here;
  here.arena = p.arena + group * p.images * p.image_floats;
  here.thread = thread - group * p.threads, here.threads = p.threads, here.barrier = 1 + group;
#pragma unroll 1
  for (auto unit = static_cast<int32_t>(blockIdx.x) * p.groups + group; unit < p.units;
       unit += static_cast<int32_t>(gridDim.x) * p.groups) {
    here.tile[1] = unit % p.tiles[1], here.tile[0] = unit / p.tiles[1] % p.tiles[0];
    here.image = unit / p.tiles[1] / p.tiles[0] * p.images;
    here.images = min(p.images, p.batch - here.image);
    here.sync(); // nobody reads the last tile any more
    stage_input(p, at, here);
    await_copies();
#pragma unroll 1
    for (int32_t i = 0; i < p.layers; ++i) {
      here.sync();
      convolve_any(p, at, here, i);
      if (p.stage[i].two_passes) {
        here.sync();
        finish_map(p, at, here, i);
      }
      if (i + 1 == p.layers) break;
      if (folds(p.map[i + 1]))
        fold_map(p, here, p.map[i + 1]);
      else
        pad_map(p, here, p.map[i + 1]);
    }
  }
}

// ---------------------------------------------------------------- plan and run

// Named by the tile, the threads and images of a group, the groups of a block, and the channels of a thread.
constexpr PyramidConfig kConfigs[] = {{32, 32, 384, 6, 1, 8}, {32, 32, 96, 1, 4, 8},  {32, 32, 384, 6, 1, 4},
                                      {14, 14, 64, 1, 6, 8},  {14, 28, 128, 1, 3, 8}, {8, 28, 128, 1, 3, 8}};
constexpr const char *kNames[] = {"r32_c32_t384_i6_g1_k8", "r32_c32_t96_i1_g4_k8",  "r32_c32_t384_i6_g1_k4",
                                  "r14_c14_t64_i1_g6_k8",  "r14_c28_t128_i1_g3_k8", "r8_c28_t128_i1_g3_k8"};
constexpr int kConfigCount = 6;

class Fused final : public ChainInstance {
 public:
  Fused(const polyconv_request &request, const PyramidConfig &config)
      : ChainInstance(request), channels_(config.channels) {
    sdk::Offer offer = {};
    PyramidCost cost;
    if (!make_pyramid(request, config, most_shared(request), pyramid_, cost, offer))
      throw sdk::Error(POLYCONV_INTERNAL, "cuda-chain/pyramid: no tiles for a chain that was accepted");
    shared_bytes_ = static_cast<size_t>(cost.shared_bytes);
    const DeviceScope scope(device_);
    allow_shared(fuse, block_shared_bytes(device_));
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, fuse, pyramid_.threads * pyramid_.groups,
                                                        shared_bytes_),
          "counting resident blocks");
    const int64_t blocks = ceil_div(pyramid_.units, pyramid_.groups);
    blocks_ =
        static_cast<unsigned>(std::min<int64_t>(blocks, int64_t{std::max(resident, 1)} * multiprocessors_of(device_)));
  }

 private:
  void pack_layer(const polyconv_layer &layer, int, const void *raw, void *packed, cudaStream_t stream) override {
    pack_weights(layer, channels_, raw, packed, stream);
  }
  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    Pointers at = {};
    at.input = a.input, at.result = a.output;
    for (int i = 0; i < pyramid_.layers; ++i) {
      const polyconv_epilogue &e = layers_[i].epilogue;
      at.weights[i] = static_cast<const float *>(a.weights[i]);
      at.bias[i] = e.has_bias ? static_cast<const float *>(a.bias[i]) : nullptr;
      at.scale[i] = e.has_scale ? static_cast<const float *>(a.scale[i]) : nullptr;
      at.residual[i] = e.residual_from == POLYCONV_RESIDUAL_BUFFER ? a.residual[i] : nullptr;
    }
    fuse<<<blocks_, static_cast<unsigned>(pyramid_.threads * pyramid_.groups), shared_bytes_, stream>>>(pyramid_, at);
    check_launch("cuda-chain/pyramid");
  }

  const int channels_;
  Pyramid pyramid_;
  size_t shared_bytes_ = 0;
  unsigned blocks_ = 0;
};

bool takes_layer(const polyconv_request &request, int i, sdk::Offer &offer) {
  const polyconv_layer &l = *request.layers[i];
  if (l.direction != POLYCONV_FORWARD) return offer.reject("layer %d: computes outputs, not gradients", i);
  if (!sums_images(l)) return offer.reject("layer %d: sums in f32: f32, f16, bf16 and images of u8 and u16", i);
  if (!is_2d(l)) return offer.reject("layer %d: its tiles are of two dimensions, not three", i);
  if (!fits_int32(l)) return offer.reject("layer %d: a tensor has 2^31 elements or more", i);
  if (l.save != POLYCONV_SAVE_NONE) return offer.reject("layer %d: saves nothing", i);
  return true;
}

int64_t resident_blocks(const Pyramid &p, const PyramidCost &cost) {
  const int64_t by_shared = kHopperShared / (cost.shared_bytes + 1024),
                by_threads = kMostThreads / (p.threads * p.groups);
  return std::max<int64_t>(std::min(by_shared, by_threads), 1);
}

// The multiprocessor issues the instructions of its groups side by side, or waits for the slowest group's path. Rates
// are those of an H200, measured on LeNets and pairs of 3x3 layers: right to 20 % for most.
double pyramid_us(const polyconv_request &request, const Pyramid &p, const PyramidCost &cost) {
  const double resident = real(resident_blocks(p, cost) * p.groups);
  const double turns = std::ceil(p.units / (kHopperMultiprocessors * resident));
  const double busy = std::min(resident, std::ceil(p.units / real(kHopperMultiprocessors)));
  const double clocks = turns * std::max(busy * cost.slots / (4 * 0.67), cost.path * 2.7);
  const double elements =
      real(sdk::elements(request.layers[0]->input) + sdk::elements(request.layers[request.count - 1]->result));
  // Results whose columns are not neighbours go out in sectors of 32 bytes, up to one for each, hidden for the most
  // part.
  const polyconv_tensor &result = request.layers[request.count - 1]->result;
  const int64_t apart = result.stride[4] == 1 ? 0 : std::min<int64_t>(result.stride[4] * 4, 32);
  return 8 + std::max(clocks / 1700, 4 * elements / 3e6) + real(sdk::elements(result) * apart) / 12e6;
}

void tell(const Pyramid &p, const PyramidCost &cost, sdk::Offer &offer) {
  const int64_t resident = resident_blocks(p, cost), blocks = ceil_div(p.units, p.groups);
  offer.recomputed_outputs = static_cast<int64_t>(cost.recomputed);
  offer.blocks = std::min(blocks, kHopperMultiprocessors * resident);
  offer.shared_bytes = cost.shared_bytes;
  offer.threads = p.threads * p.groups;
  offer.occupancy = static_cast<float>(resident * offer.threads) / 2048;
  offer.say("%d tiles of %dx%d by %d images, %d groups of %d threads a block", p.units, p.result_tile[0],
            p.result_tile[1], p.images, p.groups, p.threads);
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE) return offer.reject("only convolves");
  if (request.count < 2) return offer.reject("fuses two layers or more");
  for (int i = 0; i < request.count; ++i)
    if (!takes_layer(request, i, offer)) return false;
  const int64_t shared = most_shared(request);
  int64_t least = INT64_MAX;
  const bool serves = offer_filled(kConfigCount, config, offer, [&](int32_t i, sdk::Offer &o) {
    Pyramid pyramid;
    PyramidCost cost;
    if (!make_pyramid(request, kConfigs[i], shared, pyramid, cost, o)) {
      least = std::min(least, cost.least_bytes);
      return false;
    }
    o.estimate_us = pyramid_us(request, pyramid, cost);
    tell(pyramid, cost, o);
    return true;
  });
  if (!serves) {
    if (least > shared && offer.reason[0] == 0)
      offer.reject("needs at least %" PRId64 " bytes of shared memory a block, and %" PRId64 " may be used", least,
                   shared);
    return false;
  }
  offer.reason[0] = 0; // of tiles that did not fit
  for (int i = 0; i < request.count; ++i) {
    char format[POLYCONV_FORMAT_SIZE];
    std::snprintf(format, sizeof format, "cuda_chain_pyramid%d:1",
                  shape_of(*request.layers[i], kConfigs[offer.config].channels).channels);
    offer.set_weights(i, format, packed_bytes(*request.layers[i], kConfigs[offer.config].channels));
  }
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(pyramid, kNames, supports, instance_of<Fused, kConfigs>);

} // namespace polyconv::cuda
