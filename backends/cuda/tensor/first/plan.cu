// plan.cu - what surrounds the Hopper product with channels first: rows, geometry and tensor maps.
// SPDX-License-Identifier: Apache-2.0
#include "common/device/maps.hpp"
#include "common/layer.hpp"
#include "common/numbers.hpp"
#include "first/first.hpp"

namespace polyconv::cuda::first {
namespace {

// Whether rows of an image lie one after the other.
bool rows_follow(const polyconv_tensor &t) {
  int64_t stride = t.size[4];
  for (const int axis : {3, 2}) {
    if (t.size[axis] > 1 && t.stride[axis] != stride) return false;
    stride *= t.size[axis];
  }
  return t.stride[4] == 1 || t.size[4] == 1;
}

void join_rows(polyconv_tensor *t) {
  t->size[4] *= t->size[2] * t->size[3], t->size[2] = t->size[3] = 1;
  t->stride[4] = 1;
}

} // namespace

polyconv_layer in_rows(const polyconv_layer &layer) {
  polyconv_layer l = layer;
  if (rows_follow(l.input) && rows_follow(l.result) && sdk::spatial(l.input) == sdk::spatial(l.result))
    for (polyconv_tensor *t : {&l.input, &l.output, &l.result}) join_rows(t);
  return l;
}

FirstProduct make_product(const polyconv_layer &l, const FirstShape &shape) {
  const auto parts = [](int64_t count, int64_t of) { return small(ceil_div(count, of)); };
  FirstProduct p;
  p.rows = small(l.output.size[1]), p.row_tiles = parts(p.rows, shape.rows);
  p.image_chunks = parts(l.output.size[4], kChunk);
  p.images = small(l.output.size[0]);
  p.chunks = small(int64_t{p.images} * p.image_chunks);
  p.tiles = p.row_tiles * parts(p.chunks, shape.chunks);
  p.depth_blocks = parts(l.weights.size[1], shape.depth);
  p.by_row_tiles = Divider::make(p.row_tiles), p.by_image_chunks = Divider::make(p.image_chunks);
  p.relu = l.epilogue.activation == POLYCONV_ACT_RELU ? 1 : 0;
  return p;
}

FirstMaps::FirstMaps() : tiled_(entry_point<decltype(tiled_)>("cuTensorMapEncodeTiled")) {}

void FirstMaps::pixels(const polyconv_tensor &t, const void *memory, int channels, CUtensorMap *map) const {
  constexpr int kAxes[] = {4, 1, 0};
  uint64_t size[3] = {}, stride[2] = {};
  for (int i = 0; i < 3; ++i) {
    size[i] = static_cast<uint64_t>(t.size[kAxes[i]]);
    if (i > 0) stride[i - 1] = static_cast<uint64_t>(t.stride[kAxes[i]]) * 2;
  }
  set_true_strides(2, size, 2, stride);
  const uint32_t box[3] = {kChunk, static_cast<uint32_t>(channels), 1}, steps[3] = {1, 1, 1};
  check_map(tiled_(map, t.type == POLYCONV_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
                   const_cast<void *>(memory), size, stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                   CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
            "pixels");
}

} // namespace polyconv::cuda::first
