// small_weights.cu - the gradients of weights and bias of layers with few weights, whose gradient a block holds whole:
// a block takes an image, or some rows of one, into shared memory, and a thread adds up 8 filters of one column (an
// input channel of a tap; the bias is a column of ones) over the pixels. What the blocks found is added in a fixed
// order by a second launch. No atomics.
//
// Floor: one read of both tensors, and 2 N K P Q (C R S + 1) at the FMA rate. A pixel costs a thread three loads from
// shared memory, two of them the same for the whole warp, and 8 multiply-adds: expect a third of that rate where the
// columns fill the block, and the time of two launches for networks on pictures of 28 x 28.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "blocks.hpp"
#include "common/conv.cuh"
#include "common/host.hpp"
#include "common/rows.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kFilters = 8;            // of a thread
constexpr int kThreads = 512;          // of a block
constexpr int kMostSlots = 4;          // columns of a thread, one after the other
constexpr int kMostBlocks = 264;       // a constant, so that sums do not depend on the device
constexpr int kSharedBytes = 48 << 10; // what every device lends without being asked

// The geometry. A unit is 8 filters of one column.
struct Small {
  int32_t tiles;                       // of 8 filters
  int32_t columns, bias;               // channels * taps; 1 where the bias comes after them
  int32_t units, slots, parts;         // units of all; of a thread; threads that share the pixels of a unit
  int32_t rows, chunks, items, blocks; // output rows of a chunk; chunks of an image; of all
  int32_t plane_rows, plane_pitch;     // of the input, with its padding

  int32_t pixels(int32_t width) const { return rows * width; }
};

int32_t shared_floats(const Small &s, int32_t width, int32_t channels) {
  const int32_t planes = s.pixels(width) * s.tiles * kFilters + channels * s.plane_rows * s.plane_pitch + 1;
  const int32_t sums = s.parts > 1 ? s.parts * s.units * kFilters : 0;
  return std::max(planes, sums);
}

// ---------------------------------------------------------------- kernels

// The gradient of the output, pixel by pixel with its filters side by side; zeros for filters that are not there.
template <class T>
__device__ void load_output(const Conv<int32_t> &p, const Small &s, const T *y, int32_t n, int32_t row, int32_t pixels,
                            float *to) {
  const int32_t width = p.output.size[4], filters = s.tiles * kFilters;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < pixels * filters; i += kThreads) {
    const int32_t pixel = i % pixels, k = i / pixels;
    const bool inside = k < p.output.size[1];
    to[pixel * filters + k] = inside ? value(y[p.output.at(n, k, 0, row + pixel / width, pixel % width)]) : 0.0f;
  }
}

// The planes of the input that these rows read, their padding filled in.
template <class T>
__device__ void load_input(const Conv<int32_t> &p, const Small &s, const T *x, int32_t n, int32_t row, float *to) {
  const int32_t plane = s.plane_rows * s.plane_pitch;
  const float padding = p.padding<float>();
  const auto inside = [&](int axis, int32_t at) {
    const int32_t size = p.input.size[2 + axis];
    return at >= 0 && at < size ? at : static_cast<int32_t>(sdk::padded_index(at, size, p.pad_mode));
  };
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < p.input.size[1] * plane; i += kThreads) {
    const int32_t h = inside(1, row * p.stride[1] - p.pad[1] + i % plane / s.plane_pitch);
    const int32_t w = inside(2, i % s.plane_pitch - p.pad[2]);
    to[i] = h >= 0 && w >= 0 ? value(x[p.input.at(n, i / plane, 0, h, w)]) : padding;
  }
}

// Where a unit reads the input plane, and how it walks.
struct Column {
  int32_t first, row_step, step;

  __device__ Column(const Conv<int32_t> &p, const Small &s, int32_t unit) {
    const int32_t column = unit % (s.columns + s.bias), taps = p.weights.size[3] * p.weights.size[4];
    if (column == s.columns) { // the bias
      first = p.input.size[1] * s.plane_rows * s.plane_pitch;
      row_step = step = 0;
      return;
    }
    const int32_t r = column % taps / p.weights.size[4], t = column % p.weights.size[4];
    first = (column / taps * s.plane_rows + r * p.dilation[1]) * s.plane_pitch + t * p.dilation[2];
    row_step = p.stride[1] * s.plane_pitch;
    step = p.stride[2];
  }
};

// Adds a unit's products over the pixels part, part + parts, ...
__device__ void add_products(const Small &s, int32_t width, int32_t pixels, const Column &column, int32_t part,
                             const float *x, const float4 *y, float (&sum)[kFilters]) {
  const int32_t vectors = s.tiles * (kFilters / 4);
  int32_t line = part / width, q = part % width;
#pragma unroll 4
  for (int32_t pixel = part; pixel < pixels; pixel += s.parts) {
    const float v = x[column.first + line * column.row_step + q * column.step];
    const float4 a = y[pixel * vectors], b = y[pixel * vectors + 1];
    sum[0] += v * a.x, sum[1] += v * a.y, sum[2] += v * a.z, sum[3] += v * a.w;
    sum[4] += v * b.x, sum[5] += v * b.y, sum[6] += v * b.z, sum[7] += v * b.w;
    for (q += s.parts; q >= width; q -= width) ++line;
  }
}

