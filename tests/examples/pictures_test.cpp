// pictures_test.cpp - the pictures of examples/image_filter that need no library, where there is no shell either.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "bench/bench_files.hpp"
#include "image.hpp"

namespace fs = std::filesystem;

namespace {

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Image counted(int64_t width, int64_t height, int64_t channels, int64_t bytes) {
  Image image = sized_image("counted", width, height, channels, bytes);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(i * 37 + 5);
  return image;
}

} // namespace

TEST_CASE("a picture that is written is read again: grey and colours, 8 and 16 bits, over what was there") {
  for (const int64_t channels : {1, 3})
    for (const int64_t bytes : {1, 2}) {
      CAPTURE(channels);
      CAPTURE(bytes);
      const TemporaryFile file("what was there before", channels == 1 ? ".pgm" : ".ppm");
      const Image image = counted(7, 5, channels, bytes);
      write_image(file.path(), image);
      const Image again = read_image(file.path());
      CHECK(again.width == 7);
      CHECK(again.height == 5);
      CHECK(again.channels == channels);
      CHECK(again.bytes == bytes);
      CHECK(again.pixels == image.pixels);
      CHECK(!fs::exists(file.path() + ".part"));
    }
}

TEST_CASE("16 bits have their high byte first, whatever the machine's order") {
  const TemporaryFile file("", ".pgm");
  Image image = sized_image("two", 2, 1, 1, 2);
  const uint16_t samples[] = {0x1234, 0xFF00};
  image.pixels.assign(reinterpret_cast<const uint8_t *>(samples), reinterpret_cast<const uint8_t *>(samples + 2));
  write_image(file.path(), image);
  CHECK(contents(file.path()) == std::string("P5\n2 1\n65535\n\x12\x34\xFF\0", 17));
  CHECK(read_image(file.path()).sample(0) == 0x1234);
}

TEST_CASE("what a format does not hold is refused, and what was there stays") {
  const TemporaryFile grey("before", ".pgm"), colours("before", ".ppm");
  CHECK_THROWS_WITH_AS(
      write_image(grey.path(), counted(2, 2, 3, 1)),
      (grey.path() + ": cannot be written: a PGM holds no colours; expected a name that ends in .ppm").c_str(),
      Failure);
  CHECK_THROWS_AS(write_image(colours.path(), counted(2, 2, 4, 1)), Failure);
  CHECK_THROWS_AS(write_image("picture.tif", counted(2, 2, 3, 1)), Failure);
  CHECK(contents(grey.path()) == "before");
  CHECK(contents(colours.path()) == "before");
  CHECK(!fs::exists(colours.path() + ".part"));
}

TEST_CASE("damaged files are refused") {
  for (const char *bytes : {"", "P6", "P6\n3 2\n255\nabc", "P6\n0 2\n255\n", "P5\n2 2\n1023\nabcdefgh", "no picture"}) {
    CAPTURE(bytes);
    const TemporaryFile file(bytes, ".ppm");
    CHECK_THROWS_AS(read_image(file.path()), Failure);
  }
}
