// wgmma_weights_plan.cu - what surrounds the gradient of weights on Hopper: its geometry, and the sum over pieces.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "common/values.cuh"
#include "wgmma_weights.hpp"

namespace polyconv::cuda::wgmma {
namespace {

// Where a tile's values go: four of a thread, in two rows.
struct Leave {
  View<int64_t> weights;
  void *result;
  int32_t type, rows, chunks, tap_chunks, row_tiles, taps_h, taps_w;
  WeightsShape shape;

  // Values 4 i and on of a piece (store_piece).
  __device__ void store(int32_t tile, int32_t i, const float4 &v) const {
    const int32_t threads = 128 * shape.row_groups * shape.chunk_groups, thread = i % threads, quad = i / threads;
    const int32_t columns = 64 * shape.chunks / shape.chunk_groups, quads = columns / 8, product = quad / quads;
    const int32_t group = thread / 128, products = shape.rows / (64 * shape.row_groups);
    const int32_t tile_row = tile % row_tiles * shape.rows, tile_column = tile / row_tiles * shape.chunks * 64;
    const int32_t row =
        tile_row + (group % shape.row_groups * products + product) * 64 + thread % 128 / 32 * 16 + thread % 32 / 4;
    const int32_t column = tile_column + group / shape.row_groups * columns + quad % quads * 8 + thread % 4 * 2;
    put(row, column, v.x), put(row, column + 1, v.y);
    put(row + 8, column, v.z), put(row + 8, column + 1, v.w);
  }
  __device__ void put(int32_t row, int32_t column, float v) const {
    const int32_t chunk = column / 64, tap = chunk / tap_chunks, line = tap / taps_w;
    const int64_t c = (chunk - tap * tap_chunks) * 64 + column % 64;
    if (row < rows && chunk < chunks && c < weights.size[1])
      cuda::store(result, type, weights.at(row, c, line / taps_h, line % taps_h, tap - line * taps_w), v);
  }
};

} // namespace

PixelMapEncoder find_pixel_encoder() {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult how;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &found, 12000, cudaEnableDefault, &how),
        "looking for the driver's maps");
  if (how != cudaDriverEntryPointSuccess)
    throw sdk::Error(POLYCONV_UNAVAILABLE, "CUDA: the driver has no cuTensorMapEncodeIm2col");
  return reinterpret_cast<PixelMapEncoder>(found);
}

// Axes C W H (D) N. The corners bound where pixels' first taps may lie: from minus the padding to the last output's.
void encode_pixels(PixelMapEncoder encoder, const polyconv_layer &l, bool gradients, const void *from, int depth,
                   CUtensorMap *map) {
  const polyconv_tensor &t = gradients ? l.output : l.input;
  uint64_t size[5] = {static_cast<uint64_t>(t.size[1])}, stride[4] = {};
  int lower[3] = {}, upper[3] = {};
  uint32_t steps[5] = {1, 1, 1, 1, 1}, rank = 1;
  for (int axis = 2; axis >= (is_flat(l) ? 1 : 0); --axis, ++rank) {
    size[rank] = static_cast<uint64_t>(t.size[2 + axis]);
    stride[rank - 1] = static_cast<uint64_t>(t.stride[2 + axis]) * 2;
    if (gradients) continue;
    steps[rank] = static_cast<uint32_t>(l.stride[axis]);
    lower[rank - 1] = static_cast<int>(-l.pad_begin[axis]);
    upper[rank - 1] =
        static_cast<int>((l.output.size[2 + axis] - 1) * l.stride[axis] - l.pad_begin[axis] - (t.size[2 + axis] - 1));
  }
  size[rank] = static_cast<uint64_t>(t.size[0]);
  stride[rank - 1] = static_cast<uint64_t>(t.stride[0]) * 2;
  for (uint32_t i = 0; i < rank; ++i) // an axis of one element may have any stride, but a map wants a true one
    if (size[i + 1] == 1) stride[i] = std::max<uint64_t>(i == 0 ? size[0] * 2 : stride[i - 1] * size[i], 16);
  const CUresult result =
      encoder(map, t.type == POLYCONV_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
              rank + 1, const_cast<void *>(from), size, stride, lower, upper, 64, static_cast<uint32_t>(depth), steps,
              CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw sdk::Error(POLYCONV_DEVICE_ERROR, "CUDA: no tensor map of pixels: error " + std::to_string(result));
}

WeightsProduct make_weights_product(const polyconv_layer &l, const WeightsShape &shape) {
  const auto small = [](int64_t v) { return static_cast<int32_t>(v); };
  const auto parts = [](int32_t count, int32_t of) { return (count + of - 1) / of; };
  WeightsProduct p = {{}, {}, View<int64_t>(l.weights)};
  p.result_type = l.result.type;
  p.rows = small(l.weights.size[0]);
  p.tap_chunks = parts(small(l.weights.size[1]), 64);
  p.chunks = p.tap_chunks * small(sdk::taps(l));
  p.row_tiles = parts(p.rows, shape.rows);
  p.shares = make_shares(int64_t{p.row_tiles} * parts(p.chunks, shape.chunks),
                         parts(small(l.output.size[0] * sdk::spatial(l.output)), shape.depth), kWorkers);
  for (int axis = 0; axis < 3; ++axis) {
    p.taps[axis] = small(l.weights.size[2 + axis]);
    p.out[axis] = small(l.output.size[2 + axis]);
    p.stride[axis] = small(l.stride[axis]);
    p.dilation[axis] = small(l.dilation[axis]);
    p.pad[axis] = small(l.pad_begin[axis]);
  }
  p.flat = is_flat(l) ? 1 : 0;
  return p;
}

int64_t pieces_bytes(const WeightsProduct &p, const WeightsShape &shape) {
  return int64_t{kWorkers} * p.shares.most * shape.rows * shape.chunks * 64 * 4;
}

void add_pieces(const WeightsProduct &p, const WeightsShape &shape, cudaStream_t stream) {
  const Leave leave = {p.weights,    p.result,    p.result_type, p.rows,    p.chunks,
                       p.tap_chunks, p.row_tiles, p.taps[1],     p.taps[2], shape};
  launch_add_pieces(p.shares, p.pieces, shape.rows * shape.chunks * 16, leave, stream);
}

} // namespace polyconv::cuda::wgmma
