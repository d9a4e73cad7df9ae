// bias_gradient.cu - see bias_gradient.hpp. Pixels are cut into parts, a block sums 32 channels of a part, and a second
// kernel adds the parts in order: no sum depends on timing. Of few pixels, as behind a pooled picture, one part is all.
//
// Floor: one read of every element / copy rate.
// SPDX-License-Identifier: Apache-2.0
#include "common/sums/bias_gradient.hpp"

#include "common/conv.cuh"
#include "common/instance.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kChannels = 32; // of a block
constexpr int64_t kMostParts = 512, kPartPixels = 256;

// Where pixels lie: `row` apart in an image where all are equally far apart, else by their coordinates.
struct Pixels {
  View<int64_t> t;
  int64_t count, per_image, row; // row 0: not equally far
  uint32_t small;                // per_image, where pixels are counted with 32 bits

  explicit Pixels(const polyconv_tensor &tensor)
      : t(tensor),
        count(tensor.size[0] * sdk::spatial(tensor)),
        per_image(sdk::spatial(tensor)),
        row(tensor.stride[4]) {
    small = count < INT32_MAX ? static_cast<uint32_t>(per_image) : 0;
    if (tensor.size[3] > 1 && tensor.stride[3] != row * tensor.size[4]) row = 0;
    if (tensor.size[2] > 1 && tensor.stride[2] != row * tensor.size[4] * tensor.size[3]) row = 0;
  }
  __device__ int64_t at(int64_t pixel) const {
    if (row == 0) return t.at(t.pixel_of(pixel));
    const int64_t n = small > 0 ? static_cast<uint32_t>(pixel) / small : pixel / per_image;
    return t.offset + n * t.stride[0] + (pixel - n * per_image) * row;
  }
};

// Inner: neighbouring lanes have neighbouring channels; else neighbouring pixels.
template <class T, class Sum, bool Inner>
__global__ void __launch_bounds__(kThreads, 1) sum_parts(const Pixels p, const T *values, Sum *sums) {
  __shared__ Sum shared[kWarps][kChannels];
  const int64_t channels = p.t.size[1], first = int64_t{blockIdx.x} * kChannels;
  const int64_t begin = p.count * blockIdx.y / gridDim.y, end = p.count * (blockIdx.y + 1) / gridDim.y;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Sum *const to = sums + blockIdx.y * channels;
  if constexpr (Inner) {
    Sum sum = 0;
    const int64_t c = min(first + lane, channels - 1);
#pragma unroll 4
    for (int64_t pixel = begin + warp; pixel < end; pixel += kWarps)
      sum += static_cast<Sum>(value(values[p.at(pixel) + c * p.t.stride[1]]));
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || first + lane >= channels) return;
    for (int other = 1; other < kWarps; ++other) sum += shared[other][lane];
    to[first + lane] = sum;
  } else {
    for (int64_t c = first + warp; c < min(first + kChannels, channels); c += kWarps) {
      Sum sum = 0;
#pragma unroll 4
      for (int64_t pixel = begin + lane; pixel < end; pixel += 32)
        sum += static_cast<Sum>(value(values[p.at(pixel) + c * p.t.stride[1]]));
      for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_down_sync(~0u, sum, distance);
      if (lane == 0) to[c] = sum;
    }
  }
}

template <class Sum>
__global__ void __launch_bounds__(kThreads, 1)
    add_parts(const Sum *sums, int64_t channels, int parts, void *bias, int32_t type) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (c >= channels) return;
  Sum sum = 0;
#pragma unroll 8
  for (int part = 0; part < parts; ++part) sum += sums[part * channels + c];
  store(bias, type, c, sum);
}

const polyconv_tensor &summed(const polyconv_layer &l) {
  return l.bias_over_input ? l.input : l.output;
}

int64_t parts_of(const polyconv_layer &l) {
  const int64_t pixels = summed(l).size[0] * sdk::spatial(summed(l));
  return std::clamp<int64_t>(pixels / kPartPixels, 1, kMostParts);
}

template <class T, class Sum>
void launch(const polyconv_layer &l, const polyconv_arguments &a, void *workspace, cudaStream_t stream) {
  const polyconv_tensor &t = summed(l);
  const auto *values = static_cast<const T *>(l.bias_over_input ? a.input : a.output);
  const int64_t channels = t.size[1], parts = parts_of(l);
  const bool at_once = parts == 1 && l.bias_type == (sizeof(Sum) == 8 ? POLYCONV_F64 : POLYCONV_F32);
  auto *const sums = static_cast<Sum *>(at_once ? a.bias[0] : workspace);
  const dim3 grid(blocks_for(channels, kChannels), static_cast<unsigned>(parts));
  if (t.stride[1] == 1)
    sum_parts<T, Sum, true><<<grid, kThreads, 0, stream>>>(Pixels(t), values, sums);
  else
    sum_parts<T, Sum, false><<<grid, kThreads, 0, stream>>>(Pixels(t), values, sums);
  if (!at_once)
    add_parts<Sum><<<blocks_for(channels, kThreads), kThreads, 0, stream>>>(sums, channels, static_cast<int>(parts),
                                                                            a.bias[0], l.bias_type);
  check_launch("the gradient of a bias");
}

} // namespace

int64_t bias_gradient_bytes(const polyconv_layer &l) {
  return l.epilogue.has_bias ? parts_of(l) * summed(l).size[1] * (l.sum_type == POLYCONV_F64 ? 8 : 4) : 0;
}

double bias_gradient_us(const polyconv_layer &l) {
  const double bytes = l.sum_type == POLYCONV_F64 ? 8 : summed(l).type == POLYCONV_F32 ? 4 : 2;
  return l.epilogue.has_bias ? 5 + static_cast<double>(sdk::elements(summed(l))) * bytes / 2e6 : 0;
}

void bias_gradient(const polyconv_layer &l, const polyconv_arguments &a, void *workspace, cudaStream_t stream) {
  if (!l.epilogue.has_bias) return;
  switch (summed(l).type) {
    case POLYCONV_F64: return launch<double, double>(l, a, workspace, stream);
    case POLYCONV_F32: return launch<float, float>(l, a, workspace, stream);
    case POLYCONV_F16: return launch<__half, float>(l, a, workspace, stream);
    default: return launch<__nv_bfloat16, float>(l, a, workspace, stream);
  }
}

} // namespace polyconv::cuda
