// benchdnn.cpp - problem descriptors and options of oneDNN's benchdnn: "--conv --dir=BWD_D mb1_ic16ih7oc32oh7kh3ph1".
// Source: oneDNN, tests/benchdnn/doc/driver_conv.md and knobs_desc.md. A descriptor's dilation counts from 0, its
// padding at the end follows from the output's size, and axes that are not named are like the one behind them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "import/import.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

namespace {

using Entries = std::map<std::string, int64_t>;

// "g2mb1_ic16ih7…nNAME" as entries; false where it is no such descriptor. The name is what follows a lone n.
bool split_descriptor(const std::string &text, Entries &entries, std::string &name) {
  static const char *const kNames[] = {"g",  "mb", "ic", "id", "ih", "iw", "oc", "od", "oh", "ow", "kd",
                                       "kh", "kw", "sd", "sh", "sw", "pd", "ph", "pw", "dd", "dh", "dw"};
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '_') {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::string key = text.substr(at, end - at);
    if (!key.empty() && key[0] == 'n' && std::find(std::begin(kNames), std::end(kNames), key) == std::end(kNames)) {
      name = text.substr(at + 1);
      name.erase(std::remove(name.begin(), name.end(), '"'), name.end());
      break;
    }
    if (std::find(std::begin(kNames), std::end(kNames), key) == std::end(kNames)) return false;
    size_t last = end;
    while (last < text.size() && std::isdigit(static_cast<unsigned char>(text[last])) != 0) ++last;
    if (last == end || last - end > 9) return false; // paddings are products of two entries and stay within 64 bits
    entries[key] = std::stoll(text.substr(end, last - end));
    at = last;
  }
  return entries.count("ic") > 0 && entries.count("oc") > 0 &&
         (entries.count("ih") > 0 || entries.count("iw") > 0 || entries.count("id") > 0);
}

// The axes that the descriptor has: "dhw", "hw" or "w". One that names only the depth, or the height, is a cube or a
// square.
std::string axes_of(const Entries &entries) {
  if (entries.count("id") > 0) return "dhw";
  return entries.count("ih") > 0 ? "hw" : "w";
}

// An entry of an axis, or of the nearest before it that the descriptor names.
std::optional<int64_t> entry(const Entries &entries, char kind, const std::string &axes, size_t axis) {
  for (size_t i = axis + 1; i-- > 0;) {
    const auto found = entries.find(std::string(1, kind) + axes[i]);
    if (found != entries.end()) return found->second;
  }
  return std::nullopt;
}

void read_axes(const Entries &entries, bool transposed, Layer &layer) {
  const std::string axes = axes_of(entries);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t input = entry(entries, 'i', axes, i).value_or(1), kernel = entry(entries, 'k', axes, i).value_or(1),
                  stride = entry(entries, 's', axes, i).value_or(1),
                  dilation = entry(entries, 'd', axes, i).value_or(0) + 1, reach = (kernel - 1) * dilation + 1;
    const std::optional<int64_t> output = entry(entries, 'o', axes, i), pad = entry(entries, 'p', axes, i);
    // Both paddings of an axis together, which its output tells; of a transposed layer that is what the window moves
    // over.
    const int64_t size = output.value_or(0), moved = (transposed ? input : size) - 1;
    const int64_t both = moved * stride + reach - (transposed ? size : input);
    const int64_t begin = pad ? *pad : output ? std::max<int64_t>(both, 0) / 2 : 0;
    layer.input.push_back(input), layer.kernel.push_back(kernel), layer.stride.push_back(stride);
    layer.dilation.push_back(dilation), layer.pad_begin.push_back(begin);
    // What the window never reaches at the end is left out by a negative padding, which polyconv takes; none is clearer
    // where the strides leave it out anyway.
    layer.pad_end.push_back(!output ? begin : transposed ? both - begin : std::max<int64_t>(both - begin, 0));
  }
}

