// sources.cuh - how a block of activations, depth x pixels, gets from global into shared memory: one class a Source.
//
//   begin()        what the parts of a block have in common
//   fetch(to, i)   starts part i of `parts`: loads into registers, or cp.async
//   deposit(to, i) ends it where registers hold it (`held`): from there into shared memory
//   next()         on to the next block of k
//   first(), rows(), blocks()    the block's first row of packed weights, its rows (the rest are zeros; after the last
//                                block there are none), how many blocks there are
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/implicit.cuh"
#include "common/ptx/async.cuh"
#include "product/product.hpp"

namespace polyconv::cuda::gemm {

// The blocks of k that lie in one tap each: the channels of a tap in steps of Depth, the last step shorter.
template <int Depth>
class TapBlocks : public Share {
 public:
  __device__ explicit TapBlocks(const Product &p)
      : Share(p, p.taps[0] * p.taps[1] * p.taps[2] * steps_of(p)), p_(p), channel_(begin_ % steps_of(p) * Depth) {
    const int32_t tap = begin_ / steps_of(p), line = tap / p.taps[2];
    row_ = tap * p.group_in + channel_;
    tap_[0] = line / p.taps[1], tap_[1] = line % p.taps[1], tap_[2] = tap % p.taps[2];
  }
  __device__ int32_t first() const { return row_; }
  __device__ int32_t rows() const { return left_ > 0 ? min(Depth, p_.group_in - channel_) : 0; }
  __device__ int32_t channel() const { return channel_; }
  __device__ int32_t shift(int axis) const { return tap_[axis] * p_.dilation[axis]; }
  __device__ bool enters_tap() const { return enters_tap_; } // since the block before
  __device__ void next() {
    --left_;
    row_ += min(Depth, p_.group_in - channel_);
    channel_ += Depth;
    enters_tap_ = channel_ >= p_.group_in;
    if (!enters_tap_) return;
    channel_ = 0;
    if (++tap_[2] < p_.taps[2]) return;
    tap_[2] = 0;
    if (++tap_[1] < p_.taps[1]) return;
    tap_[1] = 0;
    ++tap_[0];
  }

 private:
  __device__ static int32_t steps_of(const Product &p) { return (p.group_in + Depth - 1) / Depth; }

  const Product &p_;
  int32_t row_, channel_, tap_[3];
  bool enters_tap_ = true;
};

// The blocks of k cut without regard to taps.
template <int Depth>
class PlainBlocks : public Share {
 public:
  __device__ explicit PlainBlocks(const Product &p)
      : Share(p, (p.depth + Depth - 1) / Depth), p_(p), row_(begin_ * Depth) {}
  __device__ int32_t first() const { return row_; }
  __device__ int32_t rows() const { return left_ > 0 ? min(Depth, p_.depth - row_) : 0; }
  __device__ void next() { --left_, row_ += Depth; }

 protected:
  const Product &p_;
  int32_t row_;
};

// The part of kTaps and kScattered that is the same: a thread has one pixel and every Threads / Pixels-th k. Held are
// what must be converted, and what is fetched between loads from shared memory: a cp.async there costs three idle
// instructions more.
template <class From, class T, class Tile, int Row, bool Held>
class PixelLane {
 public:
  static constexpr int step = Tile::threads / Tile::pixels, count = Tile::depth / step;
  static constexpr bool held = Held;
  static_assert(step >= 1 && count * step == Tile::depth, "a thread has one pixel of a tile");

  __device__ PixelLane(const Product &p, int64_t pixel, int32_t group)
      : p_(p), fill_(static_cast<From>(p.conv.template padding<T>())) {
    const int64_t mine = min(pixel + threadIdx.x % Tile::pixels, p.pixels - 1); // beyond the last: a copy, not stored
    window_ = window_of(p, pixel_at(p, mine));
    image_ = static_cast<const From *>(p.input) + window_.n * p.image_stride +
             static_cast<int64_t>(group) * p.group_in * p.channel_stride;
  }
  __device__ static int depth_of(int i) { return static_cast<int>(threadIdx.x) / Tile::pixels + i * step; }
  __device__ static int slot_of(int i) { return depth_of(i) * Row + static_cast<int>(threadIdx.x) % Tile::pixels; }

