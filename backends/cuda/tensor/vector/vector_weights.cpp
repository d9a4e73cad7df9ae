// vector_weights.cpp - the gradient of weights, f16 and bf16, with mma.sync: layers whose outputs are few
// (common/vector/outer.hpp). Configs are tiles of a warp, filters x depth.
//
// Floor: one write of the gradient.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "common/types.hpp"
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
  // A warp waits for the loads of 32 rows at once, multiplies 16 at a time, and stores its tile; a multiprocessor has
  // few warps' chains under way (`kBeside`), or what all of them together take. Rows whose elements lie apart, or many,
  // wait longer; wide tiles of rows that are no vectors for every load. Fitted to 43 layers of 1 to 256 rows and of
  // 16,000 to 103 million weights on an H200, which take 2 to 610 microseconds.
  static double us(const OuterProduct &p, int config) {
    const bool wide = config != 0;
    const double busiest = std::ceil(outer_tiles(p) / kHopperMultiprocessors), side = shapes[config].filters;
    const double steps = real(ceil_div(p.rows, 32)), halves = real(ceil_div(p.rows, 16)), vector = side / 4; // bytes
    const auto apart = [&](const OuterRows &r) { return r.width >= vector ? 1 : r.step == 1 ? side / 16 : side / 4; };
    const double loads = (apart(p.x) + apart(p.dy)) / 2, waits = p.x.step > 1 || p.dy.step > 1 ? 1900
                                                                 : p.rows > 256                ? 1300
                                                                                               : 0;
    const double kBeside = wide ? 8 : 9;
    const double chain = steps * (waits + (loads - 1) * (wide ? 1200 : 300) + (wide ? 1520 : 200) +
                                  (wide ? 130 : 350) * std::min(busiest, kBeside)) +
                         halves * (wide ? 450 : 0);
    const double all = busiest * (wide ? halves * 195 : steps * 84);
    return (std::max(chain, all) + busiest * (wide ? 330 : 42)) / kHopperClocks;
  }
  static OuterLauncher launcher(const OuterProduct &, int32_t type, int config) {
    return of_half(type, [&](auto t) { return tensor::outer_launcher<decltype(t)>(shapes[config]); });
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector_weights, kNames, outer_supports<Side>, instance_of<OuterInstance<Side>>, 0,
                       POLYCONV_TRAIT_WIDE_GRADIENT);

} // namespace polyconv::cuda
