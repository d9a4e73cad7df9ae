// pool.cu - maximum and average pooling of a stored tensor, then quantisation: the step after a kernel that does not
// pool itself. f32, f64 or s32 in, any result; argmax saved on request. One thread a result.
//
// Floor: one read of the input and one write of the result. Overlapping windows read an element again, mostly from L1.
// SPDX-License-Identifier: Apache-2.0
#include "common/kernel.hpp"
#include "per_result.cuh"

namespace polyconv::cuda {
namespace {

using direct::kMaxThreads;

template <class Stored, class T, class Index>
__global__ void __launch_bounds__(kMaxThreads, 1) pool(const Conv<Index> p, const Stored *x, void *y, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    pool_and_put<T>(p, y, p.result_place(i), p.input,
                    [&](const Place<Index> &inner) { return static_cast<T>(x[p.input.at(inner)]); });
}

// ---------------------------------------------------------------- plan and run

struct PoolingStep {
  static constexpr const char *name = "cuda-direct/pool";

  template <class Body>
  static void by_type(int32_t type, const Body &body) {
    switch (type) {
      case POLYCONV_F64: return body(double{}, double{});
      case POLYCONV_S32: return body(int32_t{}, float{});
      default: return body(float{}, float{});
    }
  }
  template <class Stored, class T, class Index>
  static void launch(const direct::Grid &grid, const Conv<Index> &p, const Stored *x, void *y, int64_t count) {
    pool<Stored, T, Index><<<grid.blocks, grid.threads, 0, grid.stream>>>(p, x, y, count);
  }
};

bool supports(const polyconv_request &request, int32_t config, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_POOL) return offer.reject("only pools");
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (type != POLYCONV_F32 && type != POLYCONV_F64 && type != POLYCONV_S32)
    return offer.reject("pools f32, f64 or s32 values");
  direct::choose_block(config, sdk::elements(l.result), offer);
  const double bytes = 4.0 * static_cast<double>(sdk::elements(l.input) + sdk::elements(l.result));
  offer.estimate_us = 3 + bytes / 2.5e6;
  return true;
}

} // namespace

POLYCONV_DEFINE_KERNEL(pool, direct::kBlockNames, supports, direct::create_per_result<PoolingStep>);

} // namespace polyconv::cuda
