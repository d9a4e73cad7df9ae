// plan.cu - what surrounds the Hopper product: tensor maps, packed weights, and the sum over splits.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/maps.hpp"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/numbers.hpp"
#include "common/pieces.hpp"
#include "common/ptx/hopper.cuh"
#include "common/rows.hpp"
#include "emulated/emulated.hpp"
#include "pixel_matrix.hpp"

namespace polyconv::cuda::wgmma {
namespace {

constexpr int kThreads = 256;

// Weights as rows of taps, then channels: one row an output channel. `rows`: with as many channels as a packed tap has,
// of which those from `channels` on are zeros.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pack(const View<int64_t> rows, int64_t channels, const T *raw, T *packed, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const Place<int64_t> at = rows.along_c(i);
    packed[i] = at.c < channels ? raw[rows.at(at)] : T(0);
  }
}

// Begins at the end of what is ahead of it in the stream, and a kernel that begins early begins after that.
__global__ void barrier() {}

__global__ void __launch_bounds__(kThreads, 1) add(const __grid_constant__ Product p, int64_t count) {
  ptx::let_next_begin();
  ptx::await_previous();
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  const int64_t plane = static_cast<int64_t>(p.pixels) * p.partials_row;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    const int64_t pixel = i / p.channels, channel = i - pixel * p.channels;
    const float *from = p.partials + pixel * p.partials_row + channel;
    float sum = *from;
#pragma unroll 4
    for (int split = 1; split < p.splits; ++split) sum += from[split * plane];
    Place<int64_t> at = p.conv.output.pixel_of(pixel);
    at.c = channel;
    finish_and_store(p.conv, p.result, sum, at);
  }
}

// f32 is rounded to TF32 on its way in.
CUtensorMapDataType map_type(int32_t type) {
  return type == POLYCONV_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
         : type == POLYCONV_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                 : CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
}

CUtensorMapSwizzle swizzle_of(const Shape &shape) {
  return shape.row == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;
}

} // namespace

MapEncoders::MapEncoders()
    : im2col_(entry_point<decltype(im2col_)>("cuTensorMapEncodeIm2col")),
      tiled_(entry_point<decltype(tiled_)>("cuTensorMapEncodeTiled")) {}

