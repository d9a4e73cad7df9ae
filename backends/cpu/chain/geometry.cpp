// geometry.cpp - plans a chain by rows: the kernel of each stage, the height of bands, tasks and the estimate. Compiled
// for the baseline CPU.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/chain/driver.hpp"

#include "cpu/common/accepts.hpp"
#include "cpu/common/caches.hpp"
#include "cpu/common/count.hpp"
#include "cpu/dense/driver.hpp"
#include "cpu/depthwise/driver.hpp"
#include "cpu/depthwise/turned_driver.hpp"
#include "cpu/direct/driver.hpp"
#include "cpu/kernels.hpp"
#include "cpu/plane/driver.hpp"

#include <polyconv/sdk/parallel.hpp>
#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cinttypes>

namespace polyconv::cpu {
namespace {

using namespace sdk;

constexpr int64_t kStripColumns = 4096, kWideColumns = 6144; // of planes, where these are so wide: kept rows stay near
constexpr double kPlanesInCache = 0.8;                       // of the estimate for planes, which waits for memory too
constexpr double kCallUs = 0.15;                             // of a stage for a band, however few rows
constexpr double kMoveBytesPerUs = 40e3;                     // rows that are kept move to the front of their buffer

double plane_us(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  return kPlanesInCache * plane_geometry(layer, policy, isa, false).serial_us;
}
double depthwise_us(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  const polyconv_layer *one = &layer;
  polyconv_request request{};
  request.op = POLYCONV_OP_CONVOLVE, request.count = 1, request.layers = &one, request.policy = &policy;
  if (ring_pays(request, isa)) return ring_geometry(layer, policy, isa).serial_us;
  if (channels_side_by_side(layer)) return depthwise_geometry(layer, policy, isa).serial_us;
  return turned_pays(request, isa) ? turned_geometry(layer, policy, isa).serial_us : plane_us(layer, policy, isa);
}
double dense_us(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  return dense_geometry(layer, policy, isa).serial_us;
}
double direct_us(const polyconv_layer &layer, const polyconv_policy &policy, Isa isa) {
  return direct_geometry(layer, policy, isa).serial_us;
}

// In order of preference between equals; the last takes every layer that any takes.
constexpr RowFamily kFamilies[] = {{&kernel_image, plane_us, true},
                                   {&kernel_depthwise, depthwise_us, true},
                                   {&kernel_dense, dense_us, false},
                                   {&kernel_direct, direct_us, false}};

// One stage as a request of its own, of one thread.
struct StageRequest {
  const polyconv_layer *layer;
  polyconv_policy policy;
  polyconv_request request;

