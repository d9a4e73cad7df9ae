// weights.cu - see weights.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "weights/weights.hpp"

#include <cinttypes>

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

bool takes_windows(const polyconv_request &request, sdk::Offer &offer, bool even) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  const int32_t type = l.input.type;
  if ((type != POLYCONV_F32 && type != POLYCONV_F16 && type != POLYCONV_BF16) || l.output.type != type)
    return offer.reject("takes f32, f16 and bf16, the same for input and output");
  if (!is_2d(l)) return offer.reject("its planes are of two dimensions, not three");
  const int64_t n = l.weights.size[3];
  if (n != l.weights.size[4] || (n != 3 && n != 5 && n != 7 && !(even && n == 4)))
    return offer.reject("takes filters of 3x3, %s5x5 and 7x7, not %" PRId64 "x%" PRId64, even ? "4x4, " : "", n,
                        l.weights.size[4]);
  if (l.stride[1] != l.stride[2] || l.stride[1] > 2 || l.dilation[1] != 1 || l.dilation[2] != 1)
    return offer.reject("takes strides of 1 and 2 and no dilation");
  if (sdk::elements(l.output) == 0) return offer.reject("takes no empty batch");
  if (!fits_int32(l)) return offer.reject("addresses with 32 bits, and a tensor has 2^31 elements or more");
  if ((l.input.stride[4] != 1 && l.input.size[4] > 1) || (l.output.stride[4] != 1 && l.output.size[4] > 1)) {
    offer.wants_layout = 1 + POLYCONV_CHANNELS_FIRST;
    return offer.reject("copies whole rows: wants columns to be neighbours");
  }
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
  add<<<static_cast<unsigned>(ceil_div(count, 8)), 256, 0, stream>>>(p, partials, parts, count, w);
  check_launch("the sum over parts of a gradient in cuda-shared");
}

} // namespace polyconv::cuda::shared
