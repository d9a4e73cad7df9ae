// gather.hpp - pixels of the strip that hold all taps of few channels. What such a pixel takes of a line is one run of
// elements: 7 runs of 21 elements make a pixel of 7 x 7 taps of 3 channels, whose 147 elements are 3 chunks of 8 bits,
// where a line of taps alone fills a third of each of 7.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cpu/matrix/strip.hpp"

namespace polyconv::cpu::POLYCONV_ISA {

#if defined(__AVX512BW__)
// The first n of 64 bytes, 1 <= n.
POLYCONV_INLINE __mmask64 first_bytes(int64_t n) {
  return ~uint64_t{0} >> (n < kMatrixRowBytes ? kMatrixRowBytes - n : 0);
}
#endif

// `bytes` bytes, for runs of a few dozen.
POLYCONV_INLINE void copy_run(const void *from, int64_t bytes, void *to) {
#if defined(__AVX512BW__)
  for (int64_t i = 0; i < bytes; i += kMatrixRowBytes) {
    const __mmask64 some = first_bytes(bytes - i);
    const __m512i v = _mm512_maskz_loadu_epi8(some, static_cast<const char *>(from) + i);
    _mm512_mask_storeu_epi8(static_cast<char *>(to) + i, some, v);
  }
#else
  __builtin_memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

// What one run gives to one chunk: `bytes` bytes from byte `at` on. The next pixel's lie `step` bytes further.
struct GatherPiece {
  const char *from;
  int64_t step, at, bytes;
};

// N pieces of one chunk of `count` pixels, `pitch` bytes apart; all else is zero or, if `more`, stays.
template <int N>
POLYCONV_INLINE void gather_pieces(const GatherPiece *pieces, bool more, int64_t count, int64_t pitch, char *out) {
#if defined(__AVX512BW__)
  const char *from[N];
  int64_t step[N];
  __mmask64 lanes[N];
  for (int k = 0; k < N; ++k) {
    from[k] = pieces[k].from - pieces[k].at, step[k] = pieces[k].step;
    lanes[k] = first_bytes(pieces[k].bytes) << pieces[k].at;
  }
  for (int64_t i = 0; i < count; ++i, out += pitch) {
    __m512i v = more ? _mm512_loadu_si512(out) : _mm512_setzero_si512();
    for (int k = 0; k < N; from[k] += step[k], ++k) v = _mm512_mask_loadu_epi8(v, lanes[k], from[k]);
    _mm512_storeu_si512(out, v);
  }
#else
  for (int64_t i = 0; i < count; ++i, out += pitch) {
    if (!more) __builtin_memset(out, 0, kMatrixRowBytes);
    for (const GatherPiece *p = pieces; p < pieces + N; ++p)
      __builtin_memcpy(out + p->at, p->from + i * p->step, static_cast<size_t>(p->bytes));
  }
#endif
}

// One chunk of its n pieces. Whole chunks are stored, as nearly every store of a run would cross a cache line; four
// pieces at a time, whose pointers and masks stay in registers.
POLYCONV_INLINE void gather_chunk(const GatherPiece *pieces, int64_t n, int64_t count, int64_t pitch, char *out) {
  for (int64_t k = 0; k < n; k += 4, pieces += 4) switch (n - k) {
      case 1: gather_pieces<1>(pieces, k > 0, count, pitch, out); break;
      case 2: gather_pieces<2>(pieces, k > 0, count, pitch, out); break;
      case 3: gather_pieces<3>(pieces, k > 0, count, pitch, out); break;
      default: gather_pieces<4>(pieces, k > 0, count, pitch, out);
    }
}

// What the taps of a pixel read: a run of each line.
template <class From>
struct GatherRuns {
  const From *lines[kMatrixGathered]; // column 0; NULL: a line of padding
  From pad[kMatrixGathered];          // a run of padding
  int64_t count, bytes;               // of lines, of a run
};

template <class From>
POLYCONV_INLINE void begin_runs(const MatrixPlan &p, GatherRuns<From> &runs) {
  const int64_t elements = p.axis[2].taps * p.group_in;
  const From pad = padding<From>(p);
  for (int64_t i = 0; i < elements; ++i) runs.pad[i] = pad;
  runs.bytes = elements * static_cast<int64_t>(sizeof(From));
  runs.count = 0;
}

template <class From>
POLYCONV_INLINE void find_runs(const MatrixPlan &p, const From *image, int64_t line, GatherRuns<From> &runs) {
  const Axis &depths = p.axis[0], &rows = p.axis[1];
  begin_runs(p, runs);
  for (int64_t t = 0; t < depths.taps; ++t) {
    const int64_t depth = inside(depths, line / rows.out * depths.step - depths.before + t * depths.dilation);
    for (int64_t r = 0; r < rows.taps; ++r) {
      const int64_t row = inside(rows, line % rows.out * rows.step - rows.before + r * rows.dilation);
      runs.lines[runs.count++] = line_of(p, image, depth, row);
    }
  }
}

// A pixel that reads columns from `first` on, some of them outside.
template <class From>
POLYCONV_NOINLINE void gather_border(const MatrixPlan &p, const GatherRuns<From> &runs, int64_t first, From *out) {
  const Axis &axis = p.axis[2];
  const int64_t c = p.group_in, pixel_bytes = c * static_cast<int64_t>(sizeof(From));
  const AxisRun run = axis_run(first, 1, axis.in, first + axis.taps, axis.taps);
  for (int64_t k = 0; k < runs.count; ++k, out += axis.taps * c) {
    const From *line = runs.lines[k];
    if (!line) {
      copy_run(runs.pad, runs.bytes, out);
      continue;
    }
    copy_run(line + (first + run.a) * c, (run.b - run.a) * pixel_bytes, out + run.a * c);
    for (int64_t tap = run.a > 0 ? 0 : run.b; tap < axis.taps; tap = tap + 1 == run.a ? run.b : tap + 1) {
      const int64_t column = inside(axis, first + tap);
      copy_run(column < 0 ? runs.pad : line + column * c, pixel_bytes, out + tap * c);
    }
  }
}

// `count` pixels that read columns from `first` on, none of them outside, chunk by chunk.
template <class From>
POLYCONV_NOINLINE void gather_inner(const MatrixPlan &p, const GatherRuns<From> &runs, int64_t first, int64_t count,
                                    int64_t pitch, char *out) {
  GatherPiece pieces[kMatrixRowBytes];
  const int64_t step = p.axis[2].step * p.group_in * static_cast<int64_t>(sizeof(From));
  int64_t n = 0, at = 0;
  for (int64_t k = 0; k < runs.count; ++k) {
    const From *line = runs.lines[k];
    const char *from = reinterpret_cast<const char *>(line ? line + first * p.group_in : runs.pad);
    for (int64_t done = 0, bytes = 0; done < runs.bytes; done += bytes, at += bytes) {
      if (at == kMatrixRowBytes) {
        gather_chunk(pieces, n, count, pitch, out);
        n = at = 0, out += kMatrixRowBytes;
      }
      bytes = kMatrixRowBytes - at < runs.bytes - done ? kMatrixRowBytes - at : runs.bytes - done;
      pieces[n++] = {from + done, line ? step : 0, at, bytes};
    }
  }
  gather_chunk(pieces, n, count, pitch, out);
}

// All taps of `count` neighbours of a result's line, from column w on, in rows of `pitch` elements.
template <class From>
POLYCONV_INLINE void gather_rows(const MatrixPlan &p, const GatherRuns<From> &runs, int64_t w, int64_t count,
                                 int64_t pitch, From *out) {
  const Axis &axis = p.axis[2];
  const int64_t first = w * axis.step - axis.before;
  const auto border = [&](int64_t i) {
    __builtin_memset(out + i * pitch, 0, static_cast<size_t>(pitch) * sizeof(From)); // what fills up chunks
    gather_border(p, runs, first + i * axis.step, out + i * pitch);
  };
  const AxisRun run = axis_run(first, axis.step, axis.in - axis.taps + 1, first + count * axis.step, count);
  for (int64_t i = run.a > 0 ? 0 : run.b; i < count; i = i + 1 == run.a ? run.b : i + 1) // [0, a) and [b, count)
    border(i);
  gather_inner(p, runs, first + run.a * axis.step, run.b - run.a, pitch * static_cast<int64_t>(sizeof(From)),
               reinterpret_cast<char *>(out + run.a * pitch));
}

// The same into the strip: as they are, or in parts.
template <class P>
POLYCONV_INLINE void gather_pixels(const MatrixPlan &p, const typename P::From *image, int64_t line, int64_t w,
                                   int64_t count, char *out) {
  typedef typename P::From From;
  GatherRuns<From> runs;
  find_runs(p, image, line, runs);
  if constexpr (P::kParts == 1) {
    const int64_t pitch = p.position_bytes / static_cast<int64_t>(sizeof(From));
    return gather_rows(p, runs, w, count, pitch, reinterpret_cast<From *>(out));
  }
  alignas(64) From stage[kF32Lanes * kMatrixGathered];
  for (int64_t i = 0; i < count; i += kF32Lanes) {
    const int64_t pixels = count - i < kF32Lanes ? count - i : kF32Lanes;
    gather_rows(p, runs, w + i, pixels, kMatrixGathered, stage);
    for (int64_t c = 0; c < p.channels; c += P::kChannels)
      for (int64_t pixel = 0; pixel < pixels; ++pixel)
        store_chunk<P>(stage + pixel * kMatrixGathered + c,
                       p.channels - c < P::kChannels ? p.channels - c : P::kChannels,
                       out + c / P::kChannels * p.chunk_bytes + (i + pixel) * kMatrixRowBytes, p.part_bytes);
  }
}

// A stored line whose pixels hold all taps of W of `joined` lines, the first of them `row`.
template <class From>
POLYCONV_INLINE void gather_line(const MatrixPlan &p, const From *image, int64_t depth, int64_t row, From *out) {
  const Axis &rows = p.axis[1];
  GatherRuns<From> runs;
  begin_runs(p, runs);
  for (int64_t k = 0; k < p.joined; ++k) // lines that no tap reads may lie behind all that the axis knows
    runs.lines[runs.count++] = line_of(p, image, depth, row + k < rows.in + rows.after ? inside(rows, row + k) : -1);
  gather_rows(p, runs, 0, p.stored_columns, p.position_bytes / static_cast<int64_t>(sizeof(From)), out);
}

// All lines that the block's taps read. `in` is the group's first channel.
template <class P>
POLYCONV_INLINE void fill_strip(const MatrixPlan &p, const typename P::From *in, const MatrixBlock &b, char *strip) {
  const typename P::From *image = in + b.image * p.input.stride[0];
  const Axis &depths = p.axis[0], &rows = p.axis[1];
  const int64_t first = b.line * rows.step - rows.before, phases = p.phases;
  const int64_t last = (b.lines - 1) * phases + (p.line_taps - 1) * rows.dilation; // stored line
  for (int64_t t = 0; t < depths.taps; ++t, strip += p.plane_bytes) {
    const int64_t depth = inside(depths, b.depth * depths.step + t * depths.dilation - depths.before);
    for (int64_t phase = 0; phase < phases; ++phase) {
      char *out = strip + phase * p.phase_bytes;
      for (int64_t y = phase; y <= last; y += phases, out += p.line_positions * p.position_bytes)
        if (p.runs)
          gather_line(p, image, depth, first + y * p.pitch[0], reinterpret_cast<typename P::From *>(out));
        else
          store_line<P>(p, line_of(p, image, depth, inside(rows, first + y * p.pitch[0])), -p.axis[2].before,
                        p.stored_columns, out);
    }
  }
}

// One tap, or all in one: positions that run through whole images.
template <class P>
POLYCONV_INLINE void fill_flat_strip(const MatrixPlan &p, const typename P::From *in, const MatrixBlock &b,
                                     char *strip) {
  const Axis &depths = p.axis[0], &rows = p.axis[1], &columns = p.axis[2];
  const int64_t pixels = depths.out * rows.out * columns.out, end = b.line + b.lines;
  for (int64_t i = b.line; i < end;) {
    const typename P::From *image = in + (b.image + i / pixels) * p.input.stride[0];
    const int64_t at = i % pixels, line = at / columns.out, w = at % columns.out;
    const int64_t rest = p.one_stride ? pixels - at : columns.out - w;
    const int64_t count = rest < end - i ? rest : end - i;
    if (p.one_stride) {
      store_pixels<P>(p, image + at * p.input.stride[4], p.input.stride[4], count, strip);
    } else {
      const int64_t depth = inside(depths, line / rows.out * depths.step - depths.before);
      const int64_t row = inside(rows, line % rows.out * rows.step - rows.before);
      if (p.gathered)
        gather_pixels<P>(p, image, line, w, count, strip);
      else
        store_line<P>(p, line_of(p, image, depth, row), w * columns.step - columns.before, count, strip);
    }
    i += count, strip += count * p.position_bytes;
  }
}

} // namespace polyconv::cpu::POLYCONV_ISA
