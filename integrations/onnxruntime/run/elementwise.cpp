// elementwise.cpp - blocks of a few thousand elements go through all stages in the first cache.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/elementwise.hpp"

#include <algorithm>

// Of a loop whose passes read and write nothing of each other's, though pointers may be equal.
#ifdef __clang__
#define POLYCONV_EACH_BY_ITSELF _Pragma("clang loop vectorize(assume_safety)")
#else
#define POLYCONV_EACH_BY_ITSELF _Pragma("GCC ivdep")
#endif

namespace polyconv_ort {
namespace {

constexpr int64_t kBlock = 4096, kBlocksATask = 8; // elements; blocks

struct Rows { // of a block: where the first begins, and how far the next one is from it
  const float *data;
  int64_t stride;
};

// `to` may be `from` or `with`: element i is read before it is written.
template <class F>
void each(const Rows &from, float *to, int64_t to_stride, int64_t rows, int64_t columns, F f) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *a = from.data + r * from.stride;
    float *y = to + r * to_stride;
    POLYCONV_EACH_BY_ITSELF
    for (int64_t i = 0; i < columns; ++i) y[i] = f(a[i]);
  }
}

template <class F>
void each_with(const Rows &from, const Rows &with, bool with_columns, float *to, int64_t to_stride, int64_t rows,
               int64_t columns, F f) {
  for (int64_t r = 0; r < rows; ++r) {
    const float *a = from.data + r * from.stride, *b = with.data + r * with.stride;
    float *y = to + r * to_stride;
    if (with_columns) {
      POLYCONV_EACH_BY_ITSELF
      for (int64_t i = 0; i < columns; ++i) y[i] = f(a[i], b[i]);
    } else {
      const float one = *b;
      POLYCONV_EACH_BY_ITSELF
      for (int64_t i = 0; i < columns; ++i) y[i] = f(a[i], one);
    }
  }
}

void apply(const Loop::Step &step, const Rows &from, const Rows &with, bool columns_differ, float *to,
           int64_t to_stride, int64_t rows, int64_t columns) {
  const float alpha = step.alpha, beta = step.beta;
  auto one = [&](auto kind) {
    each(from, to, to_stride, rows, columns, [=](float a) { return stepped(kind(), alpha, beta, a, 0); });
  };
  auto two = [&](auto kind) {
    each_with(from, with, columns_differ, to, to_stride, rows, columns,
              [=](float a, float b) { return stepped(kind(), alpha, beta, a, b); });
  };
  switch (step.kind) { // each loop knows its step
    case StepKind::kSum: return two([] { return StepKind::kSum; });
    case StepKind::kDifference: return two([] { return StepKind::kDifference; });
    case StepKind::kProduct: return two([] { return StepKind::kProduct; });
    case StepKind::kQuotient: return two([] { return StepKind::kQuotient; });
    case StepKind::kClamp: return one([] { return StepKind::kClamp; });
    case StepKind::kHardSigmoid: return one([] { return StepKind::kHardSigmoid; });
    case StepKind::kHardSwish: return one([] { return StepKind::kHardSwish; });
    case StepKind::kLeakyRelu: return one([] { return StepKind::kLeakyRelu; });
  }
}

} // namespace

void Loop::merge() {
  int kept = 0;
  for (int axis = 0; axis < axes; ++axis) {
    if (sizes[axis] == 1) continue;
    const bool behind = kept > 0 && std::all_of(operands.begin(), operands.end(), [&](const Operand &operand) {
                          return operand.strides[kept - 1] == operand.strides[axis] * sizes[axis];
                        });
    if (!behind) ++kept;
    sizes[kept - 1] = behind ? sizes[kept - 1] * sizes[axis] : sizes[axis];
    for (Operand &operand : operands) operand.strides[kept - 1] = operand.strides[axis];
  }
  axes = kept;
  while (axes < 2) { // axes of 1 before the others
    for (int axis = axes; axis > 0; --axis) {
      sizes[axis] = sizes[axis - 1];
      for (Operand &operand : operands) operand.strides[axis] = operand.strides[axis - 1];
    }
    sizes[0] = 1, ++axes;
    for (Operand &operand : operands) operand.strides[0] = 0;
  }
}

int64_t Loop::column_blocks() const {
  return (sizes[axes - 1] + kBlock - 1) / kBlock;
}

int64_t Loop::block_rows() const {
  return std::max<int64_t>(1, kBlock / std::min(kBlock, sizes[axes - 1]));
}

int64_t Loop::row_blocks() const {
  return (sizes[axes - 2] + block_rows() - 1) / block_rows();
}

int64_t Loop::blocks() const {
  int64_t count = row_blocks() * column_blocks();
  for (int axis = 0; axis < axes - 2; ++axis) count *= sizes[axis];
  return count;
}

int64_t Loop::tasks() const {
  return (blocks() + kBlocksATask - 1) / kBlocksATask;
}

void Loop::run_task(int64_t task) const {
  const int64_t end = std::min(blocks(), (task + 1) * kBlocksATask);
  for (int64_t block = task * kBlocksATask; block < end; ++block) run_block(block);
}

void Loop::run_block(int64_t block) const {
  const int64_t all_columns = sizes[axes - 1], all_rows = sizes[axes - 2];
  const int64_t column = block % column_blocks() * kBlock;
  block /= column_blocks();
  const int64_t row = block % row_blocks() * block_rows();
  block /= row_blocks();
  const int64_t columns = std::min(kBlock, all_columns - column), rows = std::min(block_rows(), all_rows - row);
  int64_t outer[kMostAxes] = {};
  float *to = static_cast<float *>(result) + (block * all_rows + row) * all_columns + column;
  for (int axis = axes - 3; axis >= 0; --axis) outer[axis] = block % sizes[axis], block /= sizes[axis];
  auto rows_of = [&](const Operand &operand) {
    const float *data =
        static_cast<const float *>(operand.data) + row * operand.strides[axes - 2] + column * operand.strides[axes - 1];
    for (int axis = 0; axis < axes - 2; ++axis) data += outer[axis] * operand.strides[axis];
    return Rows{data, operand.strides[axes - 2]};
  };
  float between[kBlock];
  Rows from = rows_of(operands[0]);
  if (operands[0].strides[axes - 1] == 0) { // one number a row
    for (int64_t r = 0; r < rows; ++r) std::fill_n(between + r * columns, columns, from.data[r * from.stride]);
    from = {between, columns};
  }
  for (size_t s = 0; s < steps.size(); ++s) {
    const bool done = s + 1 == steps.size(); // what is read may lie where the result goes: nothing else writes there
    const Operand &with = operands[static_cast<size_t>(std::max(0, steps[s].operand))];
    apply(steps[s], from, rows_of(with), with.strides[axes - 1] != 0, done ? to : between, done ? all_columns : columns,
          rows, columns);
    from = {between, columns};
  }
}

} // namespace polyconv_ort