  StageRequest(const polyconv_request &chain, const ChainStage &stage)
      : layer(&stage.layer), policy(*chain.policy), request(chain) {
    policy.threads = 1;
    policy.parallel_for = nullptr;
    policy.workspace_limit = INT64_MAX;
    request.op = stage.op;
    request.count = 1;
    request.layers = &layer;
    request.policy = &policy;
  }
};

const Kernel &kernel_of(const ChainStage &stage) {
  return stage.family ? *stage.family->kernel : kernel_pool;
}

// Asks the stage's kernel about its band.
bool ask(const polyconv_request &chain, const ChainStage &stage, Isa isa, Offer &answer) {
  const StageRequest one(chain, stage);
  answer = {};
  answer.set_weights(0, POLYCONV_FORMAT_RAW, 0);
  return kernel_of(stage).supports(one.request, isa, answer);
}

// Without vertical padding, which a band as low as its kernel would seem to be made of.
double serial_us(const polyconv_request &chain, const ChainStage &stage, Isa isa) {
  const StageRequest one(chain, stage);
  polyconv_layer band = stage.layer;
  band.pad_begin[1] = band.pad_end[1] = 0;
  if (stage.family) return stage.family->serial_us(band, one.policy, isa);
  Offer answer;
  ask(chain, stage, isa, answer);
  return answer.estimate_us;
}

// The kernel that would take least time alone.
bool choose_kernel(const polyconv_request &chain, ChainStage &stage, Isa isa, Offer &offer) {
  if (stage.op == POLYCONV_OP_POOL) return true;
  Offer answer;
  const RowFamily *best = nullptr;
  double least = 0;
  for (const RowFamily &family : kFamilies) {
    stage.family = &family;
    if (!ask(chain, stage, isa, answer)) continue;
    if (!best || answer.estimate_us < least) best = &family, least = answer.estimate_us;
  }
  stage.family = best;
  return best ||
         offer.reject("layer %d: no kernel takes it by rows; %s %s", stage.index, kernel_direct.name, answer.reason);
}

// Results of 8 and 16 bits that the next filter would make numbers of again are kept as these, rounded and held to
// their type's range.
void keep_numbers(ChainPlan &plan) {
  const auto filters = [](const ChainStage &s) { return s.family && s.family->kernel == &kernel_image; };
  for (int32_t i = 0; i + 1 < plan.count; ++i) {
    ChainStage &s = plan.stages[i];
    const polyconv_epilogue &e = s.layer.epilogue;
    const bool apart = s.layer.result.size[kC] == 1 || s.layer.result.stride[kC] != 1;
    bool kept = filters(s) && filters(plan.stages[i + 1]) && apart && make_epilogue(s.layer).quick &&
                e.out_scale == 1 && e.out_zero_point == 0;
    for (int32_t later = i + 1; later < plan.count; ++later) kept = kept && plan.stages[later].residual != i;
    if (!kept) continue;
    if (s.layer.result.type == POLYCONV_U8) s.highest = 255;
    if (s.layer.result.type == POLYCONV_U16) s.highest = 65535;
  }
}

// Bytes of rows that a band keeps between its stages.
int64_t kept_bytes(const ChainPlan &plan) {
  return plan.scratch_at;
}

// Microseconds of one task for its bands, all but the first of which find rows that were kept.
double task_us(const polyconv_request &chain, const ChainPlan &plan, Isa isa, double bands) {
  double us = 0;
  double steady = real(plan.band); // rows of a band that were not kept
  for (int32_t i = plan.count - 1; i >= 0; --i) {
    const ChainStage &s = plan.stages[i];
    const double most = real(s.most), rows = std::min(steady, most);
    us += serial_us(chain, s, isa) / most * (rows * (bands - 1) + most) + kCallUs * bands;
    if (i + 1 < plan.count) us += (most - rows) * real(s.row_bytes * s.planes) / kMoveBytesPerUs * bands;
    steady = rows * real(s.rows.step);
  }
  return us;
}

// The band that makes the slowest task fastest.
bool choose_band(const polyconv_request &request, Isa isa, ChainPlan &plan, Offer &offer) {
  constexpr int64_t kBands[] = {1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128};
  const int64_t all = plan.stages[plan.count - 1].columns.out;
  const int64_t width = takes_columns(plan) && all >= kWideColumns ? kStripColumns : all;
  set_band(plan, 1, width);
  const int64_t allowed = shared_memory_limit(*request.policy);
  if (kept_bytes(plan) > allowed)
    return offer.reject("needs at least %" PRId64 " bytes of rows between layers a thread, %" PRId64 " may be used",
                        kept_bytes(plan), allowed);
  if (kept_bytes(plan) > kChainMostBytes)
    return offer.reject("needs at least %" PRId64 " bytes of rows between layers a thread; more than %" PRId64
                        " leave the cache before they are read",
                        kept_bytes(plan), kChainMostBytes);
  int64_t best = 1;
  double least = 0;
  const auto consider = [&](int64_t band) {
    set_band(plan, band, width);
    if (band > 1 && kept_bytes(plan) > std::min(kChainRowBytes, allowed)) return false;
    const int64_t total = bands_of(plan);
    const double us =
        task_us(request, plan, isa, real(ceil_div(total, std::min<int64_t>(total, request.policy->threads))));
    if (least == 0 || us < least) best = band, least = us;
    return true;
  };
  bool fits = true;
  for (const int64_t band : kBands) fits = fits && (band >= plan.rows || consider(band));
  if (fits) consider(plan.rows);
  set_band(plan, best, width);
  return true;
}

// Bytes of the chain's input or result, which have `rows` rows an image.
int64_t whole_bytes(const ChainPlan &plan, const polyconv_tensor &t, int64_t rows) {
  return plan.images * t.size[kC] * rows * t.size[kW] * type_bytes(t.type);
}

// Rows that tasks make again where their strips meet inside an image: what the first band of a strip makes more than
// others.
int64_t recomputed_outputs(const ChainPlan &plan) {
  int64_t borders = 0, outputs = 0;
  for (int64_t task = 1; task < plan.tasks; ++task)
    borders += share(bands_of(plan), plan.tasks, task).begin % plan.bands != 0;
  int64_t steady = plan.band;
  for (int32_t i = plan.count - 1; i >= 0; --i) {
    const ChainStage &s = plan.stages[i];
    outputs += std::max<int64_t>(s.most - steady, 0) * s.layer.result.size[kC] * s.wide;
    steady *= s.rows.step;
  }
  return borders * outputs;
}

// For explain: the figures of a chain's offer, and the kernels that it is made of.
void tell_how(const ChainPlan &plan, Offer &offer) {
  offer.recomputed_outputs = recomputed_outputs(plan);
  offer.blocks = plan.tasks;
  offer.threads = static_cast<int32_t>(plan.tasks);
  offer.shared_bytes = kept_bytes(plan);
  int at = std::snprintf(offer.note, sizeof offer.note, "bands of %" PRId64 " x %" PRId64 ":", plan.band, plan.width);
  for (int32_t i = 0; i < plan.count && at < static_cast<int>(sizeof offer.note); ++i)
    at += std::snprintf(offer.note + at, sizeof offer.note - static_cast<size_t>(at), "%s %s", i > 0 ? "," : "",
                        kernel_of(plan.stages[i]).name);
}

// Weights, workspace and the estimate of a plan whose bands are chosen.
bool fill_offer(const polyconv_request &request, Isa isa, ChainPlan &plan, Offer &offer) {
  int64_t scratch = 0, weights = 0;
  for (int32_t i = 0; i < plan.count; ++i) {
    const ChainStage &stage = plan.stages[i];
    Offer answer;
    if (!ask(request, stage, isa, answer)) return offer.reject("layer %d: %s", stage.index, answer.reason);
    scratch = std::max(scratch, answer.workspace_bytes);
    if (stage.op != POLYCONV_OP_CONVOLVE) continue;
    offer.set_weights(stage.index, answer.weights_format[0], answer.weights_bytes[0]);
    weights += answer.weights_bytes[0];
  }
  const int64_t total = bands_of(plan);
  const double serial = task_us(request, plan, isa, real(total));
  plan.tasks = std::min(tasks_for(*request.policy, serial), total);
  plan.task_bytes = round_up(plan.scratch_at + scratch, 64);
  const double us = task_us(request, plan, isa, real(ceil_div(total, plan.tasks)));
  const int64_t read = whole_bytes(plan, plan.stages[0].layer.input, plan.stages[0].rows.in);
  const int64_t written = whole_bytes(plan, plan.stages[plan.count - 1].layer.result, plan.rows);
  plan.from_memory = read >= kChainMemoryBytes;
  plan.to_memory = written >= kStreamPlanesBytes;
  plan.estimate_us = estimate_us(plan.tasks, us * real(plan.tasks), real(read + written + weights));
  offer.estimate_us = plan.estimate_us;
  tell_how(plan, offer);
  return fits_workspace(request, plan.tasks, plan.task_bytes, offer);
}

} // namespace

std::unique_ptr<RowInstance> stage_create(const polyconv_request &chain, const ChainStage &stage, Isa isa) {
  const StageRequest one(chain, stage);
  std::unique_ptr<Instance> made = kernel_of(stage).create(one.request, isa);
  if (!dynamic_cast<RowInstance *>(made.get()))
    throw Error(POLYCONV_INTERNAL, std::string(kernel_of(stage).name) + " does not go by rows");
  return std::unique_ptr<RowInstance>(static_cast<RowInstance *>(made.release()));
}

bool chain_plan(const polyconv_request &request, Isa isa, ChainPlan &plan, Offer &offer) {
  if (request.op != POLYCONV_OP_CONVOLVE || request.count < 2)
    return offer.reject("fuses the layers of a chain; this is a single one");
  offer.math = POLYCONV_MATH_STRICT;
  if (!chain_stages(request, plan, offer)) return false;
  set_band(plan, plan.rows, plan.stages[plan.count - 1].columns.out);
  for (int32_t i = 0; i < plan.count; ++i)
    if (!choose_kernel(request, plan.stages[i], isa, offer)) return false;
  keep_numbers(plan);
  return choose_band(request, isa, plan, offer) && fill_offer(request, isa, plan, offer);
}

} // namespace polyconv::cpu
