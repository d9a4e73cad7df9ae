// kernel_map - writes docs/kernels.md, or with --check says whether it is up to date:
//   kernel_map [--check] ROOT
// ROOT is that of the source. The CPU's part is asked anew each time, the GPU's where one answers while the page is
// written; else it stays as it is, and must have the census's classes and layers and name no kernel that is gone.
// SPDX-License-Identifier: Apache-2.0
#include <polyconv/polyconv.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <stdexcept>

#include "generated_page.hpp"
#include "tables.hpp"

namespace {

const char *const kIntroduction =
    "# Which kernel a layer runs on\n\n"
    "The layers of [the census](../bench/suites/census.txt), by class, and the kernels that the library chooses for "
    "them "
    "without tuning, each with the number of layers it gets; a name leads to its file, which opens with what the "
    "kernel "
    "takes and its floor. **+**: with a step beside it that converts a layout or a type. **(generic)**: the general "
    "kernel that takes what nobody else does. Channels last, weights are `krsc`, as frameworks have them. Of one "
    "layer, "
    "with every reason: `polyconv-bench explain`.\n\n"
    "This page is generated: `cmake --build --preset cpu --target kernel-map` writes it, and the test `kernel_map` "
    "fails "
    "when it is out of date. The CPU's kernels answer for AVX2 and two threads, so that the page says the same on "
    "every "
    "machine. A GPU's are asked where one answers while the page is written; elsewhere that part stays as it was asked "
    "last.\n\n";

const char *const kIsa = "avx2"; // what every current x86-64 processor has

const char *const kNotAsked = "Not asked yet: no GPU answered where this page was written.\n\n";

// "NVIDIA H200, compute capability 9.0 ..., 2026-11-24": what a GPU's answers hold for.
std::string where_and_when() {
  const polyconv_device *device = nullptr;
  polyconv_device_properties properties{};
  properties.struct_size = sizeof properties;
  if (polyconv_device_find(kCudaPart.device, &device) != POLYCONV_SUCCESS ||
      polyconv_device_get_properties(device, &properties) != POLYCONV_SUCCESS)
    throw std::runtime_error(polyconv_last_error());
  const std::time_t now = std::time(nullptr);
  char day[16];
  std::strftime(day, sizeof day, "%Y-%m-%d", std::gmtime(&now));
  return "Asked on an " + std::string(properties.name) + " (" + properties.description + "), " + day + ", polyconv " +
         polyconv_version() + ".\n\n";
}

struct Page {
  std::string text;
  std::vector<std::string> gone;
};

Page page_now(const std::string &root, const std::string &before, bool ask_gpu) {
  const std::vector<LayerClass> census = read_census(root + "/bench/suites/census.txt");
  const std::vector<Kernel> kernels = read_kernels(root);
  std::vector<Answers> parts = {ask(kCpuPart, census)};
  std::string cuda = kNotAsked;
  if (ask_gpu && answers_here(kCudaPart, nullptr)) {
    parts.push_back(ask(kCudaPart, census));
    cuda = where_and_when() + tables_of(kCudaPart, census, parts[1], kernels);
  } else if (const auto sections = generated_page::sections_of(before); sections.count(kCudaPart.heading) != 0) {
    const std::string section = sections.at(kCudaPart.heading).substr(3 + std::string(kCudaPart.heading).size() + 2);
    if (section != kNotAsked) {
      parts.push_back(answers_in(section, kCudaPart, census));
      cuda = section.substr(0, section.find("### ")) + tables_of(kCudaPart, census, parts[1], kernels);
    }
  }
  Page page;
  if (parts.size() > 1) page.gone = gone(parts[1], kernels);
  page.text =
      kIntroduction + ("## " + std::string(kCudaPart.heading)) + "\n\n" + cuda + "## " + kCpuPart.heading + "\n\n" +
      tables_of(kCpuPart, census, parts[0], kernels) +
      "## Every kernel\n\nHow often each is chosen in the tables above, over all their columns. Kernels of chains, and "
      "steps that pool or convert, are not asked about there. Those of `threads` are those of `openmp` and `tbb`.\n\n" +
      kernel_table(kernels, parts);
  return page;
}

} // namespace

int main(int argc, char **argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: kernel_map [--check] ROOT\n");
    return 2;
  }
  setenv("POLYCONV_MAX_ISA", kIsa, 1); // or the page would depend on this processor
  try {
    if (!answers_here(kCpuPart, kIsa)) {
      std::printf("the plug-in threads has no code for %s here, which docs/kernels.md is about\n", kIsa);
      return check ? 77 : 1;
    }
    const std::string root = argv[argc - 1], path = root + "/docs/kernels.md";
    const std::string before = generated_page::contents(path);
    const Page now = page_now(root, before, !check);
    for (const std::string &name : now.gone)
      std::printf("%s: %s is chosen on a GPU and is no kernel any more; write the page where a GPU answers\n",
                  path.c_str(), name.c_str());
    if (check) return generated_page::up_to_date(path, before, now.text, "kernel-map") && now.gone.empty() ? 0 : 1;
    generated_page::write(path, now.text);
    return 0;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "kernel_map: %s\n", error.what());
    return 1;
  }
}