 protected:
  __device__ void drop(T *to, int i) const {
    if constexpr (held) to[slot_of(i)] = static_cast<T>(value(held_[i]));
  }
  // Element i of the block: *from where it is there, else padding; beyond the last row any number will do, for weights
  // are zeros there.
  __device__ void move(T *to, int i, const From *from, bool there) {
    if constexpr (held) {
      held_[i] = fill_;
      if (there) held_[i] = *from;
    } else {
      if (there)
        copy_async<sizeof(T)>(to + slot_of(i), from, true);
      else
        to[slot_of(i)] = fill_;
    }
  }

  const Product &p_;
  const From *image_;
  Pixel window_;
  const From fill_;

 private:
  From held_[held ? count : 1];
};

template <class From, class T, class Tile, int Row, Source Kind>
class Activations;

template <class From, class T, class Tile, int Row>
class Activations<From, T, Tile, Row, Source::kTaps> : public PixelLane<From, T, Tile, Row, true>,
                                                       public TapBlocks<Tile::depth> {
  using Lane = PixelLane<From, T, Tile, Row, true>;

 public:
  static constexpr int parts = Lane::count;
  __device__ Activations(const Product &p, int64_t pixel, int32_t group, void *)
      : Lane(p, pixel, group), TapBlocks<Tile::depth>(p) {}
  // Addresses are computed once a tap; from then on every part moves on.
  __device__ void begin() {
    const Product &p = Lane::p_;
    if (this->enters_tap()) {
      const Pixel &o = this->window_;
      const Spot spot = spot_of(p, o.d + this->shift(0), o.h + this->shift(1), o.w + this->shift(2));
      from_ = this->image_ + spot.offset + static_cast<int64_t>(this->channel() + Lane::depth_of(0)) * p.channel_stride;
      inside_ = spot.inside;
    }
    there_ = inside_ ? this->rows() : 0;
  }
  __device__ void fetch(T *to, int i) {
    this->move(to, i, from_, Lane::depth_of(i) < there_);
    from_ += static_cast<int64_t>(Lane::step) * Lane::p_.channel_stride;
  }
  __device__ void deposit(T *to, int i) const { this->drop(to, i); }

 private:
  const From *from_ = nullptr;
  bool inside_ = false;
  int32_t there_ = 0; // rows that are read
};

// Each k of a block has its tap and channel in a table in shared memory, made one block ahead by a thread a k: the
// barrier that ends a block makes it visible.
template <class From, class T, class Tile, int Row>
class Activations<From, T, Tile, Row, Source::kScattered>
    : public PixelLane<From, T, Tile, Row, !std::is_same_v<From, T> >, public PlainBlocks<Tile::depth> {
  using Lane = PixelLane<From, T, Tile, Row, !std::is_same_v<From, T> >;

 public:
  static constexpr int parts = 1; // addresses take more registers than a spread would leave
  static constexpr int table_bytes = 2 * Tile::depth * sizeof(int4);
  __device__ Activations(const Product &p, int64_t pixel, int32_t group, void *table)
      : Lane(p, pixel, group), PlainBlocks<Tile::depth>(p), table_(static_cast<int4 *>(table)) {
    describe(this->row_), describe(this->row_ + Tile::depth);
    __syncthreads();
  }
  __device__ void begin() {}
  __device__ void fetch(T *to, int) {
    const int4 *table = half(this->row_);
    const int rows = this->rows();
    constexpr int unrolled = Lane::held ? Lane::count : 2;
#pragma unroll unrolled
    for (int i = 0; i < Lane::count; ++i) {
      const int k = Lane::depth_of(i);
      const int4 tap = table[k];
      const Pixel &o = this->window_;
      const Spot spot = spot_of(Lane::p_, o.d + tap.y, o.h + tap.z, o.w + tap.w);
      this->move(to, i, this->image_ + spot.offset + tap.x, spot.inside && k < rows);
    }
  }
  __device__ void deposit(T *to, int) const {
#pragma unroll
    for (int i = 0; i < Lane::count; ++i) this->drop(to, i);
  }
  // The table of the block after the next one lies where this block's was, which nobody reads any more.
  __device__ void next() {
    describe(this->row_ + 2 * Tile::depth);
    PlainBlocks<Tile::depth>::next();
  }

 private:
  __device__ int4 *half(int32_t row) const {
    return table_ + row / Tile::depth % 2 * Tile::depth;
  }
  __device__ void describe(int32_t row) const {
    const int k = threadIdx.x;
    if (k >= Tile::depth) return;
    const Product &p = Lane::p_;
    const int32_t at = min(row + k, p.depth - 1); // beyond the last: not used
    const int32_t tap = at / p.group_in, line = tap / p.taps[2];
    half(row)[k] = {at % p.group_in * p.channel_stride, line / p.taps[1] * p.dilation[0],
                    line % p.taps[1] * p.dilation[1], tap % p.taps[2] * p.dilation[2]};
  }

  int4 *table_;
};

// Vectors of 16 bytes along the channels, turned on their way into shared memory. Windows lie there too, and where the
// pixels of this tap are: the threads that share pixels find them once a tap, each some.
template <class From, class T, class Tile, int Row>
class Activations<From, T, Tile, Row, Source::kVectors> : public TapBlocks<Tile::depth> {
  static constexpr int vector = 16 / sizeof(From), lanes = Tile::depth / vector; // threads that share a pixel
  static constexpr int step = Tile::threads / lanes;

