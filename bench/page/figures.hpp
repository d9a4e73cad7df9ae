// figures.hpp - the pictures of a report. Each says for itself whether the rows have what it shows: a report of rows
// without a baseline has no picture of ratios.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "page/picture.hpp"
#include "page/row.hpp"

namespace polyconv::bench {

struct Figure {
  std::string id;      // of the place in the page, and the name of its file: "roofline"
  std::string title;   // what it is
  std::string caption; // what a reader should see in it, with figures
  std::function<Picture(double width)> draw;
};

using Figures = std::vector<Figure>;

// Every row that has a roof as a point: what it reaches over how many operations it has for each byte (roofline.cpp).
Figures roofline_figures(const std::vector<Row> &rows);

// What the roofs of rows say of the ceilings that they were measured under: "cpu, 1 thread: memory 51 GB/s, f32 221
// GFLOP/s". One sentence a device and number of threads.
std::vector<std::string> ceilings_of(const std::vector<Row> &rows);

// The ratios to each baseline, sorted, with the share below 1 (speedup.cpp).
Figures speedup_figures(const std::vector<Row> &rows);

// The time of each layer of a network with all its occurrences (layers.cpp). `results` are the rows' own, for the
// profiles of rows that are whole networks.
Figures layer_figures(const std::vector<Row> &rows, const std::vector<Result> &results);

// Problems that were run on two devices: one's time over the other's; and the error of each row over its bound
// (planes.cpp).
Figures device_figures(const std::vector<Row> &rows);
Figures error_figures(const std::vector<Row> &rows);

// Sweeps: problems that differ in two dimensions, or in one and the kernel, as a table of colours (heat.cpp).
Figures heat_figures(const std::vector<Row> &rows);

// What changed since an earlier result: new time over old, sorted, with the interval of each (difference.cpp).
struct Change {
  size_t row;               // of the new rows
  double change, low, high; // new time over old, and where it lies by both intervals and the machine's spread
};
Figures difference_figures(const std::vector<Change> &changes);

} // namespace polyconv::bench
