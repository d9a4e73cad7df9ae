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

constexpr const char *kNames[] = {"16x32", "16x128", "64x64", "32x32", "32x64", "8x128"};

struct Side {
  static constexpr OuterShape shapes[] = {{16, 32}, {16, 128}, {64, 64}, {32, 32}, {32, 64}, {8, 128}};

  static bool takes_types(const polyconv_layer &l, sdk::Offer &offer) {
    return (l.input.type == POLYCONV_F32 && l.output.type == POLYCONV_F32 && l.result.type == POLYCONV_F32) ||
           offer.reject("takes f32: input, output and gradient");
  }
  static double us(const OuterProduct &p, int config) {
    return (config == 1 || config == 5 ? rows_clocks(p) : stages_clocks(p, config)) / kHopperClocks;
  }
  static int copies(const OuterRows &r) { return r.width == 16 ? 1 : r.step == 1 ? 3 : 12; }
  // As 12 gradients of 32 rows take on an H200: in proportion to the blocks from the first on, and far longer element
  // by element.
  static double rows_clocks(const OuterProduct &p) {
    const double rows = std::ceil(p.rows / 16.0) / 2, apart = copies(p.x) + copies(p.dy) - 2;
    return 1900 + rows * (22 * outer_tiles(p) + 4000 * apart);
  }
  // Rows come in steps of 32, while those before are multiplied. From three small blocks a multiprocessor on, those of
  // the next launch crowd on some.
  static double stages_clocks(const OuterProduct &p, int config) {
    const double busiest = std::ceil(outer_tiles(p) / kHopperMultiprocessors), rows = p.rows;
    const double area = real(shapes[config].filters) * shapes[config].depth;
    const double reading = rows * 4 / 60 * (shapes[config].filters * copies(p.dy) + shapes[config].depth * copies(p.x));
    const double multiplying = rows * area / (config == 0 ? 25 : 70);
    const double begin = config == 0 ? (busiest > 2 ? 2950 : 450) : 3050;
    const double waits = begin + std::ceil(rows / 32) * (450 + 50 * (copies(p.x) + copies(p.dy)));
    return waits + busiest * (std::max(multiplying, reading) + area * 4 / 30);
  }
  static OuterLauncher launcher(int32_t, int config) { return gemm::outer_f32(shapes[config]); }
};
static_assert(sizeof kNames / sizeof *kNames == sizeof Side::shapes / sizeof *Side::shapes, "every shape has a name");

} // namespace

POLYCONV_DEFINE_KERNEL(vector_weights, kNames, outer_supports<Side>, instance_of<OuterInstance<Side>>);

} // namespace polyconv::cuda
