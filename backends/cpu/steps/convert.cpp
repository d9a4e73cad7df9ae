// convert.cpp - copies a tensor into other strides: the step between kernels of different layouts.
//
// Floor: one read and one write. Axes that are dense on both sides are merged; where both sides run along one axis,
// runs are copied, else tiles are transposed, so that both sides use whole cache lines; 32-bit elements in registers.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/common/transpose.hpp"

namespace polyconv::cpu {

struct ConvertPlan {
  int64_t size[5], read[5], write[5]; // axes of what is left after merging, unused ones of size 1; strides
  int64_t from_offset, to_offset;
  int32_t element_bytes;
  int32_t along_read, along_write; // the axes with the smallest strides
  int64_t blocks, block;           // of along_read, where the two differ
  int64_t items;
};

POLYCONV_ISA_FUNCTION(void, convert_task, const ConvertPlan &plan, const void *from, void *to, int64_t first,
                      int64_t last)

namespace POLYCONV_ISA {

template <class Bits>
POLYCONV_INLINE void copy_run(const Bits *from, int64_t read, Bits *to, int64_t write, int64_t n) {
  if (read == 1 && write == 1) {
    __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(Bits));
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * write] = from[i * read];
}

// A square of 32-bit elements, or what is left of it: `columns` runs of `rows` elements become `rows` of `columns`.
POLYCONV_INLINE void transpose_square(const uint32_t *from, int64_t read, int columns, uint32_t *to, int64_t write,
                                      int rows) {
  constexpr int kL = kF32Lanes;
  F32 square[kL];
#pragma GCC unroll 16
  for (int j = 0; j < kL; ++j)
    square[j] =
        j < columns ? bits_as<F32>(rows == kL ? load(from + j * read) : load_partial(from + j * read, rows)) : F32{};
  transpose<float>(square);
#pragma GCC unroll 16
  for (int i = 0; i < kL; ++i) {
    if (i >= rows) break;
    if (columns == kL)
      store(to + i * write, bits_as<U32>(square[i]));
    else
      store_partial(to + i * write, bits_as<U32>(square[i]), columns);
  }
}

// `rows` of the read axis by all of the write axis, in tiles whose lines stay in the L1 cache.
template <class Bits>
POLYCONV_INLINE void transpose_rows(const ConvertPlan &p, const Bits *from, Bits *to, int64_t rows) {
  constexpr int64_t kTile = 16;
  const int64_t columns = p.size[p.along_write], read = p.read[p.along_write], write = p.write[p.along_read];
  const int64_t read_row = p.read[p.along_read], write_column = p.write[p.along_write];
  if constexpr (sizeof(Bits) == sizeof(float))
    if (read_row == 1 && write_column == 1) {
      constexpr int64_t kL = kF32Lanes;
      for (int64_t column = 0; column < columns; column += kL)
        for (int64_t row = 0; row < rows; row += kL)
          transpose_square(from + column * read + row, read,
                           static_cast<int>(columns - column < kL ? columns - column : kL), to + row * write + column,
                           write, static_cast<int>(rows - row < kL ? rows - row : kL));
      return;
    }
  for (int64_t column = 0; column < columns; column += kTile) {
    const int64_t end = column + kTile < columns ? column + kTile : columns;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t j = column; j < end; ++j) to[row * write + j * write_column] = from[row * read_row + j * read];
  }
}

template <class Bits>
POLYCONV_NOINLINE void convert_typed(const ConvertPlan &p, const void *source, void *target, int64_t first,
                                     int64_t last) {
  for (int64_t item = first; item < last; ++item) {
    const int64_t block = item % p.blocks;
    int64_t rest = item / p.blocks;
    const Bits *from = static_cast<const Bits *>(source) + p.from_offset;
    Bits *to = static_cast<Bits *>(target) + p.to_offset;
    for (int axis = 4; axis >= 0; --axis) {
      if (axis == p.along_read || axis == p.along_write) continue;
      const int64_t i = rest % p.size[axis];
      rest /= p.size[axis];
      from += i * p.read[axis];
      to += i * p.write[axis];
    }
    const int64_t begin = block * p.block, left = p.size[p.along_read] - begin;
    const int64_t count = left < p.block ? left : p.block;
    from += begin * p.read[p.along_read];
    to += begin * p.write[p.along_read];
    if (p.along_read == p.along_write)
      copy_run(from, p.read[p.along_read], to, p.write[p.along_read], count);
    else
      transpose_rows(p, from, to, count);
  }
}

void convert_task(const ConvertPlan &plan, const void *from, void *to, int64_t first, int64_t last) {
  switch (plan.element_bytes) {
    case 1: return convert_typed<uint8_t>(plan, from, to, first, last);
    case 2: return convert_typed<uint16_t>(plan, from, to, first, last);
    case 4: return convert_typed<uint32_t>(plan, from, to, first, last);
    default: return convert_typed<uint64_t>(plan, from, to, first, last);
  }
}

} // namespace POLYCONV_ISA
} // namespace polyconv::cpu

