// route.hpp - the detours on which a kernel can take a layer that it rejects as it is: pooling as a step of its
// own, tensors that lie unusually copied first, and tensors converted to a layout that it wants. Pure functions of a
// layer, so that a candidate need only remember which detour it takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/backend.h>

namespace polyconv {

struct Detour {
  bool split_pooling = false;
  bool gather = false; // what is read and has traits of memory (problem/traits.hpp) is copied to dense tensors
  int32_t layout = -1; // POLYCONV_CHANNELS_* to convert to; -1: as they are
  bool any() const { return split_pooling || gather || layout >= 0; }
};

enum { // the tensors of a layer that a detour may convert
  kMoveInput = 0,
  kMoveOutput = 1,
  kMoveResidual = 2,
  kMoveSaved = 3,
  kMoves = 4
};

// One conversion: `request` is what POLYCONV_OP_CONVERT asks (request.input -> request.result).
struct Move {
  bool needed = false;
  bool before = false; // of a tensor that is read; else of one that is written
  polyconv_layer request;
};

// What a layer becomes on a detour.
struct Route {
  polyconv_layer main;
  bool pools = false;
  polyconv_layer pool; // what POLYCONV_OP_POOL asks: pool.input is main.result
  Move moves[kMoves];
};

// False where the detour leads nowhere: no pooling to split, nothing to gather, or tensors that lie in that layout
// already.
bool make_route(const polyconv_layer &layer, const Detour &detour, Route *route);

// The tensor that a direction writes, before pooling: output or input (weights for BACKWARD_WEIGHTS).
inline const polyconv_tensor &written(const polyconv_layer &layer) {
  return layer.direction == POLYCONV_FORWARD         ? layer.output
         : layer.direction == POLYCONV_BACKWARD_DATA ? layer.input
                                                     : layer.weights;
}
inline polyconv_tensor &written(polyconv_layer &layer) {
  return const_cast<polyconv_tensor &>(written(static_cast<const polyconv_layer &>(layer)));
}

// The tensor that comes from the layer before: input, or output for BACKWARD_DATA.
inline const polyconv_tensor &read(const polyconv_layer &layer) {
  return layer.direction == POLYCONV_BACKWARD_DATA ? layer.output : layer.input;
}

// The same layer with another batch.
void set_batch(polyconv_layer *layer, int64_t batch);

} // namespace polyconv
