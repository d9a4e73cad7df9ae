// filters.cpp - see filters.hpp. Smoothing and derivatives come from two rows each: the binomial row and its
// differences, so that one size parameter serves every filter.
// SPDX-License-Identifier: Apache-2.0
#include "filters.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "image.hpp"

namespace {

using Row = std::vector<double>;

Row convolve(const Row &a, const Row &b) {
  Row c(a.size() + b.size() - 1, 0.0);
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j) c[i + j] += a[i] * b[j];
  return c;
}

double sum(const Row &row) {
  double total = 0;
  for (double v : row) total += v;
  return total;
}

// Sums to 1; {1 2 1}/4 for 3.
Row binomial(int64_t size) {
  Row row{1.0};
  while (static_cast<int64_t>(row.size()) < size) row = convolve(row, {0.5, 0.5});
  return row;
}

// First and second difference of a binomial row: {-1 0 1}/2 and {1 -2 1} for 3.
Row first_difference(int64_t size) {
  return convolve(binomial(size - 2), {-0.5, 0, 0.5});
}
Row second_difference(int64_t size) {
  return convolve(binomial(size - 2), {1, -2, 1});
}

// The usual rule that ties sigma to the size.
Row gaussian(int64_t size) {
  const double sigma = 0.3 * (0.5 * static_cast<double>(size - 1) - 1) + 0.8;
  Row row;
  for (int64_t i = 0; i < size; ++i) {
    const double x = static_cast<double>(i) - 0.5 * static_cast<double>(size - 1);
    row.push_back(std::exp(-x * x / (2 * sigma * sigma)));
  }
  const double total = sum(row);
  for (double &v : row) v /= total;
  return row;
}

// weight * outer(vertical, horizontal), added to a kernel.
void add_outer(std::vector<float> &kernel, const Row &vertical, const Row &horizontal, double weight) {
  for (size_t r = 0; r < vertical.size(); ++r)
    for (size_t s = 0; s < horizontal.size(); ++s)
      kernel[r * horizontal.size() + s] += static_cast<float>(weight * vertical[r] * horizontal[s]);
}

float finite_number(const std::string &place, const std::string &word) {
  char *end = nullptr;
  const float value = std::strtof(word.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value))
    throw Failure(kExitFailed, place + "'" + word + "' is not a finite number");
  return value;
}

} // namespace

std::vector<std::string> filter_names() {
  return {"gaussian", "box", "sharpen", "sobel", "emboss", "laplacian"};
}

Filter named_filter(const std::string &name, int64_t size) {
  if (size < 3 || size > 63 || size % 2 == 0)
    throw Failure(kExitUsage, "--size is " + std::to_string(size) + "; expected an odd number from 3 to 63");
  Filter filter;
  filter.name = name;
  filter.rows = filter.columns = size;
  std::vector<float> kernel(static_cast<size_t>(size * size), 0.0f);
  const size_t middle = kernel.size() / 2;
  filter.separable = name == "gaussian" || name == "box" || name == "sobel";
  if (name == "gaussian") {
    add_outer(kernel, gaussian(size), gaussian(size), 1);
  } else if (name == "box") {
    std::fill(kernel.begin(), kernel.end(), 1.0f / static_cast<float>(size * size));
  } else if (name == "sharpen") { // the picture, and once more what a blur takes away from it
    add_outer(kernel, gaussian(size), gaussian(size), -1);
    kernel[middle] += 2;
  } else if (name == "sobel") { // half the usual weights for 3: edges show, strong ones do not all saturate
    filter.kernels.push_back(kernel);
    add_outer(filter.kernels[0], binomial(size), first_difference(size), 4);
    add_outer(kernel, first_difference(size), binomial(size), 4);
  } else if (name == "emboss") { // light from the upper left
    add_outer(kernel, binomial(size), first_difference(size), 4);
    add_outer(kernel, first_difference(size), binomial(size), 4);
    kernel[middle] += 1;
  } else if (name == "laplacian") {
    add_outer(kernel, binomial(size), second_difference(size), 2);
    add_outer(kernel, second_difference(size), binomial(size), 2);
    filter.centre = 128;
  } else {
    std::string names;
    for (const std::string &known : filter_names()) names.append(names.empty() ? "" : ", ").append(known);
    throw Failure(kExitUsage, "--filter is '" + name + "'; expected one of " + names);
  }
  filter.kernels.push_back(kernel);
  return filter;
}

Filter filter_from_file(const std::string &path) {
  std::ifstream file(path);
  if (!file) throw Failure(kExitFailed, path + ": cannot be read");
  Filter filter;
  filter.name = path;
  std::vector<float> &kernel = filter.kernels.emplace_back();
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    const std::string place = path + ":" + std::to_string(number) + ": ";
    const size_t before = kernel.size();
    for (std::string word; words >> word;) kernel.push_back(finite_number(place, word));
    const auto columns = static_cast<int64_t>(kernel.size() - before);
    if (columns == 0) continue;
    if (filter.rows++ == 0) filter.columns = columns;
    if (columns != filter.columns)
      throw Failure(kExitFailed, place + std::to_string(columns) + " numbers; expected " +
                                     std::to_string(filter.columns) + " as in the rows before");
  }
  if (filter.rows == 0) throw Failure(kExitFailed, path + ": holds no numbers; expected rows of them");
  return filter;
}
