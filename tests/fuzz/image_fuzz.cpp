// image_fuzz.cpp - any bytes as a picture for examples/image_filter: refused with a sentence, or pixels as many as its
// size says.
// SPDX-License-Identifier: Apache-2.0
#include "bytes.hpp"
#include "checks.hpp"
#include "scratch_file.hpp"

#include "image_filter/image.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static polyconv_fuzz::ScratchFile scratch("picture.png");
  scratch.write(data, size);
  try {
    const Image image = read_image(scratch.path());
    polyconv_fuzz::require(image.width > 0 && image.height > 0, "a picture that was read has pixels");
  } catch (const Failure &failure) {
    polyconv_fuzz::require(failure.what()[0] != '\0', "a refused picture gets a sentence");
  }
  return 0;
}