// Axes C W H (D) N, a map for every pair of phases. The corners bound where pixels' first taps may lie.
void MapEncoders::activations(const polyconv_layer &l, const void *input, const Shape &shape, Product *product,
                              bool exact) const {
  const auto bytes = static_cast<uint64_t>(element_bytes(l));
  const Walk *walk = product->walk;
  const CUtensorMapDataType type = exact ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : map_type(l.input.type);
  for (int which = 0; which < 4; ++which) {
    const int phase[3] = {0, which / 2, which % 2};
    if (phase[1] >= walk[1].phases || phase[2] >= walk[2].phases) continue;
    uint64_t size[5] = {static_cast<uint64_t>(l.input.size[1])}, stride[4] = {};
    int lower[3] = {}, upper[3] = {};
    uint32_t steps[5] = {1, 1, 1, 1, 1}, rank = 1;
    int64_t begin = 0;
    for (int axis = 2; axis >= (product->flat ? 1 : 0); --axis, ++rank) {
      const int64_t elements = (l.input.size[2 + axis] - phase[axis] + walk[axis].phases - 1) / walk[axis].phases;
      size[rank] = static_cast<uint64_t>(elements);
      stride[rank - 1] = static_cast<uint64_t>(l.input.stride[2 + axis] * walk[axis].phases) * bytes;
      steps[rank] = static_cast<uint32_t>(walk[axis].step);
      lower[rank - 1] = walk[axis].first[phase[axis]];
      upper[rank - 1] =
          static_cast<int>((l.output.size[2 + axis] - 1) * walk[axis].step + lower[rank - 1] - (elements - 1));
      begin += phase[axis] * l.input.stride[2 + axis];
    }
    size[rank] = static_cast<uint64_t>(l.input.size[0]);
    stride[rank - 1] = static_cast<uint64_t>(l.input.stride[0]) * bytes;
    set_true_strides(bytes, size, rank, stride);
    auto *from = const_cast<char *>(static_cast<const char *>(input)) + begin * static_cast<int64_t>(bytes);
    check_map(im2col_(&product->activations[which], type, rank + 1, from, size, stride, lower, upper,
                      static_cast<uint32_t>(shape.row) / static_cast<uint32_t>(bytes),
                      static_cast<uint32_t>(shape.pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(shape),
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
              "activations");
  }
}

// Axes C, taps, K: channels beyond the last are zeros, not the next tap's.
void MapEncoders::weights(const polyconv_layer &l, const void *packed, const Shape &shape, CUtensorMap *map) const {
  const auto bytes = static_cast<uint64_t>(element_bytes(l)), channels = static_cast<uint64_t>(packed_channels(l));
  const auto taps = static_cast<uint64_t>(sdk::taps(l));
  const uint64_t size[3] = {channels, taps, static_cast<uint64_t>(l.weights.size[0])};
  const uint64_t stride[2] = {channels * bytes, channels * taps * bytes};
  const uint32_t box[3] = {static_cast<uint32_t>(shape.row) / static_cast<uint32_t>(bytes), 1,
                           static_cast<uint32_t>(shape.channels)};
  const uint32_t steps[3] = {1, 1, 1};
  check_map(tiled_(map, map_type(l.weights.type), 3, const_cast<void *>(packed), size, stride, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(shape), CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "weights");
}

void MapEncoders::weights(const polyconv_layer &l, const void *packed, const Shape &shape, Product *product) const {
  weights(l, packed, shape, &product->weights);
  Shape last = shape;
  const int64_t filters = l.weights.size[0], before = (ceil_div(filters, shape.channels) - 1) * shape.channels;
  last.channels = small(ceil_div(filters - before, 8) * 8); // a result's last 16 bytes may have zeros in them
  product->missing = shape.channels - last.channels;
  if (product->missing > 0) weights(l, packed, last, &product->last_weights);
}

// Axes C in whole blocks of depth, taps, K, parts.
void MapEncoders::parts(const polyconv_layer &l, const void *packed, const Shape &shape, CUtensorMap *map) const {
  const auto filters = static_cast<uint64_t>(l.weights.size[0]), taps = static_cast<uint64_t>(sdk::taps(l));
  const uint64_t row = static_cast<uint64_t>(parts_bytes(l)) / (3 * filters * taps); // bytes
  const uint64_t size[4] = {row / 2, taps, filters, 3}, stride[3] = {row, row * taps, row * taps * filters};
  const uint32_t box[4] = {32, 1, static_cast<uint32_t>(shape.channels), 3}, steps[4] = {1, 1, 1, 1};
  check_map(tiled_(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<void *>(packed), size, stride, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "weights");
}

// Axes C W H N.
void MapEncoders::patches(const polyconv_tensor &t, const void *memory, int columns, int rows, CUtensorMap *map) const {
  const auto size_of = [&](int axis) { return static_cast<uint64_t>(t.size[axis]); };
  const uint64_t size[4] = {size_of(1), size_of(4), size_of(3), size_of(0)};
  uint64_t stride[3] = {};
  for (int i = 0; i < 3; ++i) stride[i] = static_cast<uint64_t>(t.stride[i == 0 ? 4 : i == 1 ? 3 : 0]) * 2;
  set_true_strides(2, size, 3, stride);
  const uint32_t box[4] = {64, static_cast<uint32_t>(columns), static_cast<uint32_t>(rows), 1}, steps[4] = {1, 1, 1, 1};
  check_map(tiled_(map, map_type(t.type), 4, const_cast<void *>(memory), size, stride, box, steps,
                   CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                   CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "patches");
}

// Axes K, pixels.
void MapEncoders::results(const polyconv_layer &l, const void *result, const Shape &shape, CUtensorMap *map) const {
  const auto bytes = static_cast<int>(element_bytes(l));
  const int channels = shape.turned ? 128 / bytes : box_channels(shape.channels, bytes);
  const int pixels = shape.turned ? turned_pass_pixels(shape.pixels, bytes) : 16;
  const uint64_t size[2] = {static_cast<uint64_t>(l.result.size[1]),
                            static_cast<uint64_t>(l.result.size[0] * sdk::spatial(l.result))};
  const uint64_t stride[1] = {static_cast<uint64_t>(row_of(l.result) * bytes)};
  const uint32_t box[2] = {static_cast<uint32_t>(channels), static_cast<uint32_t>(pixels)}, steps[2] = {1, 1};
  check_map(tiled_(map, bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : map_type(l.result.type), 2,
                   const_cast<void *>(result), size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   channels * bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "results");
}

// Axes C W H (D) N.
void MapEncoders::columns(const polyconv_layer &l, const void *result, const Shape &shape, bool flat,
                          CUtensorMap *map) const {
  const polyconv_tensor &t = l.result;
  const auto bytes = element_bytes(l);
  const int channels =
      shape.turned ? 128 / static_cast<int>(bytes) : box_channels(shape.channels, static_cast<int>(bytes));
  const int pixels = shape.turned ? turned_pass_pixels(shape.pixels, static_cast<int>(bytes)) : 16;
  uint64_t size[5] = {static_cast<uint64_t>(t.size[1])}, stride[4] = {};
  const uint32_t steps[5] = {1, 1, 1, 1, 1};
  const int corners[3] = {};
  uint32_t rank = 1;
  for (const int axis : {4, 3, 2, 0}) {
    if (axis == 2 && flat) continue;
    size[rank] = static_cast<uint64_t>(t.size[axis]);
    stride[rank - 1] = static_cast<uint64_t>(t.stride[axis] * bytes);
    ++rank;
  }
  set_true_strides(static_cast<uint64_t>(bytes), size, rank - 1, stride);
  check_map(
      im2col_(map, map_type(l.result.type), rank, const_cast<void *>(result), size, stride, corners, corners,
              static_cast<uint32_t>(channels), static_cast<uint32_t>(pixels), steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
              channels * bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "results");
}

int64_t upper_corner(const polyconv_layer &l, int axis) {
  return (l.output.size[2 + axis] - 1) * l.stride[axis] - l.pad_begin[axis] - (l.input.size[2 + axis] - 1);
}

Walk walk_of(const polyconv_layer &l, int axis) {
  const int64_t stride = l.stride[axis];
  Walk w = {small(l.dilation[axis]), small(l.pad_begin[axis]), 1, small(stride), {small(-l.pad_begin[axis]), 0}};
  if (stride != 2 || !is_flat(l) || l.input.size[2 + axis] < 2) return w;
  w.phases = 2, w.step = 1;
  bool seen[2] = {};
  for (int32_t tap = 0; tap < l.weights.size[2 + axis]; ++tap) { // the first of a phase is its least
    const int32_t element = tap * w.dilation - w.pad, phase = element & 1;
    if (!seen[phase]) w.first[phase] = element >> 1;
    seen[phase] = true;
  }
  return w;
}

int64_t element_bytes(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F32 ? 4 : 2;
}

Shape shape_of(const polyconv_layer &l, int which) {
  Shape shape = kShapes[which];
  shape.channels = tile_channels(shape.channels, shape.row, shape.parts, element_bytes(l));
  return shape;
}

bool is_flat(const polyconv_layer &l) {
  return l.input.size[2] == 1 && l.weights.size[2] == 1 && l.output.size[2] == 1 && l.pad_begin[0] == 0;
}

int64_t partials_row(const polyconv_layer &l) {
  return (l.output.size[1] + 3) / 4 * 4;
}

bool has_whole_vectors(const polyconv_tensor &t) {
  return in_pieces(t, 8, 0);
}

const char *packed_format(const polyconv_layer &l) {
  return l.input.type == POLYCONV_F16    ? "cuda_krsc_f16:1"
         : l.input.type == POLYCONV_BF16 ? "cuda_krsc_bf16:1"
                                         : "cuda_krsc_f32:1";
}

bool leaves_plainly(const polyconv_layer &l) {
  return is_matrix(l.result, l.input.type) && bias_and_relu_at_most(l); // so pairs of channels are whole
}

bool leaves_in_pairs(polyconv_layer l) {
  if (l.epilogue.residual_from != POLYCONV_RESIDUAL_NONE && !is_matrix(l.residual, l.input.type)) return false;
  l.epilogue.residual_from = POLYCONV_RESIDUAL_NONE;
  if (l.epilogue.activation == POLYCONV_ACT_CLIPPED_RELU) l.epilogue.activation = POLYCONV_ACT_RELU;
  return leaves_plainly(l);
}

int64_t packed_channels(const polyconv_layer &l) {
  const int64_t vector = 16 / element_bytes(l);
  return ceil_div(l.weights.size[1], vector) * vector;
}

int64_t packed_bytes(const polyconv_layer &l) {
  return l.weights.size[0] * sdk::taps(l) * packed_channels(l) * element_bytes(l);
}

void pack_weights(const polyconv_layer &l, const void *raw, void *packed, cudaStream_t stream) {
  polyconv_tensor rows = l.weights;
  rows.size[1] = packed_channels(l);
  const int64_t count = sdk::elements(rows);
  if (count == 0) return;
  const auto launch = [&](auto element) {
    using T = decltype(element);
    pack<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        View<int64_t>(rows), l.weights.size[1], static_cast<const T *>(raw), static_cast<T *>(packed), count);
    barrier<<<1, 1, 0, stream>>>(); // products fetch weights before they wait for the kernel ahead of them
  };
  if (element_bytes(l) == 2)
    launch(uint16_t{});
  else
    launch(uint32_t{});
  check_launch("cuda-tensor's packing");
}

Product make_product(const polyconv_layer &l, const polyconv_arguments &a, const Shape &shape, int splits) {
  const auto parts = [&](int64_t count, int64_t of) { return small(ceil_div(count, of)); };
  Product p = {{}, {}, {}, {}, Conv<int64_t>(l, a)};
  p.result = a.output;
  p.pixels = small(l.output.size[0] * sdk::spatial(l.output));
  p.channels = small(l.output.size[1]);
  p.tap_blocks = parts(l.weights.size[1], shape.row / element_bytes(l));
  p.group_channels = small(l.weights.size[1]);
  p.last_steps = small(last_steps(l, shape.row));
  p.depth_blocks = p.tap_blocks * small(sdk::taps(l));
  p.splits = splits;
  p.partials_row = small(partials_row(l));
  p.partials = splits > 1 && !shape.shared ? static_cast<float *>(a.workspace) : nullptr;
  for (int axis = 0; axis < 3; ++axis) {
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.out[axis] = small(l.output.size[2 + axis]);
    p.walk[axis] = walk_of(l, axis);
  }
  p.flat = is_flat(l) ? 1 : 0;
  p.pixel_tiles = parts(p.pixels, shape.pixels);
  p.channel_tiles = parts(p.channels, shape.channels);
  p.by_pixel_tiles = Divider::make(p.pixel_tiles), p.by_channel_tiles = Divider::make(p.channel_tiles);
  p.by_splits = Divider::make(splits), p.by_tap_blocks = Divider::make(p.tap_blocks);
  p.by_group = Divider::make(small(std::max<int64_t>(1, l.weights.size[0] / l.groups)));
  for (int axis = 0; axis < 3; ++axis)
    p.by_taps[axis] = Divider::make(p.taps[axis]), p.by_out[axis] = Divider::make(p.out[axis]);
  // What is larger is best asked for by blocks that run at the same time; inputs that lie in memory cost most.
  p.pixels_next = 2 * sdk::elements(l.weights) >= sdk::elements(l.input);
  const bool matrix = is_matrix(l.result, l.input.type) && aligned(a.output, 16);
  p.boxes = matrix && splits == 1;
  p.plain = matrix && p.partials == nullptr && leaves_in_pairs(l) && aligned(p.conv.epilogue.bias, 8) &&
            aligned(p.conv.epilogue.residual, 8);
  p.result_begin = l.result.offset, p.result_row = row_of(l.result), p.residual_row = row_of(l.residual);
  return p;
}

void add_partials(const Product &p, cudaStream_t stream) {
  const int64_t count = static_cast<int64_t>(p.pixels) * p.channels;
  launch_early(add, blocks_for(count, kThreads), kThreads, 0, stream, p, count);
}

} // namespace polyconv::cuda::wgmma
