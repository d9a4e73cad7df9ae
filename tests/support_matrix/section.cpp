// section.cpp - one backend's part of docs/support-matrix.md: three tables.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>

#include "features.hpp"
#include "generated_page.hpp"
#include "matrix.hpp"

namespace {

using generated_page::head;
using generated_page::row;

// "FTd-": the letter of each direction there is, small where a step helps, '-' where nobody takes it.
std::string letters(const std::vector<Answer> &by_direction) {
  std::string cell;
  for (size_t d = 0; d < by_direction.size(); ++d) {
    const char letter = directions()[d].letter;
    switch (by_direction[d]) {
      case Answer::NoProblem: break;
      case Answer::No: cell += '-'; break;
      case Answer::Helped: cell += static_cast<char>(std::tolower(letter)); break;
      case Answer::Yes: cell += letter; break;
    }
  }
  return cell;
}

std::vector<std::string> with_type_groups(const std::string &first) {
  std::vector<std::string> cells{first};
  for (const TypeGroup &group : type_groups()) cells.emplace_back(group.name);
  return cells;
}

// What the kernels of the backend take together.
std::string feature_table(const Matrix &m) {
  std::string table = head(with_type_groups("feature"));
  for (size_t f = 0; f < features().size(); ++f) {
    std::vector<std::string> cells{features()[f].name};
    for (size_t g = 0; g < type_groups().size(); ++g) {
      std::vector<Answer> best(directions().size(), Answer::NoProblem);
      for (const auto &kernel : m.answers)
        for (size_t d = 0; d < best.size(); ++d) best[d] = std::max(best[d], kernel[f][g][d]);
      cells.push_back(letters(best));
    }
    table += row(cells);
  }
  return table;
}

// For each type group and direction the best answer over all features: where a kernel takes anything.
std::vector<std::vector<Answer>> best_of(const std::vector<std::vector<std::vector<Answer>>> &kernel) {
  std::vector<std::vector<Answer>> best = kernel[0];
  for (const auto &feature : kernel)
    for (size_t g = 0; g < best.size(); ++g)
      for (size_t d = 0; d < best[g].size(); ++d) best[g][d] = std::max(best[g][d], feature[g][d]);
  return best;
}

bool taken(Answer answer) {
  return answer == Answer::Yes || answer == Answer::Helped;
}

// Kernels that convolve; the others are steps that help these.
std::vector<size_t> convolving_kernels(const Matrix &m) {
  std::vector<size_t> kernels;
  for (size_t k = 0; k < m.kernels.size(); ++k) {
    const auto best = best_of(m.answers[k]);
    const bool any = std::any_of(best.begin(), best.end(), [](const std::vector<Answer> &by_direction) {
      return std::any_of(by_direction.begin(), by_direction.end(), taken);
    });
    if (any) kernels.push_back(k);
  }
  return kernels;
}

std::string kernel_table(const Matrix &m) {
  std::string table = head(with_type_groups("kernel"));
  for (const size_t k : convolving_kernels(m)) {
    std::vector<std::string> cells{"`" + m.kernels[k] + "`"};
    for (const std::vector<Answer> &by_direction : best_of(m.answers[k])) cells.push_back(letters(by_direction));
    table += row(cells);
  }
  return table;
}

// Whether a kernel takes a feature in the types and directions that it takes at all.
std::string extent(const std::vector<std::vector<Answer>> &feature, const std::vector<std::vector<Answer>> &best) {
  int asked = 0, yes = 0;
  for (size_t g = 0; g < best.size(); ++g)
    for (size_t d = 0; d < best[g].size(); ++d) {
      const bool counts = taken(best[g][d]) && feature[g][d] != Answer::NoProblem;
      asked += counts;
      yes += counts && taken(feature[g][d]);
    }
  return asked == 0 ? "" : yes == asked ? "yes" : yes == 0 ? "-" : "some";
}

std::string extent_table(const Matrix &m) {
  const std::vector<size_t> kernels = convolving_kernels(m);
  std::vector<std::string> names{"feature"};
  for (const size_t k : kernels) names.push_back("`" + m.kernels[k] + "`");
  std::string table = head(names);
  for (size_t f = 0; f < features().size(); ++f) {
    std::vector<std::string> cells{features()[f].name};
    for (const size_t k : kernels) cells.push_back(extent(m.answers[k][f], best_of(m.answers[k])));
    table += row(cells);
  }
  return table;
}

} // namespace

std::string section_of(const Matrix &matrix) {
  return "## " + matrix.backend + "\n\nAll kernels together:\n\n" + feature_table(matrix) +
         "\nEach kernel, where it takes anything:\n\n" + kernel_table(matrix) +
         "\nWhether it takes a feature in those types and directions:\n\n" + extent_table(matrix) + "\n";
}
