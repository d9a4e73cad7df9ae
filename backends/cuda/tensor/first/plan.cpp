// plan.cpp - what surrounds the Hopper product with channels first: rows and geometry.
// SPDX-License-Identifier: Apache-2.0
#include "common/accepts.hpp"
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

// Whether rows of images are whole 16 bytes, as the TMA wants them.
bool has_whole_rows(const polyconv_tensor &t) {
  for (const int axis : {0, 1, 2, 3})
    if (t.size[axis] > 1 && (t.stride[axis] % 8 != 0 || t.stride[axis] < 1 || t.stride[axis] >= int64_t{1} << 37))
      return false;
  return has_neighbouring_columns(t) && t.offset % 8 == 0;
}

} // namespace

polyconv_layer in_rows(const polyconv_layer &layer) {
  polyconv_layer l = layer;
  const bool weights = l.direction == POLYCONV_BACKWARD_WEIGHTS;
  const polyconv_tensor &other = weights ? l.output : l.result;
  if (!rows_follow(l.input) || !rows_follow(other) || sdk::spatial(l.input) != sdk::spatial(other)) return l;
  join_rows(&l.input), join_rows(&l.output);
  if (!weights) join_rows(&l.result);
  return l;
}

bool takes_rows(const polyconv_layer &l, const polyconv_tensor &other, sdk::Offer &offer) {
  if (!takes_no_empty({&l.input, &l.output}, offer)) return false;
  if (sdk::taps(l) != 1)
    return offer.reject("takes windows of one element, not %lld", static_cast<long long>(sdk::taps(l)));
  if (!has_no_padding(l)) return offer.reject("takes no padding");
  for (int axis = 0; axis < 3; ++axis)
    if (l.stride[axis] != 1 && l.output.size[2 + axis] > 1)
      return offer.reject("takes stride 1, not %lld", static_cast<long long>(l.stride[axis]));
  if (!takes_channels_first(has_neighbouring_columns(l.input) && has_neighbouring_columns(other), offer,
                            "takes channels first"))
    return false;
  if (!has_whole_rows(l.input) || !has_whole_rows(other))
    return offer.reject("takes images whose rows of pixels are whole 16 bytes");
  return other.size[2] * other.size[3] == 1 || offer.reject("takes images whose rows lie one after the other");
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
