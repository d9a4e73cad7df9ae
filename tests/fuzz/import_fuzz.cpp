// import_fuzz.cpp - any bytes as another program's log or command lines: whatever is made of them is a problem whose
// token polyconv takes, and the suite it is written as is read back.
// SPDX-License-Identifier: Apache-2.0
#include "bench_file_fuzz.hpp"

#include "import/import.hpp"
#include "work/suite.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace polyconv;
  return polyconv_fuzz::read_bench_file("lines.log", data, size, [](const std::string &path) {
    const bench::Imported imported = bench::import_file(path, {});
    polyconv_fuzz::require(!imported.works.empty(), "a file that tells no convolution is refused");
    static polyconv_fuzz::ScratchFile suite("suite.txt");
    const std::string text = bench::suite_text(imported, path);
    suite.write(text.data(), text.size());
    polyconv_fuzz::require(bench::load_suite(suite.path(), true).size() == imported.works.size(),
                           "a suite has every problem of the import");
  });
}