 public:
  static constexpr int parts = Tile::pixels / step;
  static constexpr bool held = true;
  static constexpr int table_bytes = Tile::pixels * (sizeof(Pixel) + sizeof(const From *));
  static_assert(parts * step == Tile::pixels && 32 % lanes == 0, "threads have whole pixels, shared inside a warp");

  __device__ Activations(const Product &p, int64_t pixel, int32_t group, void *table)
      : TapBlocks<Tile::depth>(p),
        p_(p),
        windows_(static_cast<Pixel *>(table)),
        from_(reinterpret_cast<const From **>(windows_ + Tile::pixels)),
        input_(static_cast<const From *>(p.input) + static_cast<int64_t>(group) * p.group_in),
        fill_(static_cast<From>(p.conv.template padding<T>())) {
    for (int i = threadIdx.x; i < Tile::pixels; i += Tile::threads)
      windows_[i] = window_of(p, pixel_at(p, min(pixel + i, p.pixels - 1)));
    __syncthreads();
  }
  __device__ void begin() {
    if (!this->enters_tap()) return;
    __syncwarp();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) % lanes; i < parts; i += lanes) {
      const Pixel o = windows_[pixel_of(i)];
      const Spot spot = spot_of(p_, o.d + this->shift(0), o.h + this->shift(1), o.w + this->shift(2));
      from_[pixel_of(i)] = spot.inside ? input_ + o.n * p_.image_stride + spot.offset : nullptr;
    }
    __syncwarp();
  }
  __device__ void fetch(T *, int i) {
    Vector v;
#pragma unroll
    for (int e = 0; e < vector; ++e) v.element[e] = fill_;
    const From *from = from_[pixel_of(i)];
    if (column() < this->rows() && from != nullptr) // channels are whole vectors
      v.bits = *reinterpret_cast<const int4 *>(from + this->channel() + column());
    held_[i] = v.bits;
  }
  __device__ void deposit(T *to, int i) const {
    Vector v;
    v.bits = held_[i];
#pragma unroll
    for (int e = 0; e < vector; ++e) to[(column() + e) * Row + pixel_of(i)] = static_cast<T>(value(v.element[e]));
  }

 private:
  union Vector {
    int4 bits;
    From element[vector];
    __device__ Vector() {}
  };
  __device__ static int column() {
    return static_cast<int>(threadIdx.x) % lanes * vector;
  }
  __device__ static int pixel_of(int i) {
    return static_cast<int>(threadIdx.x) / lanes + i * step;
  }

  const Product &p_;
  Pixel *windows_;
  const From **from_; // nullptr: padding
  const From *input_;
  From fill_;
  int4 held_[parts];
};

