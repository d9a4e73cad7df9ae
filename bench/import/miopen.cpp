// miopen.cpp - calls of MIOpenDriver, as MIOPEN_ENABLE_LOGGING_CMD=1 writes them: "./bin/MIOpenDriver convfp16 -n 8 -c
// 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -F 1". Source: MIOpen's driver, conv_driver.hpp (flags and defaults).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "import/import.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

struct Flag {
  const char *letter, *name;
  const char *absent; // its default
};
constexpr Flag kFlags[] = {{"n", "batchsize", "100"},
                           {"c", "in_channels", "3"},
                           {"H", "in_h", "32"},
                           {"W", "in_w", "32"},
                           {"!", "in_d", "32"},
                           {"k", "out_channels", "32"},
                           {"y", "fil_h", "3"},
                           {"x", "fil_w", "3"},
                           {"@", "fil_d", "3"},
                           {"p", "pad_h", "0"},
                           {"q", "pad_w", "0"},
                           {"$", "pad_d", "0"},
                           {"u", "conv_stride_h", "1"},
                           {"v", "conv_stride_w", "1"},
                           {"#", "conv_stride_d", "1"},
                           {"l", "dilation_h", "1"},
                           {"j", "dilation_w", "1"},
                           {"^", "dilation_d", "1"},
                           {"g", "group_count", "1"},
                           {"F", "forw", "0"},
                           {"m", "mode", "conv"},
                           {"b", "bias", "0"},
                           {"_", "spatial_dim", "2"},
                           {"I", "in_layout", "NCHW"},
                           {"X", "trans_output_pad_w", "0"},
                           {"Y", "trans_output_pad_h", "0"},
                           {"%", "trans_output_pad_d", "0"}};

using Values = std::map<std::string, std::string>; // by long name

// "-n 8", "-n8" is not taken, "--in_layout NHWC" and "--in_layout=NHWC" are, as is "-in_layout=NHWC".
Values values_of(const std::vector<std::string> &words, size_t first) {
  Values values;
  for (const Flag &flag : kFlags) values[flag.name] = flag.absent;
  for (size_t i = first; i < words.size(); ++i) {
    if (words[i].empty() || words[i][0] != '-') continue;
    const size_t begin = words[i].find_first_not_of('-'), sign = words[i].find('=');
    if (begin == std::string::npos) continue;
    const std::string name = words[i].substr(begin, sign == std::string::npos ? sign : sign - begin);
    const auto flag = std::find_if(std::begin(kFlags), std::end(kFlags),
                                   [&](const Flag &f) { return name == f.letter || name == f.name; });
    if (flag == std::end(kFlags)) continue;
    if (sign != std::string::npos)
      values[flag->name] = words[i].substr(sign + 1);
    else if (i + 1 < words.size())
      values[flag->name] = words[++i];
  }
  return values;
}

Layer layer_of(const Values &values, const std::string &where) {
  const auto number = [&](const std::string &name) { return parse_integer(values.at(name), where + ": --" + name); };
  Layer layer;
  layer.batch = number("batchsize"), layer.in_channels = number("in_channels");
  layer.out_channels = number("out_channels"), layer.groups = number("group_count");
  layer.channels_last = values.at("in_layout") == "NHWC" || values.at("in_layout") == "NDHWC";
  layer.bias = number("bias") != 0;
  const bool transposed = values.at("mode") == "trans";
  for (const char *axis :
       number("spatial_dim") == 3 ? std::vector<const char *>{"d", "h", "w"} : std::vector<const char *>{"h", "w"}) {
    const std::string a = axis;
    layer.input.push_back(number("in_" + a)), layer.kernel.push_back(number("fil_" + a));
    layer.stride.push_back(number("conv_stride_" + a)), layer.dilation.push_back(number("dilation_" + a));
    layer.pad_begin.push_back(number("pad_" + a)), layer.pad_end.push_back(number("pad_" + a));
    if (transposed) layer.output_padding.push_back(number("trans_output_pad_" + a));
  }
  return layer;
}

} // namespace

bool read_miopen(const std::string &line, const std::string &where, Collector &collector) {
  if (line.find("MIOpenDriver") == std::string::npos) return false;
  const std::vector<std::string> words = split(line, ' ');
  static const std::map<std::string, std::string> kTypes = {
      {"conv", "f32"}, {"convfp16", "f16"}, {"convbfp16", "bf16"}, {"convint8", "s8"}};
  size_t at = 0;
  while (at < words.size() && kTypes.count(words[at]) == 0) ++at;
  if (at == words.size()) return false; // another primitive
  try {
    const Values values = values_of(words, at + 1);
    Layer layer = layer_of(values, where);
    layer.types = kTypes.at(words[at]);
    const std::string begin = values.at("mode") == "trans" ? "t" : "";
    int64_t ways = parse_integer(values.at("forw"), where + ": --forw");
    if (ways == 0) ways = 7;
    const bool bias = layer.bias;
    for (const auto &[bit, way] : {std::pair<int64_t, const char *>{1, "fwd"}, {2, "bwd_d"}, {4, "bwd_w"}}) {
      if ((ways & bit) == 0) continue;
      layer.direction = begin + way;
      layer.bias = bias && bit != 2;
      collector.add(token_of(layer), "", where);
    }
  } catch (const Error &failure) {
    collector.warn(std::string("left out: ") + failure.what());
  }
  return true;
}

} // namespace polyconv::bench
