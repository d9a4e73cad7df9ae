// vector_weights.cu - the gradient of weights, f16 and bf16, with mma.sync: layers whose outputs are few
// (common/outer.hpp). Configs are tiles of a warp, filters x depth.
//
// Floor: one write of the gradient.
// SPDX-License-Identifier: Apache-2.0
#include "common/outer_kernel.hpp"
#include "vector/outer.hpp"

namespace polyconv::cuda {
namespace {

constexpr const char *kNames[] = {"16x16", "64x64"};

struct Side {
  static constexpr OuterShape shapes[] = {{16, 16}, {64, 64}};

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    const int32_t type = l.input.type;
    if ((type != POLYCONV_F16 && type != POLYCONV_BF16) || l.output.type != type)
      return offer.reject("takes f16 and bf16, the same for input and output");
    return l.result.type == type || l.result.type == POLYCONV_F32 ||
           offer.reject("stores the gradient as f32, or in the type of the input");
  }
  // Loads of a warp wait one for another in steps of rows; those of a multiprocessor's tiles share its cache.
  static double us(const polyconv_layer &, const OuterProduct &p, int config) {
    const double tiles = outer_tiles(p), busiest = std::ceil(tiles / kHopperMultiprocessors);
    const double side = shapes[config].filters, rows = real(ceil_div(p.rows, 16)) * 16;
    const double wide = std::min(p.x.width, p.dy.width) >= side / 4 ? 1 : side / 16; // elements one by one
    const double waits = 1100 + std::ceil(rows / (config == 0 ? 64 : 16)) * 500 * wide;
    const double tile = rows * 2 * side * 2 / 60 * (wide > 1 ? 3 : 1) + side * side * 2 / 30;
    return (waits + busiest * tile) / kHopperClocks;
  }
  static OuterLauncher launcher(int32_t type, int config) {
    return type == POLYCONV_F16 ? tensor::outer_f16(shapes[config]) : tensor::outer_bf16(shapes[config]);
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

extern const sdk::Kernel kernel_vector_weights;
const sdk::Kernel kernel_vector_weights = {"vector_weights",
                                           0,
                                           kNames,
                                           sizeof kNames / sizeof *kNames,
                                           outer_supports<Side>,
                                           outer_create<Side>,
                                           POLYCONV_TRAIT_WIDE_GRADIENT};

} // namespace polyconv::cuda
