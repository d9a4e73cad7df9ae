// sources.cuh - how a block of k gets from global into shared memory.
//
//   fetch(held, to, i)      starts part i of `parts`: cp.async, or loads into registers, which are in `held`
//   deposit(held, to, i)    ends it where registers hold it (`holds`): from there into shared memory
//
// `holds_stages` says that there are registers for as many blocks as are fetched before the first is multiplied.
//
// Blocks come in order, and parts of a block too; after the last block of k there are only zeros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/implicit.cuh"
#include "common/ptx/async.cuh"
#include "mma/fragments.cuh"

namespace polyconv::cuda::tensor {

// pixel_at, where one row of all pixels takes no division.
__device__ inline Pixel pixel_of(const MmaProduct &p, int64_t i) {
  if (p.out[2] == p.pixels) return {0, 0, 0, static_cast<int32_t>(i)};
  return pixel_at(p, i);
}

// Goes along the chunks of k: which tap, which chunk of its channels.
class Walker {
 public:
  __device__ Walker(const MmaProduct &p, int32_t chunk) : p_(p), chunk_(chunk % p.chunks) {
    const int32_t tap = chunk / p.chunks, line = tap / p.taps[2];
    tap_[0] = line / p.taps[1], tap_[1] = line % p.taps[1], tap_[2] = tap % p.taps[2];
  }
  __device__ int32_t tap(int axis) const { return tap_[axis]; }
  __device__ int32_t chunk() const { return chunk_; }
  __device__ bool at_end() const { return tap_[0] >= p_.taps[0]; }
  // Returns whether it enters another tap.
  __device__ bool advance(int32_t chunks) {
    chunk_ += chunks;
    if (chunk_ < p_.chunks) return false;
    do {
      chunk_ -= p_.chunks;
      if (++tap_[2] < p_.taps[2]) continue;
      tap_[2] = 0;
      if (++tap_[1] < p_.taps[1]) continue;
      tap_[1] = 0;
      ++tap_[0];
    } while (chunk_ >= p_.chunks);
    return true;
  }

 protected:
  const MmaProduct &p_;

 private:
  int32_t chunk_, tap_[3];
};

// The packed weights of a block of k, as they will lie.
template <class Tile, int Row>
class Weights {
  static constexpr int step = Tile::threads * kChunk; // bytes

 public:
  static constexpr int parts = Tile::channels * Row / step;
  static_assert(step * parts == Tile::channels * Row, "threads have as many chunks");

  __device__ Weights(const MmaProduct &p, int32_t channel, int32_t group, int32_t block)
      : block_bytes_(static_cast<int64_t>(p.weights_rows) * Row),
        left_(p.blocks - block),
        bytes_(min(p.weights_rows - channel, Tile::channels) * Row) {
    from_ = static_cast<const char *>(p.weights) + (static_cast<int64_t>(group) * p.blocks + block) * block_bytes_ +
            static_cast<int64_t>(channel) * Row + first();
  }
  __device__ void fetch(unsigned char *to, int i) const {
    copy_async<kChunk>(to + first() + i * step, from_ + i * step, left_ > 0 && first() + i * step < bytes_);
  }
  __device__ void next() { from_ += block_bytes_, --left_; }

 private:
  __device__ static int first() { return static_cast<int>(threadIdx.x) * kChunk; }

  const char *from_;
  const int64_t block_bytes_;
  int32_t left_;
  const int32_t bytes_;
};

template <class T, class Tile, Source Kind>
class Activations;

// A thread has one chunk of a block, of every Threads / 4-th pixel. What it keeps of a pixel is where its window
// begins, and one bit for each tap of each axis: whether that lies inside the image.
template <class T, class Tile>
class ChunkLane : Walker {
  static constexpr int step = Tile::threads / kBlockChunks, vector = kChunk / sizeof(T);

 public:
  static constexpr int parts = Tile::pixels / step;
  static_assert(step * parts == Tile::pixels && step % 8 == 0, "threads have whole rows, permuted alike");

  __device__ ChunkLane(const MmaProduct &p, int64_t pixel, int32_t group, int32_t block)
      : Walker(p, block * kBlockChunks + column()) {
    const T *const input = static_cast<const T *>(p.input) + static_cast<int64_t>(group) * p.group_in;
#pragma unroll
    for (int i = 0; i < parts; ++i) {
      const int64_t mine = pixel + row() + i * step;
      const Pixel o = window_of(p, pixel_of(p, min(mine, p.pixels - 1)));
      from_[i] = input + o.n * p.image_stride + static_cast<int64_t>(o.d) * p.in_stride[0] +
                 static_cast<int64_t>(o.h) * p.in_stride[1] + static_cast<int64_t>(o.w) * p.in_stride[2];
      inside_[i] = mine < p.pixels ? taps_inside(o) : 0;
    }
    look();
  }
  __device__ void next() {
    if (advance(kBlockChunks))
      look();
    else
      shift_ += kBlockChunks * vector, left_ -= kRow;
  }

