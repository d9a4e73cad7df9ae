// plan.cu - what surrounds the Hopper product with channels first: rows and geometry.
// SPDX-License-Identifier: Apache-2.0
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

} // namespace polyconv::cuda::first
