// data.hpp - labelled grey images in IDX files, plain or gzipped: MNIST's format, and Fashion-MNIST's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lenet {

struct Images {
  int64_t count = 0, rows = 0, columns = 0;
  std::vector<uint8_t> pixels; // count x rows x columns
  std::vector<uint8_t> labels; // count

  // Keeps the first `most` images; 0 keeps all.
  void keep(int64_t most);
};

// Reads <folder>/<part>-images-idx3-ubyte[.gz] and the labels beside it; part is "train" or "t10k", labels are below
// `classes`. Throws Failure naming the file and what is wrong with it.
Images read_images(const std::string &folder, const std::string &part, int64_t classes);

// The first folder of Fashion-MNIST that a package installs, or "" where there is none.
std::string fashion_folder();

} // namespace lenet