 protected:
  // Part i of the chunk: whether it is of the image, where it begins, where it belongs in a stage.
  __device__ bool inside(int i) const {
    return (inside_[i] & bits_) == bits_;
  }
  __device__ const T *from(int i) const {
    return from_[i] + shift_;
  }
  __device__ static unsigned char *chunk_in(unsigned char *stage, int i) {
    return stage + slot(row(), column()) + i * step * kRow;
  }
  // Bytes of the tap's channels from this chunk on: more than none.
  __device__ int32_t left() const {
    return left_;
  }

 private:
  __device__ static int row() {
    return static_cast<int>(threadIdx.x) / kBlockChunks;
  }
  __device__ static int column() {
    return static_cast<int>(threadIdx.x) % kBlockChunks;
  }
  // Bits of the taps of D, then H, then W: at most 31 (taps_fit).
  __device__ uint32_t taps_inside(const Pixel &o) const {
    uint32_t bits = 0, bit = 1;
    const int32_t begin[3] = {o.d, o.h, o.w};
#pragma unroll
    for (int axis = 0; axis < 3; ++axis)
#pragma unroll 1
      for (int32_t r = 0, at = begin[axis]; r < p_.taps[axis]; ++r, at += p_.dilation[axis], bit <<= 1)
        if (static_cast<uint32_t>(at) < static_cast<uint32_t>(p_.in[axis])) bits |= bit;
    return bits;
  }
  // What this tap adds to every window, and its bits.
  __device__ void look() {
    const MmaProduct &p = p_;
    shift_ = tap(0) * p.dilation[0] * p.in_stride[0] + tap(1) * p.dilation[1] * p.in_stride[1] +
             tap(2) * p.dilation[2] * p.in_stride[2] + chunk() * vector;
    left_ = (p.group_in - chunk() * vector) * int{sizeof(T)};
    bits_ = at_end() ? 1u << 31 : 1u << tap(0) | 1u << (p.taps[0] + tap(1)) | 1u << (p.taps[0] + p.taps[1] + tap(2));
  }

  const T *from_[parts];
  uint32_t inside_[parts], bits_;
  int32_t shift_, left_; // elements, bytes
};

// Copied in pieces of so many bytes.
template <class T, class Tile, int Piece>
class CopiedChunks : public ChunkLane<T, Tile> {
 public:
  static constexpr bool holds = false, holds_stages = false;
  struct Held {};
  using ChunkLane<T, Tile>::ChunkLane;

  __device__ void fetch(Held &, unsigned char *to, int i) const {
    const bool inside = this->inside(i);
    const T *const from = this->from(i);
    unsigned char *const chunk = this->chunk_in(to, i);
#pragma unroll
    for (int piece = 0; piece < kChunk; piece += Piece)
      copy_async<Piece>(chunk + piece, from + piece / int{sizeof(T)},
                        inside && (Piece == kChunk || piece < this->left()));
  }
  __device__ void deposit(const Held &, unsigned char *, int) const {}
};

template <class T, class Tile>
class Activations<T, Tile, Source::kVectors> : public CopiedChunks<T, Tile, kChunk> {
  using CopiedChunks<T, Tile, kChunk>::CopiedChunks;
};
template <class T, class Tile>
class Activations<T, Tile, Source::kWords> : public CopiedChunks<T, Tile, 4> {
  using CopiedChunks<T, Tile, 4>::CopiedChunks;
};

// Through registers. A chunk that begins in the upper half of a word is one element, whole words, and one element
// again; any other is whole words and perhaps one element. Only the chunk's own elements are ever read, so nothing
// beside the tensor is. The chunk is put together when it is deposited, as that waits for the loads.
template <class T, class Tile>
class Activations<T, Tile, Source::kShifted> : public ChunkLane<T, Tile> {
  using Lane = ChunkLane<T, Tile>;
  static constexpr int words = kChunk / 4;
  static_assert(sizeof(T) == 2, "elements of 4 bytes are words");

