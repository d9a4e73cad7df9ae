// import.hpp - the convolutions that other programs' logs, command lines and models tell, as problems of a suite.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "work/work.hpp"

namespace polyconv::bench {

// What was found in one file: each distinct problem once, with how often it occurs and the first name it has.
struct Imported {
  std::vector<Work> works;
  std::vector<std::string> warnings; // what was left out, a sentence each
};

// Collects problems; one that is not valid, or that polyconv has no word for, becomes a warning.
class Collector {
 public:
  // `where` is "file:3".
  void add(const std::string &token, const std::string &name, const std::string &where);
  void add(const polyconv_problem &problem, const std::string &name);
  void warn(const std::string &sentence);
  Imported take();

 private:
  void add(Work work, const std::string &name);

  Imported imported_;
  std::map<std::string, size_t> places_; // of tokens, of warnings
};

// Sizes that a model leaves open: {"batch", 1} of a dimension by its name, {"input@0", 8} of an input's axis.
using OpenSizes = std::vector<std::pair<std::string, int64_t>>;

// Reads a file by what it holds: an ONNX model (ending .onnx), or text whose lines are benchdnn's problem descriptors
// and options, calls of MIOpenDriver, graphs in JSON as cudnn-frontend logs them, a log of polyconv, or tokens.
// Error(kUsage) where it cannot be read or tells no convolution.
Imported import_file(const std::string &path, const OpenSizes &sizes);

// As a suite: a line each, with its count and name, under what it was imported from.
std::string suite_text(const Imported &imported, const std::string &path);

// One reader for each sort. Each returns whether the line is its own; what it then cannot take it warns of.
class Benchdnn { // remembers options from line to line, as benchdnn does
 public:
  bool read(const std::string &line, const std::string &where, Collector &collector);

 private:
  bool option(const std::string &word);
  bool descriptor(const std::string &word, const std::string &where, Collector &collector);

  bool transposed_ = false;
  std::string direction_ = "FWD_B", types_ = "f32", layout_;
  int64_t batch_ = 0; // 0: the descriptor's own
  std::vector<std::string> left_out_;
};
bool read_miopen(const std::string &line, const std::string &where, Collector &collector);
bool read_cudnn(const std::string &line, const std::string &where, Collector &collector);
void read_onnx(const std::string &path, const OpenSizes &sizes, Collector &collector);

// A problem as the readers of text gather it. Every list has a number for each axis, the outermost first.
struct Layer {
  std::string direction = "fwd"; // of the token
  int64_t batch = 1, in_channels = 1, out_channels = 1, groups = 1;
  std::vector<int64_t> input, kernel, stride, pad_begin, pad_end, dilation, output_padding;
  bool channels_last = false, bias = false;
  std::string types = "f32"; // "f16", "u8-s8-s32"
};
std::string token_of(const Layer &layer);

} // namespace polyconv::bench
