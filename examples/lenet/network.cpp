// network.cpp - see network.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <fstream>
#include <sstream>

#include "failure.hpp"

namespace lenet {
namespace {

// One line of the file, and how to complain about it.
struct Line {
  const std::string &path;
  int number;

  [[noreturn]] void refuse(const std::string &what) const {
    throw Failure(kExitFailed, path + ":" + std::to_string(number) + ": " + what);
  }
};

// The number behind `word` in `text`, as in "repeat3".
int64_t number_after(const std::string &text, const std::string &word, int64_t low, const Line &line) {
  const std::string digits = text.substr(word.size());
  if (digits.empty() || digits.size() > 4 || digits.find_first_not_of("0123456789") != std::string::npos ||
      std::stoll(digits) < low)
    line.refuse("'" + text + "'; expected " + word + " and a number from " + std::to_string(low) + " to 9999");
  return std::stoll(digits);
}

void read_input(std::istringstream &words, const Line &line, Network *network) {
  std::string size;
  words >> size;
  const size_t cross = size.find('x');
  if (cross == std::string::npos) line.refuse("'" + size + "'; expected the size of the images, as in 28x28");
  network->rows = number_after(size.substr(0, cross), "", 1, line);
  network->columns = number_after(size.substr(cross + 1), "", 1, line);
  for (std::string word; words >> word;) {
    if (word.rfind("repeat", 0) == 0)
      network->repeat = number_after(word, "repeat", 1, line);
    else if (word.rfind("border", 0) == 0)
      network->border = number_after(word, "border", 0, line);
    else
      line.refuse("'" + word + "'; expected repeat and a number, or border and a number");
  }
}

// The problem of one layer, which reads `channels` planes.
polyconv::Problem layer_problem(const std::string &layer, int64_t batch, int64_t channels, int64_t rows,
                                int64_t columns) {
  return polyconv::Problem("fwd:n" + std::to_string(batch) + ",c" + std::to_string(channels) + ",i" +
                           std::to_string(rows) + "x" + std::to_string(columns) + "," + layer);
}

// What the trainer cannot go back through, or has no data for.
const char *objection(const polyconv::Problem &p, bool last) {
  if (p.direction != POLYCONV_FORWARD || p.spatial_dims != 2) return "a two-dimensional forward layer";
  if (p.input_type != POLYCONV_F32 || p.output_type != POLYCONV_F32) return "no type: the command line gives it";
  if (p.epilogue.has_scale != 0 || p.epilogue.residual_from != POLYCONV_RESIDUAL_NONE ||
      p.epilogue.activation == POLYCONV_ACT_PRELU)
    return "no scale, no residual and no prelu: bias, other activations and pooling are taken";
  if (!last) return nullptr;
  const polyconv_tensor output = p.tensor(POLYCONV_TENSOR_OUTPUT);
  if (output.size[3] != 1 || output.size[4] != 1) return "one pixel a class from the last layer";
  if (p.epilogue.activation != POLYCONV_ACT_NONE) return "no activation in the last layer: the loss takes bare scores";
  if (p.out_channels > 256) return "at most 256 classes from the last layer: labels are bytes";
  return nullptr;
}

} // namespace

int64_t Network::classes() const {
  return problems(1, POLYCONV_F32).back().out_channels;
}

std::vector<polyconv::Problem> Network::problems(int64_t batch, int32_t type) const {
  std::vector<polyconv::Problem> result;
  int64_t channels = 1, height = input_rows(), width = input_columns();
  for (const std::string &layer : layer_tokens) {
    polyconv::Problem p = layer_problem(layer, batch, channels, height, width);
    p.input_type = p.weights_type = p.output_type = type;
    const polyconv_tensor output = p.tensor(POLYCONV_TENSOR_OUTPUT);
    channels = output.size[1], height = output.size[3], width = output.size[4];
    result.push_back(p);
  }
  result.back().output_type = POLYCONV_F32;
  return result;
}

std::string Network::text() const {
  std::string result = "input " + std::to_string(rows) + "x" + std::to_string(columns) + " repeat" +
                       std::to_string(repeat) + " border" + std::to_string(border) + "\n";
  for (const polyconv::Problem &p : problems(1, POLYCONV_F32)) result += p.token() + "\n";
  return result;
}

Network parse_network(const std::string &text, const std::string &path) {
  Network network;
  const size_t slash = path.find_last_of('/'), begin = slash == std::string::npos ? 0 : slash + 1;
  network.name =
      path.substr(begin, path.find_last_of('.') > begin ? path.find_last_of('.') - begin : std::string::npos);
  std::istringstream lines(text);
  int64_t channels = 1, rows = 0, columns = 0;
  Line line{path, 0};
  polyconv::Problem last;
  for (std::string row; std::getline(lines, row);) {
    ++line.number;
    std::istringstream words(row.substr(0, row.find('#')));
    std::string word, layer, more;
    if (!(words >> word)) continue;
    if (word == "input") {
      read_input(words, line, &network);
      rows = network.input_rows(), columns = network.input_columns();
      continue;
    }
    if (word != "layer") line.refuse("'" + word + "'; expected input or layer");
    if (rows == 0) line.refuse("a layer before the line that says input");
    if (!(words >> layer) || words >> more) line.refuse("expected one word behind layer, as in k6,f5x5,p2:bias+relu");
    try {
      last = layer_problem(layer, 1, channels, rows, columns);
      last.validate();
    } catch (const polyconv::Error &error) {
      line.refuse(error.what());
    }
    if (const char *expected = objection(last, false)) line.refuse("'" + layer + "'; expected " + expected);
    const polyconv_tensor output = last.tensor(POLYCONV_TENSOR_OUTPUT);
    channels = output.size[1], rows = output.size[3], columns = output.size[4];
    network.layer_tokens.push_back(layer);
  }
  if (network.layer_tokens.empty()) line.refuse("the file ends without a layer");
  if (const char *expected = objection(last, true)) line.refuse(std::string("expected ") + expected);
  return network;
}

Network read_network(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw Failure(kExitFailed, path + ": cannot be read; expected a network file");
  return parse_network(text.str(), path);
}

} // namespace lenet
