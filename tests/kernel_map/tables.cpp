// tables.cpp - see tables.hpp. A cell is "[`wgmma`](../path) 12 · [`mma`](../path)+ 3": the title of each link, which a
// reader sees on hovering, is the full name, so that a cell can be read back wherever the file has moved.
// SPDX-License-Identifier: Apache-2.0
#include "tables.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "generated_page.hpp"

namespace {

using generated_page::head;
using generated_page::row;

const std::string kBetween = " · ";
const std::string kNobody = "nobody";
const std::string kGeneric = " (generic)";

const Kernel *find(const std::vector<Kernel> &kernels, const std::string &plug_in, const std::string &name) {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const Kernel &k) { return k.plug_in == plug_in && k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

std::string entry_of(const Chosen &chosen, int layers, const std::vector<Kernel> &kernels) {
  if (chosen.kernel.empty()) return kNobody + " " + std::to_string(layers);
  const Kernel *const kernel = find(kernels, chosen.plug_in, chosen.kernel);
  return "[`" + chosen.kernel + "`](" + (kernel == nullptr ? "." : "../" + kernel->file) + " \"" + chosen.plug_in +
         "/" + chosen.kernel + "\")" + (chosen.helped ? "+" : "") + (chosen.generic ? kGeneric : "") + " " +
         std::to_string(layers);
}

// The kernel of most layers first.
std::string cell_of(const Cell &cell, const std::vector<Kernel> &kernels) {
  std::vector<std::pair<Chosen, int>> entries(cell.begin(), cell.end());
  std::stable_sort(entries.begin(), entries.end(), [](const auto &a, const auto &b) { return a.second > b.second; });
  std::string text;
  for (const auto &[chosen, layers] : entries)
    text += (text.empty() ? "" : kBetween) + entry_of(chosen, layers, kernels);
  return text;
}

std::vector<std::string> split(const std::string &text, const std::string &between) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(between, begin)) != std::string::npos; begin = end + between.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

bool has(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

// "[`wgmma`](../path "cuda-tensor/wgmma")+ 12" back into who and how many.
std::pair<Chosen, int> entry_in(const std::string &text) {
  const size_t count = text.rfind(' ');
  const int layers = count == std::string::npos ? 0 : std::atoi(text.c_str() + count);
  if (layers < 1) throw std::runtime_error("'" + text + "' is no kernel with a number of layers");
  if (text.rfind(kNobody, 0) == 0) return {{"", "", false, false}, layers};
  const size_t begin = text.find('"'), slash = text.find('/', begin), end = text.find('"', slash);
  if (end == std::string::npos) throw std::runtime_error("'" + text + "' has no kernel's full name");
  const std::string after = text.substr(end, count - end);
  return {{text.substr(begin + 1, slash - begin - 1), text.substr(slash + 1, end - slash - 1),
           has(text.substr(end), kGeneric), has(after, ")+")},
          layers};
}

Cell cell_in(const std::string &text, const LayerClass &of) {
  Cell cell;
  int layers = 0;
  for (const std::string &part : split(text, kBetween)) {
    const auto [chosen, count] = entry_in(part);
    cell[chosen] += count;
    layers += count;
  }
  if (layers != static_cast<int>(of.tokens.size()))
    throw std::runtime_error(of.name + " has " + std::to_string(of.tokens.size()) + " layers, and a cell counts " +
                             std::to_string(layers));
  return cell;
}

// The rows of the table below "### heading", without the two of its head.
std::vector<std::vector<std::string>> rows_below(const std::string &section, const std::string &heading) {
  std::istringstream text(section);
  std::vector<std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("### ", 0) == 0) inside = line.substr(4) == heading;
    if (!inside || line.rfind("| ", 0) != 0) continue;
    rows.push_back(split(line.substr(2, line.size() - 4), " | "));
  }
  if (rows.size() < 2) throw std::runtime_error("no table '" + heading + "'");
  return {rows.begin() + 2, rows.end()};
}

} // namespace

std::string tables_of(const Part &part, const std::vector<LayerClass> &census, const Answers &answers,
                      const std::vector<Kernel> &kernels) {
  std::string text;
  for (size_t d = 0; d < answers.size(); ++d) {
    std::vector<std::string> titles = {"class", "layers"};
    for (const Column &column : part.columns) titles.emplace_back(column.title);
    text += "### " + std::string(directions()[d].title) + "\n\n" + head(titles);
    for (size_t k = 0; k < census.size(); ++k) {
      std::vector<std::string> cells = {census[k].name, std::to_string(census[k].tokens.size())};
      for (const Cell &cell : answers[d][k]) cells.push_back(cell_of(cell, kernels));
      text += row(cells);
    }
    text += "\n";
  }
  return text;
}

Answers answers_in(const std::string &section, const Part &part, const std::vector<LayerClass> &census) {
  Answers answers;
  for (const Direction &direction : directions()) {
    const auto rows = rows_below(section, direction.title);
    if (rows.size() != census.size())
      throw std::runtime_error(std::string(direction.title) + " has " + std::to_string(rows.size()) +
                               " classes, the census " + std::to_string(census.size()));
    std::vector<std::vector<Cell>> by_class;
    for (size_t k = 0; k < census.size(); ++k) {
      if (rows[k][0] != census[k].name || rows[k].size() != 2 + part.columns.size())
        throw std::runtime_error("where the census has " + census[k].name + ", the page has " + rows[k][0] + " in " +
                                 std::to_string(rows[k].size()) + " columns");
      std::vector<Cell> cells;
      for (size_t c = 0; c < part.columns.size(); ++c) cells.push_back(cell_in(rows[k][2 + c], census[k]));
      by_class.push_back(cells);
    }
    answers.push_back(by_class);
  }
  return answers;
}

std::string kernel_table(const std::vector<Kernel> &kernels, const std::vector<Answers> &parts) {
  std::map<std::pair<std::string, std::string>, int> layers;
  for (const Answers &answers : parts)
    for (const auto &by_class : answers)
      for (const std::vector<Cell> &cells : by_class)
        for (const Cell &cell : cells)
          for (const auto &[chosen, count] : cell) layers[{chosen.plug_in, chosen.kernel}] += count;
  std::string text = head({"kernel", "chosen", "its parts", "measured"});
  for (const Kernel &k : kernels) {
    const int count = layers[{k.plug_in, k.name}];
    text += row({"[`" + k.plug_in + "/" + k.name + "`](../" + k.file + ")", count == 0 ? "" : std::to_string(count),
                 "[" + k.parts.substr(k.parts.find('/') + 1) + "](../" + k.parts + ")",
                 k.page.empty() ? "" : "[page](" + k.page.substr(k.page.find('/') + 1) + ")"});
  }
  return text;
}

std::vector<std::string> gone(const Answers &answers, const std::vector<Kernel> &kernels) {
  std::vector<std::string> names;
  for (const auto &by_class : answers)
    for (const std::vector<Cell> &cells : by_class)
      for (const Cell &cell : cells)
        for (const auto &entry : cell)
          if (const Chosen &c = entry.first; !c.kernel.empty() && find(kernels, c.plug_in, c.kernel) == nullptr)
            names.push_back(c.plug_in + "/" + c.kernel);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}
