// vector_weights.cu - the gradient of weights, strict f32: layers whose outputs are few (common/vector/outer.hpp).
// Configs are tiles of a block, filters x depth.
//
// Floor: one write of the gradient; with many outputs 2 rows K C at the FMA rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "common/vector/outer_kernel.hpp"
#include "vector/outer.hpp"

namespace polyconv::cuda {
namespace {

constexpr const char *kNames[] = {"16x32", "16x128", "64x64"};

struct Side {
  static constexpr OuterShape shapes[] = {{16, 32}, {16, 128}, {64, 64}};

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    return (l.input.type == POLYCONV_F32 && l.output.type == POLYCONV_F32 && l.result.type == POLYCONV_F32) ||
           offer.reject("takes f32: input, output and gradient");
  }
  static double us(const OuterProduct &p, int config) {
    return (config == 1 ? rows_clocks(p) : stages_clocks(p, config)) / kHopperClocks;
  }
  static int copies(const OuterRows &r) { return r.width == 16 ? 1 : r.step == 1 ? 3 : 12; }
  static double busiest_of(const OuterProduct &p) { return std::ceil(outer_tiles(p) / kHopperMultiprocessors); }
  // As 22 gradients of 32 rows take on an H200: 5 % off on average. Element by element rows take far longer.
  static double rows_clocks(const OuterProduct &p) {
    const double rows = std::ceil(p.rows / 16.0) / 2, apart = copies(p.x) + copies(p.dy) - 2;
    return 700 + rows * (1490 * busiest_of(p) + 1800 * apart);
  }
  // Likewise; rows come in steps of 32, while those before are multiplied.
  static double stages_clocks(const OuterProduct &p, int config) {
    const double rows = p.rows, area = real(shapes[config].filters) * shapes[config].depth;
    const double reading = rows * 4 / 60 * (shapes[config].filters * copies(p.dy) + shapes[config].depth * copies(p.x));
    const double multiplying = rows * area / (config == 0 ? 25 : 70), begin = config == 0 ? 450 : 1500;
    const double waits = begin + std::ceil(rows / 32) * (450 + 50 * (copies(p.x) + copies(p.dy)));
    return waits + busiest_of(p) * (std::max(multiplying, reading) + area * 4 / 30);
  }
  static OuterLauncher launcher(const OuterProduct &p, int32_t, int config) {
    return gemm::outer_f32(p, shapes[config]);
  }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector_weights, kNames, outer_supports<Side>, instance_of<OuterInstance<Side>>);

} // namespace polyconv::cuda
