// network.hpp - a network as a text file: how images reach it, then one line a layer, in the fields and words of
// polyconv's problem tokens (docs/problem-token.md). Fully connected layers are convolutions as large as their input.
//
//   input 28x28 repeat3 border1     28x28 images, every pixel tripled, one zero pixel around: 86x86
//   layer k4,f7x7:bias+relu+maxpool2
//   layer k10,f8x8:bias             '#' begins a comment
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lenet {

struct Network {
  std::string name;                      // the file's, without folder and ending
  int64_t rows = 0, columns = 0;         // of an image in the data
  int64_t repeat = 1, border = 0;        // each pixel repeated so often, then zeros around
  std::vector<std::string> layer_tokens; // "k6,f5x5,p2:bias+relu"

  int64_t input_rows() const { return rows * repeat + 2 * border; }
  int64_t input_columns() const { return columns * repeat + 2 * border; }
  int64_t classes() const;

  // The forward problems of a batch in POLYCONV_F32, F16 or BF16; the last writes f32 scores.
  std::vector<polyconv::Problem> problems(int64_t batch, int32_t type) const;

  // Equal texts, equal networks.
  std::string text() const;
};

// Reads and checks a file; parse says `path` in its sentences. Throw Failure.
Network read_network(const std::string &path);
Network parse_network(const std::string &text, const std::string &path);

} // namespace lenet