 public:
  static constexpr bool holds = true, holds_stages = true;
  // `last`, where there is one, is the lower half of word `last_at`, counted from the first whole one.
  struct Piece {
    uint32_t first, word[words], last;
    int32_t odd, last_at;
  };
  struct Held {
    Piece part[Lane::parts];
  };
  using Lane::Lane;

  __device__ void fetch(Held &held, unsigned char *, int i) const {
    const auto *const from = reinterpret_cast<const uint16_t *>(this->from(i));
    const auto odd = static_cast<int32_t>(reinterpret_cast<uintptr_t>(from) >> 1 & 1);
    const int32_t count = this->inside(i) ? min(this->left(), kChunk) / 2 : 0, rest = count - odd; // elements
    Piece &h = held.part[i];
    h.odd = odd, h.last_at = (rest & 1) != 0 ? rest >> 1 : words;
    h.first = h.last = 0;
    if (odd != 0 && count > 0) h.first = from[0];
    if (rest > 0 && (rest & 1) != 0) h.last = from[count - 1];
    const auto *const whole = reinterpret_cast<const uint32_t *>(from + odd);
#pragma unroll
    for (int w = 0; w < words; ++w) {
      h.word[w] = 0;
      if (2 * w + 1 < rest) h.word[w] = whole[w];
    }
  }
  __device__ void deposit(const Held &held, unsigned char *to, int i) const {
    const Piece &h = held.part[i];
    uint32_t before = h.first << 16, out[words];
#pragma unroll
    for (int w = 0; w < words; ++w) {
      const uint32_t word = h.last_at == w ? h.last : h.word[w];
      out[w] = __funnelshift_l(before, word, h.odd * 16);
      before = word;
    }
    *reinterpret_cast<uint4 *>(this->chunk_in(to, i)) = make_uint4(out[0], out[1], out[2], out[3]);
  }
};

// A thread has one pixel and some chunks of it; neighbouring threads have neighbouring pixels.
template <class T, class Tile>
class Activations<T, Tile, Source::kGathered> : Walker {
  static constexpr int step = Tile::threads / Tile::pixels, vector = kChunk / sizeof(T);

 public:
  static constexpr int parts = kBlockChunks / step;
  static constexpr bool holds = true, holds_stages = false;
  struct Held {
    T element[parts][vector];
  };
  static_assert(step * Tile::pixels == Tile::threads && step * parts == kBlockChunks, "threads have one pixel");

  __device__ Activations(const MmaProduct &p, int64_t pixel, int32_t group, int32_t block)
      : Walker(p, block * kBlockChunks + column()), fill_(static_cast<T>(p.conv.template padding<float>())) {
    window_ = window_of(p, pixel_of(p, min(pixel + row(), p.pixels - 1))); // beyond the last: a copy, not stored
    image_ = static_cast<const T *>(p.input) + window_.n * p.image_stride +
             static_cast<int64_t>(group) * p.group_in * p.channel_stride;
    look();
  }
  __device__ void fetch(Held &held, unsigned char *, int i) {
    const int32_t channels = at_end() ? 0 : p_.group_in - chunk() * vector;
    const T *from = from_ + static_cast<int64_t>(chunk() * vector) * p_.channel_stride;
#pragma unroll
    for (int e = 0; e < vector; ++e) {
      T v = e < channels ? fill_ : T(0.0f);
      if (inside_ && e < channels) v = *from;
      held.element[i][e] = v;
      from += p_.channel_stride;
    }
    if (advance(step)) look();
  }
  __device__ void deposit(const Held &held, unsigned char *to, int i) const {
    union {
      int4 bits;
      T element[vector];
    } v;
#pragma unroll
    for (int e = 0; e < vector; ++e) v.element[e] = held.element[i][e];
    *reinterpret_cast<int4 *>(to + slot(row(), column() + i * step)) = v.bits;
  }
  __device__ void next() const {} // fetch went on

 private:
  __device__ static int row() {
    return static_cast<int>(threadIdx.x) % Tile::pixels;
  }
  __device__ static int column() {
    return static_cast<int>(threadIdx.x) / Tile::pixels;
  }
  // Where this tap reads.
  __device__ void look() {
    const MmaProduct &p = p_;
    const Spot spot = spot_of(p, window_.d + tap(0) * p.dilation[0], window_.h + tap(1) * p.dilation[1],
                              window_.w + tap(2) * p.dilation[2]);
    from_ = image_ + spot.offset;
    inside_ = spot.inside;
  }

  const T *image_, *from_;
  Pixel window_;
  const T fill_;
  bool inside_;
};

} // namespace polyconv::cuda::tensor