// "u8:s8:f32" or "u8s8f32" or "bf16" as polyconv writes types.
std::string types_of(const std::string &text) {
  std::vector<std::string> parts = split(text, ':');
  if (parts.size() == 1) {
    parts.clear();
    const std::string word = text.substr(0, text.find('_')); // "f32_wino"
    for (size_t at = 0; at < word.size();) {
      size_t end = at;
      while (end < word.size() && std::isalpha(static_cast<unsigned char>(word[end])) != 0) ++end;
      while (end < word.size() && std::isdigit(static_cast<unsigned char>(word[end])) != 0) ++end;
      if (end == at) end = word.size(); // no type: the token that has it is refused by its word
      parts.push_back(word.substr(at, end - at));
      at = end;
    }
  }
  if (parts.size() == 3 && parts[0] == parts[1] && parts[1] == parts[2]) parts.resize(1);
  if (parts.size() == 1 && (parts[0] == "s8" || parts[0] == "u8")) return join({parts[0], "s8", parts[0]}, "-");
  return join(parts, "-");
}

bool is_last(const std::string &tag) {
  return tag == "axb" || tag == "acdb" || tag == "acb" || tag == "acdeb" || tag == "nhwc" || tag == "nwc" ||
         tag == "ndhwc";
}

} // namespace

bool Benchdnn::option(const std::string &word) {
  if (word.rfind("--", 0) != 0) return false;
  const size_t sign = word.find('=');
  const std::string name = word.substr(2, sign - 2), value = sign == std::string::npos ? "" : word.substr(sign + 1);
  if (name == "conv" || name == "deconv") {
    transposed_ = name == "deconv";
  } else if (name == "reset") {
    *this = Benchdnn();
  } else if (name == "dir") {
    direction_ = value;
  } else if (name == "dt" || name == "cfg") {
    types_ = value;
  } else if (name == "stag" || name == "dtag") {
    layout_ = value;
  } else if (name == "mb") {
    batch_ = value.empty() || value.find_first_not_of("0123456789") != std::string::npos
                 ? 0
                 : std::stoll("0" + value.substr(0, 15));
  } else if (name.rfind("attr-post-ops", 0) == 0 || name.rfind("attr-scales", 0) == 0 ||
             name.rfind("attr-zero-points", 0) == 0) {
    if (!value.empty()) left_out_.push_back(word);
  }
  return true;
}

bool Benchdnn::descriptor(const std::string &word, const std::string &where, Collector &collector) {
  Entries entries;
  std::string name;
  if (!split_descriptor(word, entries, name)) return false;
  const auto of = [&](const char *key, int64_t absent) {
    const auto found = entries.find(key);
    return found == entries.end() ? absent : found->second;
  };
  Layer layer;
  layer.batch = batch_ > 0 ? batch_ : of("mb", 2); // benchdnn's own default
  layer.in_channels = of("ic", 1), layer.out_channels = of("oc", 1), layer.groups = of("g", 1);
  const std::string way = direction_.rfind("BWD_W", 0) == 0 ? "bwd_w" : direction_ == "BWD_D" ? "bwd_d" : "fwd";
  layer.direction = (transposed_ ? "t" : "") + way;
  layer.bias = direction_ == "FWD_B" || direction_ == "BWD_WB";
  layer.types = types_of(types_);
  layer.channels_last = is_last(layout_);
  read_axes(entries, transposed_, layer);
  collector.add(token_of(layer), name, where);
  for (const std::string &attribute : left_out_)
    collector.warn(std::string(where).append(": without ").append(attribute));
  return true;
}

bool Benchdnn::read(const std::string &line, const std::string &where, Collector &collector) {
  bool known = false;
  for (const std::string &word : split(line, ' ')) {
    if (word.empty()) continue;
    const bool own = option(word) || descriptor(word, where, collector);
    known = known || own;
  }
  return known;
}

} // namespace polyconv::bench
