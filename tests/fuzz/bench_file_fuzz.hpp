// bench_file_fuzz.hpp - any bytes as one of the files that polyconv-bench reads: taken, or refused as a mistake in
// usage with a sentence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checks.hpp"
#include "scratch_file.hpp"

#include "text/text.hpp"

namespace polyconv_fuzz {

template <class Read>
int read_bench_file(const char *name, const void *data, size_t size, Read &&read) {
  static ScratchFile scratch(name);
  scratch.write(data, size);
  try {
    read(scratch.path());
  } catch (const polyconv::bench::Error &error) {
    require(error.what()[0] != '\0', "a refused file gets a sentence");
  }
  return 0;
}

} // namespace polyconv_fuzz
