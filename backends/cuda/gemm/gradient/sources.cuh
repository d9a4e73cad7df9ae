// sources.cuh - how a block of a factor, depth x columns, gets from global into shared memory: a block of
// depth is so many pixels, and each has its place in a table in shared memory, made a block ahead.
//
//   begin(block)   what the parts of a block have in common
//   fetch(to, i)   starts part i of `parts`: loads into registers, or cp.async
//   deposit(to, i) ends it where registers hold it (`held`): from there into shared memory
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/ptx/async.cuh"
#include "gradient/leave.cuh"

namespace polyconv::cuda::gemm {

// Where the windows of the pixels of a block begin: coordinates, and the image's first element, -1 behind the last
// pixel. Two blocks: one is read while the next is described.
struct Places {
  int64_t image[2][kGradientDepth];
  int4 corner[2][kGradientDepth];

  __device__ void describe(const Gradient &g, const Factor &f, int32_t block, bool there, int i) {
    const int32_t pixel = block * kGradientDepth + i;
    const Pixel o = pixel_at(g, pixel);
    image[block & 1][i] = there && pixel < g.pixels ? o.n * f.image_stride : -1;
    corner[block & 1][i] = {o.d * f.step[0] - f.pad[0], o.h * f.step[1] - f.pad[1], o.w * f.step[2] - f.pad[2], 0};
  }
};

// A column: its channel's distance from the image's first element, or -1 behind the last, and its tap.
__device__ inline int4 column_of(const Factor &f, int32_t column) {
  if (column >= f.columns) return {-1, 0, 0, 0};
  const ColumnPlace at(f, column, false);
  return {at.channel * f.channel_stride, at.tap[0] * f.dilation[0], at.tap[1] * f.dilation[1],
          at.tap[2] * f.dilation[2]};
}

// What the sources share: where they read, and how one element moves. Held are those that must be converted.
template <class From, class T>
class FactorBase {
 public:
  static constexpr bool held = !std::is_same_v<From, T>;

  __device__ FactorBase(const Factor &f, int32_t group, const Places *places)
      : f_(f),
        data_(static_cast<const From *>(f.data) + static_cast<int64_t>(group) * f.channels * f.channel_stride),
        places_(places) {}

 protected:
  // Element (pixel i of the block, column): *at where it is inside, else `fill`.
  __device__ const From *find(int i, const int4 &column, From *fill) const {
    const int64_t image = places_->image[block_ & 1][i];
    *fill = From(0.0f);
    if (image < 0 || column.x < 0) return nullptr;
    const int4 o = places_->corner[block_ & 1][i];
    const Spot spot = spot_in(f_.size, f_.stride, f_.pad_mode, o.x + column.y, o.y + column.z, o.z + column.w);
    if (spot.inside) return data_ + image + spot.offset + column.x;
    *fill = static_cast<From>(f_.fill);
    return nullptr;
  }
  __device__ static void move(T *to, const From *from, From fill, From *held_one) {
    if constexpr (held) {
      *held_one = fill;
      if (from != nullptr) *held_one = *from;
    } else {
      if (from != nullptr)
        copy_async<sizeof(T)>(to, from, true);
      else
        *to = fill;
    }
  }

  const Factor &f_;
  const From *data_;
  const Places *places_;
  int32_t block_ = 0;
};

template <class From, class T, int Width, int Row, int Threads, Reach Kind>
class FactorSource;

// A thread has one pixel and every Threads / Depth-th column; columns have a table in shared memory. Every address is
// found on its own: moving from one to the next, with a branch where a tap begins, took three times as long.
template <class From, class T, int Width, int Row, int Threads>
class FactorSource<From, T, Width, Row, Threads, Reach::kPixels> : public FactorBase<From, T> {
  using Base = FactorBase<From, T>;
  static constexpr int step = Threads / kGradientDepth;

