// import.cpp - which reader a line belongs to, and what is made of what they find.
// SPDX-License-Identifier: Apache-2.0
#include "import/import.hpp"

#include <algorithm>
#include <filesystem>

#include "text/text.hpp"

namespace polyconv::bench {

namespace {

std::string axes(const char *field, const std::vector<int64_t> &values) {
  std::string text = field;
  for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : "x") + std::to_string(values[i]);
  return text;
}

// "p1x2/0x1": the begin of each axis, then the end of each.
std::string padding(const Layer &layer) {
  return axes("p", layer.pad_begin) + axes("/", layer.pad_end);
}

// Tokens of a log of polyconv: those that its command line would run.
bool read_log(const std::string &line, const std::string &where, Collector &collector) {
  const size_t at = line.find("polyconv-bench run ");
  if (at == std::string::npos) return false;
  const std::vector<std::string> words = shell_words(line.substr(at));
  if (words.size() > 2) collector.add(words[2], "", where);
  return true;
}

bool is_token(const std::string &line) {
  const std::string direction = line.substr(0, line.find(':'));
  static const char *const kDirections[] = {"fwd", "bwd_d", "bwd_w", "tfwd", "tbwd_d", "tbwd_w"};
  return std::find(std::begin(kDirections), std::end(kDirections), direction) != std::end(kDirections);
}

void read_text(const std::string &path, Collector &collector) {
  Benchdnn benchdnn;
  int number = 0, foreign = 0, all = 0;
  for (const std::string &line : read_lines(path)) {
    ++number;
    const std::string text = trim(line), where = format("%s:%d", path.c_str(), number);
    if (text.empty() || text[0] == '#') continue;
    ++all;
    if (read_log(text, where, collector) || read_miopen(text, where, collector) || read_cudnn(text, where, collector))
      continue;
    if (is_token(text))
      collector.add(text, "", where);
    else if (!benchdnn.read(text, where, collector))
      ++foreign;
  }
  if (foreign > 0) collector.warn(format("%s: %d of %d lines tell no convolution", path.c_str(), foreign, all));
}

} // namespace

std::string token_of(const Layer &layer) {
  std::string token =
      layer.direction + ":" +
      format("n%lld,c%lld,k%lld,g%lld,", static_cast<long long>(layer.batch), static_cast<long long>(layer.in_channels),
             static_cast<long long>(layer.out_channels), static_cast<long long>(layer.groups)) +
      join({axes("i", layer.input), axes("f", layer.kernel), axes("s", layer.stride), padding(layer),
            axes("d", layer.dilation)},
           ",");
  if (!layer.output_padding.empty()) token += "," + axes("o", layer.output_padding);
  if (layer.channels_last) token += ":nhwc";
  return token + ":" + layer.types + (layer.bias ? ":bias" : "");
}

void Collector::warn(const std::string &sentence) {
  if (places_.try_emplace("warning " + sentence, 0).second) imported_.warnings.push_back(sentence);
}

void Collector::add(const std::string &token, const std::string &name, const std::string &where) {
  try {
    add(parse_work(token, where), name);
  } catch (const Error &failure) {
    warn(std::string("left out: ") + failure.what());
  }
}

void Collector::add(const polyconv_problem &problem, const std::string &name) {
  add(make_work({problem}), name);
}

void Collector::add(Work work, const std::string &name) {
  const auto [found, added] = places_.try_emplace(work.token, imported_.works.size());
  if (!added) {
    ++imported_.works[found->second].count;
    return;
  }
  work.name = name;
  const auto parts_words = [](unsigned char c) { return c <= ' ' || c == '#' || c == 0x7f; }; // in a suite
  std::replace_if(work.name.begin(), work.name.end(), parts_words, '_');
  imported_.works.push_back(std::move(work));
}

Imported Collector::take() {
  return std::move(imported_);
}

Imported import_file(const std::string &path, const OpenSizes &sizes) {
  Collector collector;
  if (std::filesystem::path(path).extension() == ".onnx")
    read_onnx(path, sizes, collector);
  else
    read_text(path, collector);
  Imported imported = collector.take();
  if (!imported.works.empty()) return imported;
  std::string why = path +
                    " tells no convolution that polyconv could take; expected an ONNX model (.onnx), benchdnn's "
                    "descriptors, calls of MIOpenDriver, a log of cudnn-frontend or polyconv, or tokens";
  if (!imported.warnings.empty()) why += " (" + imported.warnings.front() + ")";
  throw Error(kUsage, why);
}

std::string suite_text(const Imported &imported, const std::string &path) {
  int64_t layers = 0;
  for (const Work &work : imported.works) layers += work.count;
  std::string text = format("# %lld layers of ", static_cast<long long>(layers)) +
                     std::filesystem::path(path).filename().string() +
                     format(", %zu of them distinct. Imported by polyconv-bench import.\n", imported.works.size());
  for (const std::string &warning : imported.warnings) {
    std::string line = warning;
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += "# " + line + "\n";
  }
  for (const Work &work : imported.works) {
    text += work.token;
    if (work.count > 1) text += format(" count=%lld", static_cast<long long>(work.count));
    if (!work.name.empty()) text += " name=" + work.name;
    text += "\n";
  }
  return text;
}

} // namespace polyconv::bench
