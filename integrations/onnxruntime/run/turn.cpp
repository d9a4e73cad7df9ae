// turn.cpp - a transposition of [rows][columns] to [columns][rows] for each image, in blocks that stay in the first
// cache on both sides.
//
// SPDX-License-Identifier: Apache-2.0
#include "run/turn.hpp"

#include <algorithm>

#include "runtime/threads.hpp"

namespace polyconv_ort {
namespace {

constexpr int64_t kBlock = 16, kRowsATask = 64;

struct Work {
  int64_t rows, columns, tasks_an_image;
  size_t element;
  const char *from;
  char *to;
};

template <class T>
void turn_rows(const Work &work, int64_t image, int64_t begin, int64_t end) {
  const T *from = reinterpret_cast<const T *>(work.from) + image * work.rows * work.columns;
  T *to = reinterpret_cast<T *>(work.to) + image * work.rows * work.columns;
  for (int64_t row = begin; row < end; row += kBlock)
    for (int64_t column = 0; column < work.columns; column += kBlock) {
      const int64_t last_row = std::min(end, row + kBlock), last = std::min(work.columns, column + kBlock);
      for (int64_t c = column; c < last; ++c)
        for (int64_t r = row; r < last_row; ++r) to[c * work.rows + r] = from[r * work.columns + c];
    }
}

void one_task(void *context, int64_t task) {
  const Work &work = *static_cast<const Work *>(context);
  const int64_t begin = task % work.tasks_an_image * kRowsATask, end = std::min(work.rows, begin + kRowsATask);
  if (work.element == 1)
    turn_rows<uint8_t>(work, task / work.tasks_an_image, begin, end);
  else
    turn_rows<uint32_t>(work, task / work.tasks_an_image, begin, end);
}

} // namespace

void turn(const Api &api, const Turn &turn, const void *from, void *to) {
  int64_t pixels = 1;
  for (size_t i = 2; i < turn.sizes.size(); ++i) pixels *= turn.sizes[i];
  Work work{turn.sizes[1], pixels, 0, turn.element, static_cast<const char *>(from), static_cast<char *>(to)};
  if (!turn.to_last) std::swap(work.rows, work.columns);
  work.tasks_an_image = (work.rows + kRowsATask - 1) / kRowsATask;
  if (turn.sizes[0] * work.rows * work.columns == 0) return;
  share_out(const_cast<Api *>(&api), turn.sizes[0] * work.tasks_an_image, one_task, &work);
}

} // namespace polyconv_ort
