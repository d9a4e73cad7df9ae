// support_matrix - writes docs/support-matrix.md, or with --check says whether it is up to date:
//   support_matrix [--check] docs/support-matrix.md
// Only the sections of backends that are available here are made anew or compared; the others stay as they are.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>

#include "features.hpp"
#include "generated_page.hpp"
#include "matrix.hpp"

namespace {

std::string introduction() {
  std::string text =
      "# Support matrix\n\n"
      "Which problems each backend takes, asked of its kernels through `polyconv_explain`. This page is generated: "
      "`cmake --build --preset cpu --target support-matrix` writes it, and the test `support_matrix` fails when it is "
      "out of date.\n\n"
      "**F** forward, **T** forward of a transposed problem, **D** backward data, **W** backward weights. A small "
      "letter: with the help of a step that converts a layout or pools. **-**: the problem exists and no kernel here "
      "takes it. No letter: there is no such problem. A column of several types counts where all of them are taken, in "
      "any math mode. CPU kernels answer for the baseline instruction set, so that this page is the same everywhere; "
      "those made of later instructions, `dots` and `matrix`, are on [a page of their own](performance/cpu/matrix.md)."
      "\n\n| column | input-weights-output |\n| --- | --- |\n";
  for (const TypeGroup &group : type_groups()) {
    text += "| " + std::string(group.name) + " |";
    for (const char *types : group.types) text.append(" `").append(types).append("`");
    text += " |\n";
  }
  return text + "\n";
}

// What a vendor's library takes depends on its version and on the processor.
bool is_vendor(const std::string &backend) {
  return backend == "cudnn" || backend == "onednn" || backend == "opencv";
}

// Backends whose kernels are the same, under other threads, are told of once.
void fold_twins(std::map<std::string, std::string> &sections) {
  const auto whole = sections.find("threads");
  if (whole == sections.end()) return;
  const auto body_of = [](const std::string &section) { return section.substr(section.find('\n')); };
  for (auto &[name, section] : sections)
    if (name != "threads" && body_of(section) == body_of(whole->second))
      section = "## " + name + "\n\nThe kernels of [threads](#threads) and what they take.\n\n";
}

std::string page_now(const std::string &page_before) {
  std::map<std::string, std::string> sections = generated_page::sections_of(page_before);
  int asked = 0;
  for (int32_t i = 0; i < polyconv_backend_count(); ++i) {
    polyconv_backend_info info{};
    info.struct_size = sizeof info;
    if (polyconv_backend_get(i, &info) != POLYCONV_SUCCESS) throw std::runtime_error(polyconv_last_error());
    if (!info.available || is_vendor(info.name)) continue;
    sections[info.name] = section_of(ask_backend(info.name, info.device_kind));
    ++asked;
  }
  if (asked == 0) throw std::runtime_error("no backend is available here");
  fold_twins(sections);
  std::string page = introduction();
  for (const auto &[name, section] : sections) page += section;
  return page;
}

} // namespace

int main(int argc, char **argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: support_matrix [--check] PAGE\n");
    return 2;
  }
  setenv("POLYCONV_MAX_ISA", "baseline", 1); // what every processor has, or the page would depend on this one
  try {
    const std::string path = argv[argc - 1];
    const std::string before = generated_page::contents(path), now = page_now(before);
    if (check) return generated_page::up_to_date(path, before, now, "support-matrix") ? 0 : 1;
    generated_page::write(path, now);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "support_matrix: %s\n", error.what());
    return 1;
  }
}
