// plan.hpp - a chain of layers as stages that run by rows. Driver side only.
//
// A stage is a convolution with its epilogue, or a pooling. The last stage makes a band of result rows at a time; every
// stage before it makes the rows that the next one needs for them, and keeps those that will be needed again. So each
// row of a strip of bands is made once and consumed from the cache, and no layer's whole result ever exists. Only where
// two tasks' strips meet are rows made twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/common/rows.hpp"

namespace polyconv::cpu {

constexpr int64_t kColumns = 16; // of the longest vector: where columns of stages begin
constexpr int kMostStages = 2 * POLYCONV_MAX_CHAIN;

enum : int32_t { kNoStage = -1, kChainInput = -2, kCallersBuffer = -3 }; // where no stage's rows are the residual

struct ChainStage {
  polyconv_layer layer;    // one image of it, with tensors of `most` rows and those that they read
  int32_t op, index;       // POLYCONV_OP_*, and the layer of the chain
  int32_t residual;        // the stage whose rows are added to this one's, or none
  Axis rows, columns;      // H and W of the whole layer
  const RowFamily *family; // NULL for a pooling
  int64_t most, wide;      // rows that it makes at once, at most, and columns
  float highest;           // of 8 or 16 bits whose rows are kept as the f32 numbers that they stand for; else 0
  // Between two stages: rows kept at a time, bytes of a row of a plane, planes, and where they begin in a task's
  // workspace. Nothing of the last stage, which writes the chain's result.
  int64_t kept, row_bytes, planes, at;
};

struct ChainPlan {
  ChainStage stages[kMostStages];
  int32_t count;                     // of stages
  int64_t images, rows, band, bands; // result rows of an image and of a band; bands of an image
  int64_t width, strips;             // result columns that are made at a time; strips of an image
  bool from_memory, to_memory;       // input and result exceed the caches
  int64_t tasks;
  int64_t scratch_at, task_bytes; // of a task's workspace: rows between stages, then the stages' scratch
  double estimate_us;
};

// From the first to the last coordinate of its input that one result reads.
inline int64_t reach_of(const Axis &axis) {
  return (axis.taps - 1) * axis.dilation + 1;
}

// The coordinates [begin, end) of its input that results [first, last) of an axis read, which needs the axis' tables.
// Padding with a value reads none.
struct Span {
  int64_t begin, end;
};
Span read_by(const Axis &axis, int64_t first, int64_t last);

} // namespace polyconv::cpu
