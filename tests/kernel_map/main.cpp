// kernel_map - writes docs/kernels.md, or with --check says whether it is up to date:
//   kernel_map [--check] ROOT cpu|cuda
// ROOT is that of the source. One part of the page is asked of the plug-ins that are built here; the other stays as it
// is, and must have the census's classes and layers and name no kernel that is gone.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>

#include "generated_page.hpp"
#include "tables.hpp"

namespace {

const char *const kIntroduction =
    "# Which kernel a layer runs on\n\n"
    "The layers of [the census](../bench/suites/census.txt), by class, and the kernels that the library chooses for "
    "them without tuning, each with the number of layers it gets; a name leads to its file, which opens with what the "
    "kernel takes and its floor. **+**: with a step beside it that converts a layout or a type. **(generic)**: the "
    "general kernel that takes what nobody else does. Channels last, weights are `krsc`, as frameworks have them. Of "
    "one layer, with every reason: `polyconv-bench explain`.\n\n"
    "This page is generated, and says the same on every machine: the CPU's kernels answer for AVX2 and two threads, "
    "the GPU's for a runtime that plays an H100 ([tests/cuda_host](../tests/cuda_host)), since a choice runs nothing. "
    "`cmake --build --preset cpu --target kernel-map` writes the CPU's part, `--preset cuda` the GPU's, and the test "
    "`kernel_map` of either preset fails when its part is out of date.\n\n";

const char *const kIsa = "avx2"; // what every current x86-64 processor has

const char *const kNotAsked = "Not asked yet: its plug-ins were not there where this page was written.\n\n";

// What a part's answers hold for.
std::string asked_of(const Part &part) {
  if (&part == &kCpuPart) return "";
  const polyconv_device *device = nullptr;
  polyconv_device_properties properties{};
  properties.struct_size = sizeof properties;
  if (polyconv_device_find(part.device, &device) != POLYCONV_SUCCESS ||
      polyconv_device_get_properties(device, &properties) != POLYCONV_SUCCESS)
    throw std::runtime_error(polyconv_last_error());
  return "Asked of: " + std::string(properties.name) + ".\n\n";
}

struct Section {
  std::string text; // with its heading
  std::optional<Answers> answers;
};

Section section_now(const Part &part, const std::vector<LayerClass> &census, const std::vector<Kernel> &kernels,
                    const std::string &before, bool ask_it) {
  const std::string heading = "## " + std::string(part.heading) + "\n\n";
  const auto asked = [&](const std::string &introduction, const Answers &made) {
    return Section{heading + introduction + tables_of(part, census, made, kernels), made};
  };
  if (ask_it) return asked(asked_of(part), ask(part, census));
  const auto sections = generated_page::sections_of(before);
  const auto found = sections.find(part.heading);
  if (found == sections.end() || found->second == heading + kNotAsked) return {heading + kNotAsked, std::nullopt};
  const std::string body = found->second.substr(heading.size());
  return asked(body.substr(0, body.find("### ")), answers_in(body, part, census));
}

struct Page {
  std::string text;
  std::vector<std::string> gone;
};

Page page_now(const std::string &root, const std::string &before, const Part &asked) {
  const std::vector<LayerClass> census = read_census(root + "/bench/suites/census.txt");
  const std::vector<Kernel> kernels = read_kernels(root);
  Page page{kIntroduction, {}};
  std::vector<Answers> parts;
  for (const Part *part : {&kCudaPart, &kCpuPart}) {
    const Section section = section_now(*part, census, kernels, before, part == &asked);
    page.text += section.text;
    if (!section.answers.has_value()) continue;
    parts.push_back(*section.answers);
    const std::vector<std::string> names = gone(*section.answers, kernels);
    page.gone.insert(page.gone.end(), names.begin(), names.end());
  }
  page.text +=
      "## Every kernel\n\nHow often each is chosen in the tables above, over all their columns. Kernels of chains, and "
      "steps that pool or convert, are not asked about there. Those of `threads` are those of `openmp` and `tbb`.\n\n" +
      kernel_table(kernels, parts);
  return page;
}

} // namespace

int main(int argc, char **argv) {
  const bool check = argc == 4 && std::string(argv[1]) == "--check";
  const std::string device = argv[argc - 1];
  if ((argc != 3 && !check) || (device != kCpuPart.device && device != kCudaPart.device)) {
    std::fprintf(stderr, "usage: kernel_map [--check] ROOT cpu|cuda\n");
    return 2;
  }
  const Part &asked = device == kCpuPart.device ? kCpuPart : kCudaPart;
  setenv("POLYCONV_MAX_ISA", kIsa, 1); // or the page would depend on this processor
  try {
    if (!answers_here(asked, &asked == &kCpuPart ? kIsa : nullptr)) {
      std::printf("no plug-in of '%s' answers here%s\n", asked.filter,
                  &asked == &kCpuPart ? " with code for AVX2, which docs/kernels.md is about" : "");
      return check ? 77 : 1;
    }
    const std::string root = argv[argc - 2], path = root + "/docs/kernels.md";
    const std::string before = generated_page::contents(path);
    const Page now = page_now(root, before, asked);
    for (const std::string &name : now.gone)
      std::printf("%s: %s is chosen and is no kernel any more; write the page where its plug-in is built\n",
                  path.c_str(), name.c_str());
    if (check) return generated_page::up_to_date(path, before, now.text, "kernel-map") && now.gone.empty() ? 0 : 1;
    generated_page::write(path, now.text);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "kernel_map: %s\n", error.what());
    return 1;
  }
}
