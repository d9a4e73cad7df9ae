// fold.cu - see fold.hpp. A thread has an element of the result and reads what its taps have left for it: of stride s
// one tap in s an axis. Which they are it finds once an axis, with the host's divisors, so that no tap is asked in vain
// and the loads of a row of taps are under way together.
//
// Floor: the columns and the result once.
// SPDX-License-Identifier: Apache-2.0
#include "common/rewrite/fold.hpp"

#include <algorithm>

#include "common/device/launch.hpp"
#include "common/epilogue.cuh"
#include "common/instance.hpp"
#include "common/machine.hpp"
#include "common/numbers.hpp"
#include "common/ptx/grid.cuh"
#include "common/rewrite/columns.hpp"

namespace polyconv::cuda {
namespace {

constexpr int kThreads = 256;

// The axes of the result in the order of memory, but for the last.
struct FoldOrder {
  int32_t channels_inner;
  Divider by[4];

  __device__ Place<int32_t> place(int32_t i) const {
    int32_t digit[4];
#pragma unroll
    for (int axis = 0; axis < 4; ++axis) {
      const int32_t above = by[axis](i);
      digit[axis] = i - above * by[axis].by;
      i = above;
    }
    if (channels_inner != 0) return {i, digit[0], digit[3], digit[2], digit[1]};
    return {i, digit[3], digit[2], digit[1], digit[0]};
  }
};

struct Fold {
  FoldAxis axes[3];
  FoldOrder places;
  View<int32_t> columns;
  const void *data;
  ColumnOrder order;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    fold(const __grid_constant__ Conv<int32_t> p, const __grid_constant__ Fold f, const EveryActivation activations,
         void *result, int32_t count) {
  ptx::await_previous();
  const int32_t step = static_cast<int32_t>(gridDim.x) * kThreads;
  const View<int32_t> &columns = f.columns;
  const FoldAxis &across = f.axes[2];
  const int32_t next_tap = across.by_taps_apart.by * f.order.tap * columns.stride[1] -
                           across.by_outputs_apart.by * columns.stride[4]; // elements from one reader to the next
  for (auto i = static_cast<int32_t>(blockIdx.x) * kThreads + static_cast<int32_t>(threadIdx.x); i < count; i += step) {
    const Place<int32_t> at = f.places.place(i);
    const Readers d(f.axes[0], at.d), h(f.axes[1], at.h), w(across, at.w);
    const T *const image = static_cast<const T *>(f.data) + at.n * columns.stride[0] +
                           at.c * f.order.channel * columns.stride[1] + w.output * columns.stride[4];
    T sum = 0;
#pragma unroll 1
    for (int32_t j = 0; j < d.count; ++j) {
      const int32_t plane = (d.output - j * f.axes[0].by_outputs_apart.by) * columns.stride[2],
                    plane_taps = (d.tap + j * f.axes[0].by_taps_apart.by) * f.axes[1].taps;
#pragma unroll 1
      for (int32_t k = 0; k < h.count; ++k) {
        const int32_t line = plane + (h.output - k * f.axes[1].by_outputs_apart.by) * columns.stride[3],
                      taps = (plane_taps + h.tap + k * f.axes[1].by_taps_apart.by) * across.taps + w.tap;
        const T *from = image + line + taps * f.order.tap * columns.stride[1];
#pragma unroll 4
        for (int32_t reader = 0; reader < w.count; ++reader, from += next_tap) sum = add(sum, *from);
      }
    }
    finish_and_store(p, result, sum, at, activations);
  }
}

FoldOrder make_order(const polyconv_tensor &result) {
  const bool last = result.stride[1] == 1 && result.size[1] > 1;
  FoldOrder order = {last ? 1 : 0, {}};
  constexpr int kLast[] = {1, 4, 3, 2}, kFirst[] = {4, 3, 2, 1};
  for (int i = 0; i < 4; ++i) order.by[i] = Divider::make(small(result.size[(last ? kLast : kFirst)[i]]));
  return order;
}

} // namespace

// Instructions of a result and of each of its readers, or bytes. Fitted to 2,000 times of 180 gradients of the census
// on an H200, with the product's own estimate: 21 % rms.
double fold_us(const polyconv_layer &l, const polyconv_tensor &columns) {
  constexpr double kInstructions = 330, kInstructionsOfReader = 19, kSchedulers = 4 * kHopperMultiprocessors;
  const double bytes = real(sdk::elements(columns) * sdk::type_bytes(columns.type)) +
                       real(sdk::elements(l.result) * sdk::type_bytes(l.result.type));
  const double instructions =
      real(sdk::elements(l.result)) * kInstructions + real(sdk::elements(columns)) * kInstructionsOfReader;
  const double issuing = instructions / 32 / kSchedulers / kHopperClocks, moving = bytes / 2.35e6;
  return 1.1 + std::max(issuing, moving) + 0.41 * std::min(issuing, moving);
}

void fold_columns(const polyconv_layer &l, const polyconv_tensor &columns, const ColumnOrder &order, const void *data,
                  const polyconv_arguments &a, cudaStream_t stream) {
  const Fold f = {{make_fold_axis(l, 0), make_fold_axis(l, 1), make_fold_axis(l, 2)},
                  make_order(l.result),
                  View<int32_t>(columns),
                  data,
                  order};
  const int32_t count = small(sdk::elements(l.result));
  const auto go = [&](auto kernel) {
    launch_waiting(kernel, blocks_for(count, kThreads), kThreads, 0, stream, Conv<int32_t>(l, a), f,
                   EveryActivation(l, a), a.input, count);
  };
  go(l.sum_type == POLYCONV_F64 ? fold<double> : fold<float>);
}

} // namespace polyconv::cuda