#ifdef POLYCONV_DRIVER
#include "cpu/common/count.hpp"
#include "cpu/isa.hpp"
#include "cpu/kernels.hpp"
#include "cpu/steps/tasks.hpp"

#include <polyconv/sdk/tensor.hpp>

#include <algorithm>
#include <cstdlib>

namespace polyconv::cpu {
namespace {

// Axes in order of the written strides, neighbours merged where both sides go on without a gap.
ConvertPlan make_plan(const polyconv_tensor &from, const polyconv_tensor &to) {
  ConvertPlan p{};
  int order[5] = {0, 1, 2, 3, 4};
  std::stable_sort(order, order + 5, [&](int a, int b) { return to.stride[a] > to.stride[b]; });
  std::fill(p.size, p.size + 5, 1);
  int n = 0;
  for (int axis : order) {
    if (to.size[axis] == 1) continue;
    const bool goes_on = n > 0 && p.read[n - 1] == from.stride[axis] * from.size[axis] &&
                         p.write[n - 1] == to.stride[axis] * to.size[axis];
    const int at = goes_on ? n - 1 : n++;
    p.size[at] *= to.size[axis];
    p.read[at] = from.stride[axis];
    p.write[at] = to.stride[axis];
  }
  p.from_offset = from.offset;
  p.to_offset = to.offset;
  p.element_bytes = static_cast<int32_t>(type_bytes(from.type));
  p.along_write = std::max(n - 1, 0);
  for (int axis = 0; axis < n; ++axis)
    if (std::abs(p.read[axis]) < std::abs(p.read[p.along_read])) p.along_read = axis;
  constexpr int64_t kRow = 1 << 14, kTransposed = 64;
  p.block = p.along_read == p.along_write ? kRow : kTransposed;
  p.blocks = std::max<int64_t>((p.size[p.along_read] + p.block - 1) / p.block, 1);
  p.items = p.blocks;
  for (int axis = 0; axis < 5; ++axis)
    if (axis != p.along_read && axis != p.along_write) p.items *= p.size[axis];
  return p;
}

// An element moves at the memory's rate; by squares; or one at a time.
double serial_us(const ConvertPlan &p, const polyconv_tensor &t) {
  const double elements = static_cast<double>(sdk::elements(t));
  const bool dense = p.read[p.along_read] == 1 && p.write[p.along_write] == 1;
  const bool runs = dense && p.along_read == p.along_write;
  // Planes a multiple of 1 KiB apart meet in a few sets of the caches.
  const auto apart = [&](int64_t stride) { return stride * p.element_bytes % 1024 == 0; };
  const bool collide = apart(p.read[p.along_write]) || apart(p.write[p.along_read]);
  const double square = collide ? 0.6e-3 : 0.15e-3;
  return elements * (runs ? 0.1e-3 : dense && p.element_bytes == 4 ? square : 0.5e-3);
}

class ConvertInstance final : public sdk::Instance {
 public:
  ConvertInstance(const polyconv_request &request, Isa isa)
      : plan_(make_plan(request.layers[0]->input, request.layers[0]->result)),
        isa_(isa),
        tasks_(*request.policy, serial_us(plan_, request.layers[0]->input), plan_.items) {}

  void run(const polyconv_arguments &a, void *) const override {
    tasks_.run([&](int64_t first, int64_t last) { convert_task_by_isa[isa_](plan_, a.input, a.output, first, last); });
  }

 private:
  ConvertPlan plan_;
  Isa isa_;
  StepTasks tasks_;
};

constexpr double kCachedBytes = 8e6, kFromCaches = 0.25; // of the time from memory

bool convert_offer(const polyconv_request &request, Isa isa, sdk::Offer &offer) {
  if (request.op != POLYCONV_OP_CONVERT) return offer.reject("only copies a tensor into other strides");
  const polyconv_tensor &from = request.layers[0]->input;
  if (from.type != request.layers[0]->result.type) return offer.reject("keeps the type of a tensor");
  const double us = serial_us(make_plan(from, request.layers[0]->result), from);
  double bytes = 2.0 * real(sdk::elements(from) * type_bytes(from.type));
  // What the layer has just read or written is in a cache; fitted on a machine with 16 registers.
  if (!many_registers(isa) && bytes < kCachedBytes) bytes *= kFromCaches;
  offer.estimate_us = estimate_us(tasks_for(*request.policy, us), us, bytes);
  return true;
}

} // namespace

// It reads one element after another, wherever they lie.
const sdk::Kernel kernel_convert =
    kernel_by_isa("convert", supports_by_isa<convert_offer>, create_by_isa<ConvertInstance>,
                  POLYCONV_TRAIT_OVERLAP | POLYCONV_TRAIT_NEGATIVE_STRIDE);

} // namespace polyconv::cpu
#endif
