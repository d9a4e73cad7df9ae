// bands.hpp - a large picture in bands of rows, so that what a filter takes besides the picture and its copy is
// bounded. A band brings the rows that the filter reads above and below it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "image.hpp"

struct Band {
  int64_t first, rows;  // of the result
  int64_t above, below; // rows before and after it that the filter reads
  bool whole;           // the only one: the library itself pads above and below
  int64_t read() const { return whole ? rows : above + rows + below; }
};

// Bands that take about `bytes` each, where a pixel of the picture takes `pixel_bytes` while it is filtered. At least
// one row each.
std::vector<Band> bands_of(const Image &image, int64_t above, int64_t below, int64_t pixel_bytes, int64_t bytes);

// The colours of the rows that a band reads, without alpha. What lies outside the picture is as `border` has it: zero,
// constant, reflect, symmetric, replicate or circular.
std::vector<uint8_t> rows_of(const Image &image, const Band &band, const std::string &border, double border_value);

// Puts a band's colours, without alpha, into the picture.
void put_rows(const Band &band, const std::vector<uint8_t> &colours, Image &image);
