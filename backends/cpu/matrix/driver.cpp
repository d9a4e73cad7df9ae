// driver.cpp - offers and runs the matrix kernel. Compiled for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/matrix/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/aligned.hpp"
#include "cpu/common/count.hpp"
#include "cpu/common/parts.hpp"
#include "cpu/kernels.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>
#include <vector>

namespace polyconv::cpu {

#if POLYCONV_HAVE_AMX || defined(POLYCONV_SOFT_TILES)
namespace POLYCONV_TILES_ISA {
void matrix_task(const MatrixPlan &plan, const LayerRun &arguments, const GridShare &share);
}
using POLYCONV_TILES_ISA::matrix_task;
#else
constexpr MatrixTaskFunction matrix_task = nullptr;
#endif

namespace {

constexpr int64_t kStripLimit = 4 << 20;
constexpr int64_t kFewChannels = 8; // of a group: below, tiles are nearly empty

MatrixProducts products_of(const polyconv_layer &layer, bool three) {
  if (layer.sum_type == POLYCONV_S32) return MatrixProducts::kIntegers;
  if (layer.input.type == POLYCONV_BF16) return MatrixProducts::kBf16;
  if (layer.input.type == POLYCONV_F16) return MatrixProducts::kF16;
  return three ? MatrixProducts::kThree : MatrixProducts::kSix;
}

// Type and math mode.
bool takes_products(const polyconv_request &request, bool three, sdk::Offer &offer) {
  const polyconv_layer &layer = *request.layers[0];
  const int32_t type = layer.input.type;
  if (layer.sum_type == POLYCONV_F64 || layer.weights.type == POLYCONV_F64)
    return offer.reject("multiplies bf16 and 8-bit integers; f64 is no sum of few of them");
  if (layer.sum_type == POLYCONV_F32 && layer.weights.type != type)
    return offer.reject("takes input and weights of one type; pixels of integers by f32 weights are not built");
  if (type != POLYCONV_F32 && three) return offer.reject("three products are for f32");
  if (type == POLYCONV_F32) {
    const int32_t math = three ? POLYCONV_MATH_FAST : POLYCONV_MATH_FP32_EMULATED;
    if (request.policy->math < math)
      return offer.reject("multiplies f32 in parts of bf16: only under math %s or freer",
                          three ? "fast" : "fp32_emulated");
    offer.math = math;
  }
  const int32_t zero = layer.weights_zero_point;
  if (zero != 0 && !(layer.weights.type == POLYCONV_U8 && zero == 128))
    return offer.reject("takes weights whose zero point is 0, or 128 of u8; it is %d", zero);
  return true;
}

// Everything the packed bytes depend on beside the weight problem.
void set_format(const MatrixPlan &p, sdk::Offer &offer) {
  static const char *const kProducts[] = {"bf16", "f16", "three", "six", "integers"};
  set_weights(offer, p.groups * p.group_bytes, "cpu_matrix_%s%s:2", kProducts[static_cast<int>(p.products)],
              p.joined > 1 ? "_joined"
              : p.merged   ? "_merged"
              : p.gathered ? "_gathered"
                           : "");
}

class MatrixInstance final : public sdk::Instance {
 public:
  MatrixInstance(const polyconv_request &request, MatrixProducts products)
      : layer_(*request.layers[0]), plan_(matrix_geometry(layer_, *request.policy, products)) {
    axes_ = make_axis_tables(layer_, plan_.axis);
    taps_ = matrix_taps(plan_);
    plan_.taps = taps_.data();
    if (tasks_of(plan_.grid) > 1) parallel_ = sdk::make_parallel(*request.policy);
  }

  void pack(int, const void *raw, void *packed, void *) override { matrix_pack(plan_, layer_, parallel_, raw, packed); }

  void run(const polyconv_arguments &arguments, void *) const override {
    const LayerRun run =
        layer_run(plan_.epilogue, arguments, plan_.stream && aligned(arguments.output, kMatrixRowBytes));
    run_grid(parallel_, plan_.grid, arguments.workspace, plan_.scratch_bytes, [&](GridShare share) {
      if (plan_.flat)
        share.first_unit = positions_before(share.first_unit), share.last_unit = positions_before(share.last_unit);
      task_(plan_, run, share);
    });
  }

 private:
  // Flat units are kMatrixPositions of an image, but for its last.
  int64_t positions_before(int64_t unit) const {
    const int64_t of_image = ceil_div(plan_.columns, kMatrixPositions);
    return of_image == 0 ? 0 : unit / of_image * plan_.columns + unit % of_image * kMatrixPositions;
  }

  polyconv_layer layer_;
  MatrixPlan plan_;
  const MatrixTaskFunction task_ = matrix_task;
  std::vector<int64_t> axes_, taps_; // what plan_ points into
  std::unique_ptr<sdk::Parallel> parallel_;
};

bool matrix_offer(const polyconv_request &request, bool three, sdk::Offer &offer) {
  if (!takes_strips(request, POLYCONV_FORWARD, offer)) return false;
  const polyconv_layer &layer = *request.layers[0];
  if (!takes_no_pooling(layer, offer)) return false;
  if (!takes_products(request, three, offer)) return false;
  const MatrixPlan p = matrix_geometry(layer, *request.policy, products_of(layer, three));
  if (p.groups > 1 && (p.group_in < kFewChannels || p.group_out < kFewChannels))
    return offer.reject("takes groups of %" PRId64 " channels in and out at least, not %" PRId64 " and %" PRId64,
                        kFewChannels, p.group_in, p.group_out);
  if (p.strip_bytes > kStripLimit)
    return offer.reject("needs %" PRId64 " bytes for the lines that its taps read; the caches hold %" PRId64,
                        p.strip_bytes, kStripLimit);
  if (!fits_workspace(request, tasks_of(p.grid), p.scratch_bytes, offer)) return false;
  offer.estimate_us = p.estimate_us;
  set_format(p, offer);
  return true;
}

constexpr const char *kConfigs[] = {"amx", "amx_three"};

bool has_tiles(sdk::Offer &offer) {
#if defined(POLYCONV_SOFT_TILES)
  return (void)offer, true;
#elif POLYCONV_HAVE_AMX
  return has_isa(kAmx, offer);
#else
  return offer.reject("the compiler of this build knows no AMX");
#endif
}

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  const bool fast = request.policy->math == POLYCONV_MATH_FAST && request.layers[0]->input.type == POLYCONV_F32;
  offer.config = config >= 0 ? config : fast ? 1 : 0;
  return has_tiles(offer) && matrix_offer(request, offer.config == 1, offer);
}

std::unique_ptr<sdk::Instance> create(const polyconv_request &request, int32_t config) {
  return std::make_unique<MatrixInstance>(request, products_of(*request.layers[0], config == 1));
}

} // namespace

const sdk::Kernel kernel_matrix = {"matrix", 0, kConfigs, 2, supports, create, sdk::kActivationTraits};

} // namespace polyconv::cpu
