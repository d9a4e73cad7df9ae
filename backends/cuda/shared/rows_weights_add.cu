// rows_weights_add.cu - the end of rows_weights.cuh.
// SPDX-License-Identifier: Apache-2.0
#include "common/check.hpp"
#include "rows_weights.hpp"

namespace polyconv::cuda::shared {
namespace {

// A warp a weight adds its parts, in a fixed tree.
__global__ void __launch_bounds__(256)
    add(const __grid_constant__ Conv<int32_t> p, const float *partials, int32_t parts, int32_t count, void *w) {
  const int32_t weight = static_cast<int32_t>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int>(threadIdx.x) % 32;
  if (weight >= count) return;
  float sum = 0;
  for (int32_t part = lane; part < parts; part += 32) sum += partials[int64_t{weight} * parts + part];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
  if (lane == 0) store(w, p.epilogue.result_type, p.result.at(p.weights.along_w(weight)), sum);
}

} // namespace

void add_rows(const Conv<int32_t> &p, const RowsWeights &r, int32_t count, void *w, cudaStream_t stream) {
  add<<<static_cast<unsigned>((count + 7) / 8), 256, 0, stream>>>(p, r.partials, r.parts, count, w);
  check_launch("the sum over parts of cuda-shared/rows_weights");
}

} // namespace polyconv::cuda::shared
