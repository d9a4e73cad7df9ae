// route.cpp - takes a layer apart along a detour.
// SPDX-License-Identifier: Apache-2.0
#include "select/route.hpp"

#include "problem/shape.hpp"
#include "problem/traits.hpp"

#include <algorithm>
#include <iterator>

namespace polyconv {
namespace {

bool same_strides(const polyconv_tensor &a, const polyconv_tensor &b) {
  if (a.offset != b.offset) return false;
  for (int axis = 0; axis < kAxes; ++axis)
    if (a.size[axis] > 1 && a.stride[axis] != b.stride[axis]) return false; // a size of 1 has no stride to speak of
  return true;
}

polyconv_tensor dense(polyconv_tensor tensor, int32_t layout) {
  tensor.offset = 0;
  dense_strides(tensor.size, layout, tensor.stride); // sizes that validation has multiplied before
  return tensor;
}

bool has_residual(const polyconv_layer &layer) {
  return layer.epilogue.residual_from != POLYCONV_RESIDUAL_NONE;
}

// A layer that does nothing yet: the frame of the POOL and CONVERT requests.
polyconv_layer plain_layer(const polyconv_layer &like) {
  polyconv_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.direction = POLYCONV_FORWARD;
  layer.groups = 1;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis)
    layer.stride[axis] = layer.dilation[axis] = layer.pool_dilation[axis] = 1;
  layer.bias_type = like.bias_type;
  layer.sum_type = like.sum_type;
  layer.epilogue.residual_scale = 1;
  layer.epilogue.out_scale = 1;
  return layer;
}

// Splits the pooling off: what is left writes the activated values, unrounded, and the pool step does the rest of the
// epilogue. With pooling an s8/u8 row has left the integers, so between the two lies f32 (f64 in the f64 row).
void split_pooling(const polyconv_layer &layer, Route *route) {
  polyconv_layer &main = route->main;
  polyconv_tensor &between = written(main);
  between.type = layer.sum_type == POLYCONV_F64 ? POLYCONV_F64 : POLYCONV_F32;
  main.result = between;
  main.epilogue.pool = {};
  main.epilogue.out_scale = 1;
  main.epilogue.out_zero_point = 0;
  for (int axis = 0; axis < POLYCONV_MAX_SPATIAL; ++axis) {
    main.pool_dilation[axis] = 1;
    main.pool_overhang[axis] = 0;
  }

  polyconv_layer &pool = route->pool;
  pool = plain_layer(layer);
  pool.result = layer.result;
  pool.epilogue.pool = layer.epilogue.pool;
  pool.epilogue.out_scale = layer.epilogue.out_scale;
  pool.epilogue.out_zero_point = layer.epilogue.out_zero_point;
  std::copy(std::begin(layer.pool_dilation), std::end(layer.pool_dilation), pool.pool_dilation);
  std::copy(std::begin(layer.pool_overhang), std::end(layer.pool_overhang), pool.pool_overhang);
  if (layer.save == POLYCONV_SAVE_ARGMAX) {
    pool.save = layer.save;
    pool.saved = layer.saved;
    main.save = POLYCONV_SAVE_NONE;
    main.saved = {};
  }
  route->pools = true;
}

// Makes *tensor dense in `layout`, and notes the conversion that this takes; nothing where it lies so already.
void move(polyconv_tensor *tensor, int32_t layout, bool before, const polyconv_layer &like, Move *move) {
  const polyconv_tensor there = dense(*tensor, layout);
  if (same_strides(*tensor, there)) return;
  move->needed = true;
  move->before = before;
  move->request = plain_layer(like);
  move->request.input = before ? *tensor : there;
  move->request.result = before ? there : *tensor;
  move->request.output = move->request.result;
  *tensor = there;
}

// The layout in which copies of unusual tensors go best with the rest of the layer.
int32_t usual_layout(const polyconv_layer &layer) {
  const polyconv_tensor *tensors[] = {&layer.result, &layer.input, &layer.output};
  for (const polyconv_tensor *tensor : tensors)
    if (tensor != &layer.result || layer.direction != POLYCONV_BACKWARD_WEIGHTS)
      if (memory_traits_of(*tensor) == 0 && tensor->size[1] > 1)
        return tensor->stride[1] == 1 ? POLYCONV_CHANNELS_LAST : POLYCONV_CHANNELS_FIRST;
  return POLYCONV_CHANNELS_FIRST;
}

bool gather_tensors(Route *route) {
  polyconv_layer &main = route->main;
  const polyconv_layer like = main;
  const int32_t layout = usual_layout(main);
  const auto gather = [&](polyconv_tensor *tensor, int role) {
    if (memory_traits_of(*tensor) != 0) move(tensor, layout, true, like, &route->moves[role]);
  };
  if (main.direction != POLYCONV_BACKWARD_DATA) gather(&main.input, kMoveInput);
  if (main.direction != POLYCONV_FORWARD) gather(&main.output, kMoveOutput);
  if (has_residual(main)) gather(&main.residual, kMoveResidual);
  return std::any_of(std::begin(route->moves), std::end(route->moves), [](const Move &one) { return one.needed; });
}

bool convert_tensors(int32_t layout, Route *route) {
  polyconv_layer &main = route->main;
  const polyconv_layer like = main;
  const bool forward = main.direction == POLYCONV_FORWARD, backward_data = main.direction == POLYCONV_BACKWARD_DATA;
  const bool fused_pooling = main.epilogue.pool.kind != POLYCONV_POOL_NONE;
  if (!backward_data) move(&main.input, layout, true, like, &route->moves[kMoveInput]);
  if (!forward) move(&main.output, layout, true, like, &route->moves[kMoveOutput]);
  if (has_residual(main)) move(&main.residual, layout, true, like, &route->moves[kMoveResidual]);
  if (main.save != POLYCONV_SAVE_NONE) move(&main.saved, layout, false, like, &route->moves[kMoveSaved]);
  bool changed = false;
  if (forward || backward_data) {
    Move ignored; // a pool step reads any strides
    move(&main.result, layout, false, like,
         route->pools ? &ignored : &route->moves[forward ? kMoveOutput : kMoveInput]);
    changed = ignored.needed;
    written(main) = fused_pooling ? dense(written(main), layout) : main.result;
  }
  for (const Move &one : route->moves) changed = changed || one.needed;
  return changed;
}

} // namespace

