// vector_weights.cu - the gradient of weights, f16 and bf16, with mma.sync: layers whose outputs are few
// (common/vector/outer.hpp). Configs are tiles of a warp, filters x depth.
//
// Floor: one write of the gradient.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "common/vector/outer_kernel.hpp"
#include "vector/outer.hpp"

namespace polyconv::cuda {
namespace {

constexpr const char *kNames[] = {"16x16", "64x64"};

struct Side {
  static constexpr OuterShape shapes[] = {{16, 16}, {64, 64}};

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    const int32_t type = l.input.type;
    if (!is_half(type) || l.output.type != type)
      return offer.reject("takes f16 and bf16, the same for input and output");
    return l.result.type == type || l.result.type == POLYCONV_F32 ||
           offer.reject("stores the gradient as f32, or in the type of the input");
  }
  // Loads of a warp wait one for another in steps of rows; those of a multiprocessor's tiles share its cache, as long
  // as rows are few and their columns lie side by side: else a step took 6000 and 15000 clocks (four layers on an
  // H200).
  static double us(const OuterProduct &p, int config) {
    const double busiest = std::ceil(outer_tiles(p) / kHopperMultiprocessors), side = shapes[config].filters;
    const double rows = real(ceil_div(p.rows, 16)) * 16, vector = side / 4; // bytes of a lane
    const auto apart = [&](const OuterRows &r) { return r.width >= vector ? 1 : r.step == 1 ? side / 16 : side / 4; };
    const double loads = (apart(p.x) + apart(p.dy)) / 2;
    const double step = p.x.step > 1 || p.dy.step > 1 ? 15000 : rows > 256 ? 6000 : 400 + 100 * loads;
    const double waits = (config == 0 ? 1700 : 1400) + std::ceil(rows / (config == 0 ? 64 : 32)) * step +
                         (config == 0 ? 0 : 3000 * (loads - 1));
    // Wide tiles of rows that are no vectors wait for every load. Small tiles: 350 clocks each on an H100, whatever
    // they read.
    const double tile = rows * 2 * side * 2 / 60 * loads + side * side * 2 / 30 + (config == 0 ? 300 : 0);
    return (waits + busiest * tile) / kHopperClocks;
  }
  static OuterLauncher launcher(int32_t type, int config) {
    return type == POLYCONV_F16 ? tensor::outer_f16(shapes[config]) : tensor::outer_bf16(shapes[config]);
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector_weights, kNames, outer_supports<Side>, instance_of<OuterInstance<Side>>, 0,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