template <class A, class B, int Slots>
__global__ void __launch_bounds__(kThreads, 1)
    small_weights(const Conv<int32_t> p, const Small s, const A *x, const B *y, float *partial) {
  extern __shared__ float4 memory[];
  float *const outputs = reinterpret_cast<float *>(memory), *const sums = outputs;
  const int32_t width = p.output.size[4], filters = s.tiles * kFilters;
  float *const inputs = outputs + s.rows * width * filters;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t part = Slots == 1 ? thread / s.units : 0, mine = Slots == 1 ? thread % s.units : thread;
  float sum[Slots][kFilters] = {};
  for (int32_t item = static_cast<int32_t>(blockIdx.x); item < s.items; item += s.blocks) {
    __syncthreads(); // the planes before have been read
    const int32_t n = item / s.chunks, row = item % s.chunks * s.rows;
    const int32_t pixels = min(s.rows, p.output.size[3] - row) * width; // fewer in the last chunk
    load_output(p, s, y, n, row, pixels, outputs);
    load_input(p, s, x, n, row, inputs);
    if (thread == 0) inputs[p.input.size[1] * s.plane_rows * s.plane_pitch] = 1;
    __syncthreads();
#pragma unroll
    for (int slot = 0; slot < Slots; ++slot) {
      const int32_t unit = mine + slot * kThreads;
      if (unit >= s.units || part >= s.parts) continue;
      const int32_t tile = unit / (s.columns + s.bias);
      add_products(s, width, pixels, Column(p, s, unit), part, inputs, memory + tile * (kFilters / 4), sum[slot]);
    }
  }
  float *const to = partial + static_cast<int64_t>(blockIdx.x) * s.units * kFilters;
  if (s.parts == 1) {
#pragma unroll
    for (int slot = 0; slot < Slots; ++slot)
      for (int k = 0; k < kFilters && part == 0 && mine + slot * kThreads < s.units; ++k)
        to[(mine + slot * kThreads) * kFilters + k] = sum[slot][k];
    return;
  }
  __syncthreads();
  for (int k = 0; k < kFilters && part < s.parts; ++k) sums[(part * s.units + mine) * kFilters + k] = sum[0][k];
  __syncthreads();
  for (int32_t i = thread; i < s.units * kFilters; i += kThreads) {
    float total = 0;
    for (int32_t other = 0; other < s.parts; ++other) total += sums[other * s.units * kFilters + i];
    to[i] = total;
  }
}

constexpr int kLines = 16; // threads that share the blocks' sums of an element

// Adds the blocks' sums, and stores them where they belong.
__global__ void __launch_bounds__(32 * kLines)
    add_partial(const Conv<int32_t> p, const Small s, const float *partial, void *weights, void *bias) {
  __shared__ float sums[kLines][33];
  const auto lane = static_cast<int32_t>(threadIdx.x), line = static_cast<int32_t>(threadIdx.y);
  const int32_t i = static_cast<int32_t>(blockIdx.x) * 32 + lane, all = s.units * kFilters;
  float sum = 0;
  for (int32_t block = line; block < s.blocks && i < all; block += kLines)
    sum += partial[static_cast<int64_t>(block) * all + i];
  sums[line][lane] = sum;
  __syncthreads();
  if (line != 0 || i >= all) return;
  for (int other = 1; other < kLines; ++other) sum += sums[other][lane];
  const int32_t unit = i / kFilters, column = unit % (s.columns + s.bias), taps = p.weights.size[3] * p.weights.size[4];
  const int32_t k = unit / (s.columns + s.bias) * kFilters + i % kFilters;
  if (k >= p.weights.size[0]) return;
  if (column == s.columns)
    static_cast<float *>(bias)[k] = sum;
  else
    store(weights, p.epilogue.result_type,
          p.weights.at(k, column / taps, 0, column % taps / p.weights.size[4], column % p.weights.size[4]), sum);
}

// ---------------------------------------------------------------- plan

