// idx_fuzz.cpp - any bytes as the images and the labels of examples/lenet, plain or gzipped: IDX files.
// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"
#include "checks.hpp"
#include "scratch_file.hpp"

#include "lenet/data.hpp"
#include "lenet/failure.hpp"

namespace {

// The labels that go with two images, in the other of the two files.
constexpr char kTwoLabels[] = "\0\0\x08\x01\0\0\0\x02\x01\x02";
constexpr char kTwoImages[] =
    "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x02"
    "12345678";

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static polyconv_fuzz::ScratchFile images("t10k-images-idx3-ubyte"), labels("t10k-labels-idx1-ubyte");
  polyconv_fuzz::Bytes bytes(data, size);
  const bool labels_drawn = bytes.yes();
  const std::string drawn = bytes.rest();
  if (labels_drawn) {
    images.write(kTwoImages, sizeof kTwoImages - 1);
    labels.write(drawn.data(), drawn.size());
  } else {
    images.write(drawn.data(), drawn.size());
    labels.write(kTwoLabels, sizeof kTwoLabels - 1);
  }
  try {
    const lenet::Images read = lenet::read_images(images.folder(), "t10k", 10);
    polyconv_fuzz::require(static_cast<int64_t>(read.pixels.size()) == read.count * read.rows * read.columns,
                           "as many pixels as the header says");
    polyconv_fuzz::require(static_cast<int64_t>(read.labels.size()) == read.count, "a label for each image");
  } catch (const lenet::Failure &failure) {
    polyconv_fuzz::require(failure.what()[0] != '\0', "a refused file gets a sentence");
  }
  return 0;
}
