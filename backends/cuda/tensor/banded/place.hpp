// place.hpp - what the ways of cuda-tensor/banded share when they cut up a layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "banded/banded.hpp"
#include "few/few.hpp"

namespace polyconv::cuda::banded {

// Windows that begin at multiples of `align` elements from where an aligned row begins.
inline bool place_windows(const Form &f, int columns, int align, Geometry &g) {
  const int32_t before = g.pad_w * g.inner;
  g.columns = columns;
  g.tile_filters = 16 / (f.rows * columns);
  g.move = columns * g.step_w * g.inner;
  g.shift = (align - before % align) % align;
  g.first = -before - g.shift;
  g.positions = small(ceil_div(g.output_w, columns));
  return g.shift + ((columns - 1) * g.step_w + g.taps_w) * g.inner <= 8 * f.words && g.move % align == 0;
}

inline void cut_rows(const Form &f, int rows, Geometry &g) {
  g.group = g.tile_filters * f.tiles;
  g.groups = small(ceil_div(g.filters, g.group));
  g.strips = small(ceil_div(g.output_h, rows));
  g.strip = g.strips == 1 ? g.output_h : small(ceil_div(ceil_div(g.output_h, g.strips), f.rows) * f.rows);
  g.strips = small(ceil_div(g.output_h, g.strip));
}

// Each completes a choice whose variant and problem are set; false where the variant does not take it.
bool place_sheet(const polyconv_layer &layer, int rows, Choice &c);
bool place_tracks(const polyconv_layer &layer, int rows, Choice &c);

// Nanoseconds of the kernel, but for what memory takes.
double sheet_time(const Choice &c);
double track_time(const Choice &c);

} // namespace polyconv::cuda::banded