// 1 x 1, channels first: a row of k is the pixels of a channel, image after image, each in whole vectors.
template <class From, class T, class Tile, int Row>
class Activations<From, T, Tile, Row, Source::kRows> : public PlainBlocks<Tile::depth> {
  static constexpr int vector = 16 / sizeof(T), lanes = Tile::pixels / vector;
  static constexpr int step = Tile::threads / lanes;

 public:
  static constexpr int parts = Tile::depth / step, table_bytes = 0;
  static constexpr bool held = false;
  static_assert(step >= 1 && parts * step == Tile::depth, "threads have whole rows");

  __device__ Activations(const Product &p, int64_t pixel, int32_t group, void *) : PlainBlocks<Tile::depth>(p) {
    const int64_t mine = pixel + static_cast<int>(threadIdx.x) % lanes * vector;
    const Pixel o = pixel_at(p, min(mine, p.pixels - 1));
    there_ = mine < p.pixels;
    from_ = static_cast<const T *>(p.input) + o.n * p.image_stride + o.d * p.in_stride[0] + o.h * p.in_stride[1] +
            o.w * p.in_stride[2] +
            (static_cast<int64_t>(group) * p.group_in + this->row_ + depth_of(0)) * p.channel_stride;
  }
  __device__ void begin() {}
  __device__ void fetch(T *to, int i) {
    const bool inside = there_ && depth_of(i) < this->rows();
    copy_async<16>(to + depth_of(i) * Row + static_cast<int>(threadIdx.x) % lanes * vector, inside ? from_ : base(),
                   inside);
    from_ += static_cast<int64_t>(step) * this->p_.channel_stride;
  }
  __device__ void deposit(T *, int) const {}

 private:
  __device__ static int depth_of(int i) { return static_cast<int>(threadIdx.x) / lanes + i * step; }
  __device__ const T *base() const { return static_cast<const T *>(this->p_.input); } // any address that is good

  const T *from_; // of the next part
  bool there_;
};

// The unfolded matrix, 16 bytes of neighbouring pixels at a time; its rows end in whole vectors.
template <class From, class T, class Tile, int Row>
class Activations<From, T, Tile, Row, Source::kMatrix> : public PlainBlocks<Tile::depth> {
  static constexpr int vector = 16 / sizeof(T), lanes = Tile::pixels / vector;
  static constexpr int step = Tile::threads / lanes;

 public:
  static constexpr int parts = Tile::depth / step, table_bytes = 0;
  static constexpr bool held = false;
  static_assert(step >= 1 && parts * step == Tile::depth, "threads have whole rows");

  __device__ Activations(const Product &p, int64_t pixel, int32_t group, void *)
      : PlainBlocks<Tile::depth>(p),
        column_(pixel - p.first_pixel + static_cast<int>(threadIdx.x) % lanes * vector),
        matrix_(static_cast<const T *>(p.input) + static_cast<int64_t>(group) * p.depth * p.matrix_row) {}
  __device__ void begin() {}
  __device__ void fetch(T *to, int i) {
    const Product &p = this->p_;
    const int k = static_cast<int>(threadIdx.x) / lanes + i * step;
    const bool inside = k < this->rows() && column_ < p.matrix_row;
    const T *from = inside ? matrix_ + static_cast<int64_t>(this->row_ + k) * p.matrix_row + column_ : matrix_;
    copy_async<16>(to + k * Row + static_cast<int>(threadIdx.x) % lanes * vector, from, inside);
  }
  __device__ void deposit(T *, int) const {}

 private:
  int64_t column_;
  const T *matrix_;
};

} // namespace polyconv::cuda::gemm
