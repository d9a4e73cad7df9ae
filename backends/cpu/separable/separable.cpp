// separable.cpp - filters that are outer products, declared so by the caller, in two passes: every float and image
// type, any size, every border, planes and interleaved pixels.
//
// Floor of R x C taps: R + C multiply-adds a result instead of R * C, and one read and one write of each pixel; rows
// between the passes stay in the first cache. Along W each multiply-add has a load that mostly crosses a cache line, so
// a pass of C taps takes C cycles a vector, one along H of R taps R / 2.
// SPDX-License-Identifier: Apache-2.0
#include "cpu/plane/task.hpp"
#include "cpu/separable/plan.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

// Along H: all rows of the chunk, and the elements beyond it that the taps of W reach. Lines that are read in place end
// there, so the last vector is moved back instead of reading on.
template <class T, int R>
POLYCONV_NOINLINE void filter_down(const PlanePlan &p, const PlaneChunk &chunk, const T *factors,
                                   const PlaneScratch<T> &scratch, const PlaneStore<T> &later) {
  constexpr int kL = kLanes<T>;
  const int64_t elements = (chunk.columns + p.reach) * p.pixel;
  const PlaneTaps<T> taps = {scratch.line, nullptr, factors, p.axis[1].taps, 1};
  PlaneStore<T> first = later;
  first.to = scratch.vertical, first.stride = p.vertical_stride;
  for (int64_t x = 0, n; x < elements; x += n * kL) {
    const int64_t whole = (elements - x) / kL;
    n = whole >= kAnyVectors<R> ? kAnyVectors<R> : whole > 1 ? 2 : 1;
    if (whole == 0 && chunk.in_place) x = elements - kL;
    any_tile_of<Taps::kColumn, R>(n, taps, x, store_at(first, x));
  }
}

// Along W: one row of scratch.
template <class T>
POLYCONV_NOINLINE void filter_along(const PlanePlan &p, const T *row, int64_t elements, const T *factors,
                                    PlaneStore<T> to) {
  constexpr int kL = kLanes<T>;
  const PlaneTaps<T> taps = {&row, p.tap, factors, 1, p.axis[2].taps};
  const PlaneStore<T> first = to;
  for (int64_t x = 0, n; x < elements; x += n * kL) {
    const int64_t rest = elements - x, vectors = (rest + kL - 1) / kL;
    n = vectors >= kAnyVectors<1> ? kAnyVectors<1> : vectors > 1 ? 2 : 1;
    to = store_at(first, x);
    to.lanes = rest < n * kL ? static_cast<int>(rest - (n - 1) * kL) : kL;
    any_tile_of<Taps::kPlain, 1>(n, taps, x, to);
  }
}

// For plane_typed. The weights of a filter are its factors along H, then those along W.
template <class T>
struct SeparableFilters {
  static POLYCONV_MEMBER void start_plane(const PlanePlan &, const PlaneRun &, int64_t, const PlaneScratch<T> &) {}
  static POLYCONV_MEMBER void filter(const PlanePlan &p, const PlaneRun &run, const PlaneChunk &chunk,
                                     const PlaneScratch<T> &scratch) {
    const int64_t elements = chunk.columns * p.pixel;
    for (int64_t f = 0; f < p.filters; ++f) {
      const int64_t k = chunk.channel * p.filters + f;
      const T *factors = static_cast<const T *>(run.weights) + k * (p.axis[1].taps + p.axis[2].taps);
      const PlaneStore<T> later = store_of(p, run, chunk, k, false, scratch);
      if (p.group_rows == kPlaneRows)
        filter_down<T, kPlaneRows>(p, chunk, factors, scratch, later);
      else
        filter_down<T, 2>(p, chunk, factors, scratch, later);
      PlaneStore<T> to = store_of(p, run, chunk, k, p.direct, scratch);
      to.rows = 1, to.ahead = nullptr;
      for (int64_t r = 0; r < chunk.rows; ++r, to.to += to.stride)
        filter_along(p, scratch.vertical + r * p.vertical_stride, elements, factors + p.axis[1].taps, to);
      finish_chunk_rows(p, run.epilogue, chunk, k, p.direct ? elements : 0, scratch);
    }
  }
};

void separable_task(const PlanePlan &plan, const PlaneRun &run, const ItemShare &share) {
  plane_typed<SeparableFilters>(plan, run, share);
}

} // namespace polyconv::cpu::POLYCONV_ISA