 public:
  static constexpr int parts = Width / step, table_bytes = Width * sizeof(int4);
  __device__ FactorSource(const Factor &f, int32_t group, int32_t first, const Places *places, void *table)
      : Base(f, group, places), columns_(static_cast<int4 *>(table)) {
    for (int i = threadIdx.x; i < Width; i += Threads) columns_[i] = column_of(f, first + i);
  }
  __device__ void begin(int32_t block) { this->block_ = block; }
  __device__ void fetch(T *to, int i) {
    From fill;
    const From *const from = this->find(pixel(), columns_[column(i)], &fill);
    this->move(to + slot(i), from, fill, held_ + (Base::held ? i : 0));
  }
  __device__ void deposit(T *to, int i) const {
    if constexpr (Base::held) to[slot(i)] = static_cast<T>(value(held_[i]));
  }

 private:
  __device__ static int pixel() { return static_cast<int>(threadIdx.x) % kGradientDepth; }
  __device__ static int column(int i) { return static_cast<int>(threadIdx.x) / kGradientDepth + i * step; }
  __device__ static int slot(int i) { return pixel() * Row + column(i); }

  int4 *columns_;
  From held_[Base::held ? parts : 1];
};

// A thread has one column and every Threads / Width-th pixel.
template <class From, class T, int Width, int Row, int Threads>
class FactorSource<From, T, Width, Row, Threads, Reach::kColumns> : public FactorBase<From, T> {
  using Base = FactorBase<From, T>;
  static constexpr int step = Threads / Width;
  static_assert(step >= 1, "a thread has one column");

 public:
  static constexpr int parts = kGradientDepth / step, table_bytes = 0;
  __device__ FactorSource(const Factor &f, int32_t group, int32_t first, const Places *places, void *)
      : Base(f, group, places), mine_(column_of(f, first + column())) {}
  __device__ void begin(int32_t block) { this->block_ = block; }
  __device__ void fetch(T *to, int i) {
    From fill;
    const From *const from = this->find(pixel(i), mine_, &fill);
    this->move(to + slot(i), from, fill, held_ + (Base::held ? i : 0));
  }
  __device__ void deposit(T *to, int i) const {
    if constexpr (Base::held) to[slot(i)] = static_cast<T>(value(held_[i]));
  }

 private:
  __device__ static int column() { return static_cast<int>(threadIdx.x) % Width; }
  __device__ static int pixel(int i) { return static_cast<int>(threadIdx.x) / Width + i * step; }
  __device__ static int slot(int i) { return pixel(i) * Row + column(); }

  const int4 mine_;
  From held_[Base::held ? parts : 1];
};

// A thread has 16 bytes of neighbouring channels of every so many-th pixel; channels are whole vectors.
template <class T, int Width, int Row, int Threads>
class FactorSource<T, T, Width, Row, Threads, Reach::kVectors> : public FactorBase<T, T> {
  static constexpr int vector = 16 / sizeof(T), lanes = Width / vector, step = Threads / lanes;

 public:
  static constexpr int parts = kGradientDepth / step, table_bytes = 0;
  static_assert(step >= 1 && parts * step == kGradientDepth, "threads have whole pixels");
  __device__ FactorSource(const Factor &f, int32_t group, int32_t first, const Places *places, void *)
      : FactorBase<T, T>(f, group, places), mine_(column_of(f, first + column())) {}
  __device__ void begin(int32_t block) { this->block_ = block; }
  __device__ void fetch(T *to, int i) {
    const int pixel = static_cast<int>(threadIdx.x) / lanes + i * step;
    T fill;
    const T *const from = this->find(pixel, mine_, &fill);
    T *const at = to + pixel * Row + column();
    if (from != nullptr)
      copy_async<16>(at, from, true);
    else
      *reinterpret_cast<float4 *>(at) = make_float4(fill, fill, fill, fill);
  }
  __device__ void deposit(T *, int) const {}

 private:
  __device__ static int column() { return static_cast<int>(threadIdx.x) % lanes * vector; }

  const int4 mine_;
};

} // namespace polyconv::cuda::gemm