bool make_route(const polyconv_layer &layer, const Detour &detour, Route *route) {
  route->main = layer;
  if (detour.split_pooling) {
    if (layer.epilogue.pool.kind == POLYCONV_POOL_NONE) return false;
    split_pooling(layer, route);
  }
  if (detour.gather && detour.layout < 0 && !gather_tensors(route)) return false; // a layout gathers everything
  if (detour.layout >= 0 && !convert_tensors(detour.layout, route)) return false;
  if (route->pools) {
    route->pool.input = route->pool.output = route->main.result;
    set_traits(POLYCONV_OP_POOL, &route->pool);
  }
  set_traits(POLYCONV_OP_CONVOLVE, &route->main);
  for (Move &one : route->moves)
    if (one.needed) set_traits(POLYCONV_OP_CONVERT, &one.request);
  return true;
}

void set_batch(polyconv_layer *layer, int64_t batch) {
  layer->input.size[0] = layer->output.size[0] = batch;
  if (layer->direction != POLYCONV_BACKWARD_WEIGHTS) layer->result.size[0] = batch;
  if (layer->epilogue.residual_from != POLYCONV_RESIDUAL_NONE) layer->residual.size[0] = batch;
  if (layer->save != POLYCONV_SAVE_NONE) layer->saved.size[0] = batch;
}

} // namespace polyconv
