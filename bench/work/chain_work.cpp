// chain_work.cpp - chains: layers that one plan takes, from tokens and files, and changes of one layer that the others
// follow.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "system/machine.hpp"
#include "text/text.hpp"
#include "work/suite.hpp"
#include "work/work.hpp"

namespace polyconv::bench {

namespace {

namespace fs = std::filesystem;

const char *const kArrow = ">";

fs::path chains_folder() {
  return data_folder("suites") / "chains";
}

// "lenet28" or a path.
fs::path path_of(const std::string &name) {
  std::error_code ignored;
  if (name.find_first_of("/.") != std::string::npos) return name;
  fs::path path = chains_folder() / (name + ".chain");
  if (fs::is_regular_file(path, ignored)) return path;
  const std::vector<std::string> known = chain_names();
  throw Error(kUsage, "no chain is called '" + name + "'; there are " + join(known, ", ") +
                          ", or give the path of a file" + did_you_mean(name, known));
}

// Who types a suite's or chain's name where a token belongs hears of the option.
void refuse_names(const std::string &token) {
  for (const auto &[option, names] : {std::pair("--suite", suite_names()), std::pair("--chain", chain_names())})
    if (std::find(names.begin(), names.end(), token) != names.end())
      throw Error(kUsage, format("'%s' is no problem token; expected %s %s", token.c_str(), option, token.c_str()));
}

Work checked(const std::vector<polyconv_problem> &layers, const std::string &where) {
  const auto count = static_cast<int32_t>(layers.size());
  if (count < 1 || count > POLYCONV_MAX_CHAIN)
    throw Error(kUsage, format("%s: %d layers; expected 1 to %d", where.c_str(), count, POLYCONV_MAX_CHAIN));
  if (count > 1 && polyconv_problem_validate(layers.data(), count) != POLYCONV_SUCCESS)
    throw Error(kUsage, where + ": " + polyconv_last_error());
  return make_work(layers);
}

// What `layer` reads becomes what the one before writes; a depthwise layer stays one.
void follow(const polyconv_problem &before, polyconv_problem &layer) {
  polyconv_tensor output;
  if (polyconv_problem_tensor(&before, POLYCONV_TENSOR_OUTPUT, &output, nullptr) != POLYCONV_SUCCESS)
    throw Error(kUsage, polyconv_last_error());
  const int64_t channels = before.out_channels;
  if (layer.groups > 1 && layer.groups == layer.in_channels) {
    layer.out_channels = layer.out_channels / layer.in_channels * channels;
    layer.groups = channels;
  }
  layer.in_channels = channels;
  layer.batch = before.batch;
  for (int axis = 0; axis < layer.spatial_dims; ++axis)
    layer.input_size[axis] = output.size[5 - layer.spatial_dims + axis];
}

} // namespace

Work make_work(const std::vector<polyconv_problem> &layers) {
  Work work;
  work.problems = layers;
  std::vector<std::string> tokens;
  tokens.reserve(layers.size());
  for (const polyconv_problem &layer : layers) tokens.push_back(format_problem(layer));
  work.token = join(tokens, std::string(" ") + kArrow + " ");
  return work;
}

Work parse_work(const std::string &token, const std::string &where) {
  std::vector<polyconv_problem> layers;
  refuse_names(token);
  for (const std::string &layer : split(token, kArrow[0])) layers.push_back(parse_problem(layer, where));
  return checked(layers, where.empty() ? token : where);
}

std::vector<std::string> chain_names() {
  return file_names(chains_folder(), ".chain");
}

Work load_chain(const std::string &name) {
  const fs::path path = path_of(name);
  std::vector<polyconv_problem> layers;
  int number = 0;
  for (const std::string &line : read_lines(path.string())) {
    ++number;
    const std::string token = trim(line.substr(0, line.find('#')));
    if (!token.empty()) layers.push_back(parse_problem(token, format("%s:%d", path.string().c_str(), number)));
  }
  Work chain = checked(layers, path.string());
  chain.name = path.stem().string();
  return chain;
}

void change_layer(std::vector<polyconv_problem> &layers, size_t index, const std::vector<std::string> &fields,
                  const std::string &value) {
  const std::string what = (index > 0 ? std::to_string(index) + "." : "") + join(fields, "=") + "=" + value;
  if (index >= layers.size())
    throw Error(kUsage,
                format("%s is for layer %zu; expected a layer from 0 to %zu", what.c_str(), index, layers.size() - 1));
  std::string token = format_problem(layers[index]);
  for (const std::string &field : fields) token = set_field(token, field, value);
  layers[index] = parse_problem(token, "after " + what);
  for (size_t later = 1; later < layers.size(); ++later) follow(layers[later - 1], layers[later]);
  if (polyconv_problem_validate(layers.data(), static_cast<int32_t>(layers.size())) != POLYCONV_SUCCESS)
    throw Error(kUsage, "after " + what + ": " + polyconv_last_error());
}

} // namespace polyconv::bench