// False where a block has no room for the sums of all columns, or for one row of pixels.
bool make_small(const polyconv_layer &l, Small *small_layer) {
  Small &s = *small_layer;
  s.tiles = small(ceil_div(l.weights.size[0], kFilters));
  s.bias = l.epilogue.has_bias != 0;
  const int64_t columns = l.weights.size[1] * sdk::taps(l), units = s.tiles * (columns + s.bias);
  if (units > kMostSlots * kThreads) return false;
  s.columns = small(columns), s.units = small(units);
  s.slots = small(ceil_div(units, kThreads));
  const int64_t width = l.output.size[4], height = l.output.size[3];
  const int64_t pitch = (width - 1) * l.stride[2] + (l.weights.size[4] - 1) * l.dilation[2] + 1;
  for (int64_t chunks = 1; chunks <= height; ++chunks) {
    const int64_t rows = small(ceil_div(height, chunks));
    const int64_t plane_rows = (rows - 1) * l.stride[1] + (l.weights.size[3] - 1) * l.dilation[1] + 1;
    const int64_t floats = rows * width * s.tiles * kFilters + l.weights.size[1] * plane_rows * pitch + 1;
    if (floats * 4 > kSharedBytes) continue;
    s.rows = small(rows), s.chunks = small(ceil_div(height, rows));
    s.plane_rows = small(plane_rows), s.plane_pitch = small(pitch);
    s.parts = small(std::min<int64_t>(s.slots > 1 ? 1 : kThreads / units, rows * width));
    while (s.parts > 1 && s.parts * units * kFilters * 4 > kSharedBytes) --s.parts;
    s.items = small(l.output.size[0] * s.chunks);
    s.blocks = std::min(s.items, kMostBlocks);
    return true;
  }
  return false;
}

// Two launches, what goes from one to the other, and the slowest multiprocessor's items: each loads its planes, of
// which those of the input take longer to find, then issues. 8 % off on average of 46 layers of the census and of
// LeNets, f32 and f16 in both layouts, batches of 1 to 100, on an H200; 25 % at worst.
double estimate(const polyconv_layer &l, const Small &s) {
  const double waves = std::ceil(real(s.items) / std::min(s.blocks, kHopperMultiprocessors));
  const double inputs = real(l.weights.size[1]) * s.plane_rows * s.plane_pitch / kThreads;
  const double pixels = real(s.rows) * real(l.output.size[4]), outputs = pixels * s.tiles * kFilters / kThreads;
  const double partial = 4.0 * s.blocks * s.units * kFilters; // bytes
  return 4.2 + waves * (0.5 + inputs * 0.72 + outputs * 0.34 + pixels / s.parts * s.slots * 0.049) + partial / 0.83e6;
}

bool fits(const polyconv_layer &l, sdk::Offer &offer) {
  if (!takes_one_group(l, offer)) return false;
  if (!takes_2d(l, offer)) return false;
  if (l.sum_type != POLYCONV_F32) return offer.reject("takes f32, f16 and bf16");
  if (l.bias_over_input && l.epilogue.has_bias) return offer.reject("sums the bias over outputs, not over inputs");
  if (!takes_int32(l, offer)) return false;
  if (sdk::elements(l.output) == 0) return offer.reject("needs an image");
  return true;
}

class SmallWeights final : public CudaInstance {
 public:
  explicit SmallWeights(const polyconv_request &request) : CudaInstance(request) { make_small(layer_, &small_); }

 private:
  template <class A, class B, int Slots>
  void launch_as(const polyconv_arguments &a, cudaStream_t stream) const {
    const Conv<int32_t> p(layer_, a);
    const int32_t bytes = 4 * shared_floats(small_, p.output.size[4], p.input.size[1]);
    small_weights<A, B, Slots><<<small_.blocks, kThreads, bytes, stream>>>(p, small_, static_cast<const A *>(a.input),
                                                                           static_cast<const B *>(a.output),
                                                                           static_cast<float *>(a.workspace));
    check_launch("cuda-direct/small_weights");
    const dim3 threads(32, kLines);
    add_partial<<<small(ceil_div(int64_t{small_.units} * kFilters, 32)), threads, 0, stream>>>(
        p, small_, static_cast<const float *>(a.workspace), a.weights[0], a.bias[0]);
    check_launch("cuda-direct/small_weights (sums)");
  }

  void launch(const polyconv_arguments &a, cudaStream_t stream) const override {
    dispatch_gradients(layer_.input.type, layer_.output.type, [&](auto row) {
      using A = typename decltype(row)::A;
      using B = typename decltype(row)::B;
      if constexpr (!std::is_same_v<A, double>) {
        if (small_.slots == 1)
          launch_as<A, B, 1>(a, stream);
        else
          launch_as<A, B, kMostSlots>(a, stream);
      }
    });
  }

  Small small_ = {};
};

bool supports(const polyconv_request &request, int32_t, sdk::Offer &offer) {
  if (!sdk::convolves_once(request, POLYCONV_BACKWARD_WEIGHTS, offer)) return false;
  const polyconv_layer &l = *request.layers[0];
  if (!fits(l, offer)) return false;
  Small s = {};
  if (!make_small(l, &s))
    return offer.reject("holds the sums of 8 filters of %d columns, and a row of pixels in 48 KiB",
                        kMostSlots * kThreads);
  offer.workspace_bytes = int64_t{s.blocks} * s.units * kFilters * 4;
  offer.estimate_us = estimate(l, s);
  return true;
}

constexpr const char *kNames[] = {"512"};

} // namespace

POLYCONV_DEFINE_KERNEL(small_weights, kNames, supports, instance_of<SmallWeights>);

} // namespace polyconv::cuda
