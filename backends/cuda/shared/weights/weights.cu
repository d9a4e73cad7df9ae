// weights.cu - see weights.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
#include "common/device/launch.hpp"
#include "common/ptx/grid.cuh"
#include "weights/weights.hpp"

#include <cinttypes>

namespace polyconv::cuda::shared {
namespace {

// A warp a weight adds its parts, in a fixed tree.
__global__ void __launch_bounds__(256)
    add(const __grid_constant__ Conv<int32_t> p, const float *partials, int32_t parts, int32_t count, void *w) {
  ptx::await_previous();
  const int32_t weight = static_cast<int32_t>(blockIdx.x) * 8 + static_cast<int>(threadIdx.x) / 32;
  const int32_t lane = static_cast<int>(threadIdx.x) % 32;
  if (weight >= count) return;
  float sum = 0;
  for (int32_t part = lane; part < parts; part += 32) sum += partials[int64_t{weight} * parts + part];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
  if (lane == 0) store(w, p.epilogue.result_type, p.result.at(p.weights.along_w(weight)), sum);
}

} // namespace

bool takes_windows(const polyconv_request &request, sdk::Offer &offer, bool even, bool least) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if (!is_single_or_half(type) || l.output.type != type)
    return offer.reject("takes f32, f16 and bf16, the same for input and output");
  if (!takes_2d(l, offer)) return false;
  const bool is_least = sdk::taps(l) == 1 || (l.weights.size[3] == 2 && l.weights.size[4] == 2);
  if (!(least && is_least) && !takes_odd_squares(l, even, offer)) return false;
  if (!takes_stride_2(l, offer)) return false;
  if (!takes_no_empty({&l.output}, offer)) return false;
  if (!takes_int32(l, offer)) return false;
  if (!takes_channels_first(has_neighbouring_columns(l.input) && has_neighbouring_columns(l.output), offer,
                            "copies whole rows: wants columns to be neighbours"))
    return false;
  return true;
}

bool has_vectors(const polyconv_tensor &t, const void *pointer) {
  if (t.type != POLYCONV_F32 || !aligned(pointer, 16) || t.offset % 4 != 0) return false;
  if (t.size[4] % 4 != 0 || t.stride[4] != 1) return false;
  for (const int axis : {0, 1, 3})
    if (t.size[axis] > 1 && t.stride[axis] % 4 != 0) return false;
  return true;
}

void add_parts(const Conv<int32_t> &p, const float *partials, int32_t parts, int32_t count, void *w,
               cudaStream_t stream) {
  launch_waiting(add, static_cast<unsigned>(ceil_div(count, 8)), 256, 0, stream, p, partials, parts, count, w);
}

} // namespace polyconv::cuda::shared
