// kernel_map_tables_test.cpp - docs/kernels.md keeps what a GPU said by reading its own tables: what is written is read
// back, and what is missing, miscounted or gone is found.
// SPDX-License-Identifier: Apache-2.0
#include "kernel_map/tables.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace {

const std::vector<LayerClass> kCensus = {{"2D dense 3", {"fwd:a", "fwd:b", "fwd:c"}}, {"2D 1x1", {"fwd:d"}}};
const std::vector<Kernel> kKernels = {{"cuda-tensor", "wgmma", "backends/cuda/tensor/wgmma.cpp", "", ""},
                                      {"cuda-gemm", "implicit", "backends/cuda/gemm/implicit.cpp", "", ""}};

Answers some_answers() {
  const Cell both = {{{"cuda-tensor", "wgmma", false, true}, 1}, {{"cuda-gemm", "implicit", true, false}, 2}};
  const Cell nobody = {{{"", "", false, false}, 1}}, one = {{{"cuda-tensor", "wgmma", true, true}, 1}};
  const std::vector<std::vector<Cell>> by_class = {{both, both, both}, {nobody, one, one}};
  return {by_class, by_class, by_class};
}

std::string without(std::string text, const std::string &part) {
  const size_t at = text.find(part);
  REQUIRE(at != std::string::npos);
  return text.erase(at, part.size());
}

std::string complaint(const std::string &section) {
  try {
    answers_in(section, kCudaPart, kCensus);
    return "";
  } catch (const std::runtime_error &error) {
    return error.what();
  }
}

} // namespace

TEST_CASE("tables are read back as they were written") {
  const std::string tables = tables_of(kCudaPart, kCensus, some_answers(), kKernels);
  CHECK(answers_in(tables, kCudaPart, kCensus) == some_answers());
  CHECK(tables.find("[`implicit`](../backends/cuda/gemm/implicit.cpp \"cuda-gemm/implicit\") (generic) 2 · ") !=
        std::string::npos);
  CHECK(tables.find("nobody 1") != std::string::npos);
}

TEST_CASE("a class or a layer too few, and a table that is not there, are told") {
  const std::string tables = tables_of(kCudaPart, kCensus, some_answers(), kKernels);
  const size_t line = tables.find("| 2D 1x1");
  CHECK(complaint(without(tables, tables.substr(line, tables.find('\n', line) + 1 - line))) ==
        "Forward has 1 classes, the census 2");
  CHECK(complaint(without(tables, "nobody 1")).find("is no kernel with a number of layers") != std::string::npos);
  CHECK(complaint(without(tables, " (generic) 2")).find("is no kernel with a number of layers") != std::string::npos);
  CHECK(complaint("## On a GPU\n\n") == "no table 'Forward'");
  std::vector<LayerClass> larger = kCensus;
  larger[0].tokens.emplace_back("fwd:e");
  CHECK_THROWS_WITH(answers_in(tables, kCudaPart, larger), "2D dense 3 has 4 layers, and a cell counts 3");
  larger = kCensus, larger[1].name = "2D grouped";
  CHECK_THROWS_WITH(answers_in(tables, kCudaPart, larger), doctest::Contains("where the census has 2D grouped"));
}

TEST_CASE("a kernel that the source has no more is named, and its file is found wherever it has moved") {
  CHECK(gone(some_answers(), kKernels).empty());
  CHECK(gone(some_answers(), {kKernels[0]}) == std::vector<std::string>{"cuda-gemm/implicit"});
  std::vector<Kernel> moved = kKernels;
  moved[0].file = "backends/cuda/tensor/product/wgmma.cpp";
  const std::string before = tables_of(kCudaPart, kCensus, some_answers(), kKernels);
  CHECK(tables_of(kCudaPart, kCensus, answers_in(before, kCudaPart, kCensus), moved)
            .find("](../backends/cuda/tensor/product/wgmma.cpp ") != std::string::npos);
}

TEST_CASE("the census is read by class, and a file that is none is refused") {
  const std::string root = std::getenv("POLYCONV_SOURCE_DIR");
  size_t layers = 0;
  for (const LayerClass &each : read_census(root + "/bench/suites/census.txt")) layers += each.tokens.size();
  CHECK(layers == 597);
  const std::string path = std::string(std::getenv("POLYCONV_BINARY_DIR")) + "/kernel_map_census.txt";
  const auto refused = [&](const char *text) {
    std::ofstream(path) << text;
    return path;
  };
  CHECK_THROWS_WITH(read_census(refused("# of layers\n\nfwd:a\n")), doctest::Contains("line 3: a layer before"));
  CHECK_THROWS_WITH(read_census(refused("# of layers\n\n# one\n# two\nfwd:a\n")),
                    doctest::Contains("one has no layers"));
  CHECK_THROWS_WITH(read_census(refused("# of layers\n")), doctest::Contains("has no classes"));
  CHECK_THROWS_WITH(read_census(root + "/no.txt"), doctest::Contains("cannot be read"));
}

TEST_CASE("every kernel of the source has its file and the folder of its parts") {
  for (const Kernel &kernel : read_kernels(std::getenv("POLYCONV_SOURCE_DIR"))) {
    INFO(kernel.plug_in, "/", kernel.name);
    CHECK(!kernel.file.empty());
    CHECK(!kernel.parts.empty());
  }
}
