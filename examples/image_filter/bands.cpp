// bands.cpp - see bands.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "bands.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace {

// The row that row `y`, maybe outside, reads; -1 for the border's value.
int64_t row_read(int64_t y, int64_t height, const std::string &border) {
  if (y >= 0 && y < height) return y;
  if (border == "replicate") return std::clamp<int64_t>(y, 0, height - 1);
  if (border == "circular") return (y % height + height) % height;
  if (border != "reflect" && border != "symmetric") return -1;
  const int64_t edge = border == "symmetric" ? 1 : 0; // whether the outermost row is read twice
  const int64_t period = std::max<int64_t>(2 * height - 2 + 2 * edge, 1);
  const int64_t place = ((y % period) + period) % period;
  return place < height ? place : period - place - edge;
}

void fill(uint8_t *row, int64_t samples, int64_t bytes, double value) {
  const auto whole = static_cast<uint16_t>(std::nearbyint(value));
  for (int64_t i = 0; i < samples; ++i)
    if (bytes == 1)
      row[i] = static_cast<uint8_t>(whole);
    else
      std::memcpy(row + 2 * i, &whole, 2);
}

} // namespace

std::vector<Band> bands_of(const Image &image, int64_t above, int64_t below, int64_t pixel_bytes, int64_t bytes) {
  const int64_t row_bytes = std::max<int64_t>(image.width * pixel_bytes, 1);
  const int64_t most = std::max<int64_t>(bytes / row_bytes - above - below, 1);
  if (image.height <= most) return {{0, image.height, above, below, true}};
  std::vector<Band> bands;
  const int64_t count = (image.height + most - 1) / most;
  for (int64_t i = 0; i < count; ++i) { // of one size or one row less
    const int64_t first = image.height * i / count, end = image.height * (i + 1) / count;
    bands.push_back({first, end - first, above, below, false});
  }
  return bands;
}

std::vector<uint8_t> rows_of(const Image &image, const Band &band, const std::string &border, double border_value) {
  const int64_t pixel = image.channels * image.bytes, kept = image.colours() * image.bytes;
  const int64_t row_bytes = image.width * kept, first = band.whole ? 0 : band.first - band.above;
  std::vector<uint8_t> rows(static_cast<size_t>(band.read() * row_bytes));
  for (int64_t i = 0; i < band.read(); ++i) {
    uint8_t *row = rows.data() + i * row_bytes;
    const int64_t from = row_read(first + i, image.height, border);
    if (from < 0) {
      fill(row, image.width * image.colours(), image.bytes, border == "constant" ? border_value : 0);
      continue;
    }
    const uint8_t *source = image.pixels.data() + from * image.row_bytes();
    if (!image.alpha()) std::memcpy(row, source, static_cast<size_t>(row_bytes));
    for (int64_t x = 0; image.alpha() && x < image.width; ++x)
      std::memcpy(row + x * kept, source + x * pixel, static_cast<size_t>(kept));
  }
  return rows;
}

void put_rows(const Band &band, const std::vector<uint8_t> &colours, Image &image) {
  const int64_t pixel = image.channels * image.bytes, kept = image.colours() * image.bytes;
  uint8_t *to = image.pixels.data() + band.first * image.row_bytes();
  for (int64_t i = 0; i < band.rows * image.width; ++i)
    std::memcpy(to + i * pixel, colours.data() + i * kept, static_cast<size_t>(kept));
}
