// examples_test.cpp - the examples from outside: exit codes, sentences, and every pixel against loops written here.
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#ifdef IMAGE_FILTER_JPEG
#include <jpeglib.h>
#endif

#include "image.hpp"

namespace fs = std::filesystem;

namespace {

struct Run {
  int code;
  std::string text; // stdout and stderr
};

// A folder of this test's own, empty at the start, removed at the end.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("polyconv_examples_" + std::to_string(std::random_device()()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  std::string operator/(const std::string &name) const { return (path_ / name).string(); }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

std::string binary(const std::string &name) {
  return std::string(std::getenv("POLYCONV_BINARY_DIR")) + "/bin/" + name;
}

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

Run run(const Folder &folder, const std::string &command) {
  const std::string log = folder / "log";
  const int status = std::system((command + " >'" + log + "' 2>&1").c_str());
  Run result{status >> 8, contents(log)}; // wait's encoding: the exit code is the second byte
  fs::remove(log);
  return result;
}

Run filter(const Folder &folder, const std::string &arguments) {
  return run(folder, "'" + binary("image_filter") + "' " + arguments);
}

// A picture with no structure that a wrong index could hide behind, as PPM or PGM.
std::string noise_ppm(int width, int height, int channels) {
  std::string bytes =
      (channels == 3 ? "P6\n# noise\n" : "P5\n") + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  uint32_t state = 7;
  for (int i = 0; i < width * height * channels; ++i) {
    state = state * 1664525u + 1013904223u;
    bytes.push_back(static_cast<char>(state >> 24));
  }
  return bytes;
}

// What a coordinate outside reads, by the definition in words; -1 for the border value.
int64_t border_index(int64_t i, int64_t size, const std::string &mode) {
  if (i >= 0 && i < size) return i;
  if (mode == "zero" || mode == "constant") return -1;
  if (mode == "replicate") return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "circular") return ((i % size) + size) % size;
  while (i < 0 || i >= size) // mirror until inside
    i = i < 0 ? (mode == "symmetric" ? -1 - i : -i) : (mode == "symmetric" ? 2 * size - 1 - i : 2 * size - 2 - i);
  return i;
}

// The same as a picture of any kind.
Image noise_image(int64_t width, int64_t height, int64_t channels, int64_t bytes) {
  Image image = sized_image("noise", width, height, channels, bytes);
  uint32_t state = 11;
  for (uint8_t &byte : image.pixels) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return image;
}

int32_t expected_pixel(const Image &image, const std::vector<std::vector<double>> &kernel, const std::string &mode,
                       double border_value, int64_t row, int64_t column, int64_t channel) {
  const auto rows = static_cast<int64_t>(kernel.size()), columns = static_cast<int64_t>(kernel[0].size());
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t s = 0; s < columns; ++s) {
      const int64_t y = border_index(row + r - (rows - 1) / 2, image.height, mode);
      const int64_t x = border_index(column + s - (columns - 1) / 2, image.width, mode);
      const double value = y < 0 || x < 0 ? (mode == "constant" ? border_value : 0.0)
                                          : image.sample((y * image.width + x) * image.channels + channel);
      sum += value * kernel[static_cast<size_t>(r)][static_cast<size_t>(s)];
    }
  return static_cast<int32_t>(std::clamp(std::nearbyint(sum), 0.0, image.bytes == 1 ? 255.0 : 65535.0));
}

void check_pixels(const Image &image, const Image &got, const std::vector<std::vector<double>> &kernel,
                  const std::string &mode, double border_value) {
  REQUIRE(got.pixels.size() == image.pixels.size());
  int wrong = 0;
  for (int64_t i = 0; i < got.samples(); ++i) {
    const int64_t channel = i % image.channels, at = i / image.channels;
    wrong += got.sample(i) !=
             (channel == image.colours() // alpha
                  ? image.sample(i)
                  : expected_pixel(image, kernel, mode, border_value, at / image.width, at % image.width, channel));
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("tune_example times two layers, plans by that, and knows them the next time") {
  const Folder folder;
  const std::string command =
      "POLYCONV_TUNING=on POLYCONV_TUNING_DB='" + folder / "tuning.txt" + "' '" + binary("tune_example") + "'";
  const Run first = run(folder, command), again = run(folder, command);
  CHECK(first.code == 0);
  CHECK(first.text.find(" 0 known)") != std::string::npos);
  CHECK(first.text.find("planned on ") != std::string::npos);
  CHECK(first.text.find("estimated") == std::string::npos);
  CHECK(again.code == 0);
  CHECK(again.text.find(" 0 known)") == std::string::npos);
}

TEST_CASE("cache_example plans each size once") {
  const Folder folder;
  const Run result = run(folder, "'" + binary("cache_example") + "'");
  CHECK(result.code == 0);
  CHECK(result.text == "35 plans, 265 hits, 35 misses\n");
}

TEST_CASE("c_minimal prints a blurred point") {
  const Folder folder;
  const Run result = run(folder, "'" + binary("c_minimal") + "'");
  CHECK(result.code == 0);
  CHECK(result.text == "0 0 0 0 0\n0 1 2 1 0\n0 2 4 2 0\n0 1 2 1 0\n0 0 0 0 0\n");
}

TEST_CASE(
    "a filter from a file gives exactly the pixels that plain loops give, at every border and in colour and grey") {
  const Folder folder;
  const std::vector<std::vector<double>> kernel = {{0.25, -1, 0.5, 2}, {1, 0.125, -0.75, 0}, {-1, 0.5, 1, 0.25}};
  write(folder / "kernel.txt",
        "# 3 x 4, every sum exact in f32\n0.25 -1 0.5 2\n1 0.125 -0.75 0\n\n-1 0.5 1 0.25 # end\n");
  for (const int channels : {1, 3}) {
    write(folder / "noise.ppm", noise_ppm(13, 9, channels));
    const Image image = read_image(folder / "noise.ppm");
    REQUIRE(image.channels == channels);
    for (const std::string mode : {"zero", "constant", "reflect", "symmetric", "replicate", "circular"}) {
      CAPTURE(channels);
      CAPTURE(mode);
      const Run result = filter(folder, "'" + folder / "noise.ppm" + "' '" + folder / "out.png" + "' --filter-file '" +
                                            folder / "kernel.txt" + "' --border " + mode + " --border-value 77");
      INFO(result.text);
      REQUIRE(result.code == 0);
      check_pixels(image, read_image(folder / "out.png"), kernel, mode, 77);
    }
  }
}

TEST_CASE("16 bits and alpha go through the filter: colours are filtered, alpha is what it was") {
  const Folder folder;
  const std::vector<std::vector<double>> kernel = {{0.25, -0.5, 0.5}, {0.5, 0.125, -0.25}};
  write(folder / "kernel.txt", "0.25 -0.5 0.5\n0.5 0.125 -0.25\n");
  for (const int64_t bytes : {1, 2})
    for (const int64_t channels : {1, 2, 3, 4}) {
      CAPTURE(bytes);
      CAPTURE(channels);
      const Image image = noise_image(13, 9, channels, bytes);
      write_image(folder / "noise.png", image);
      CHECK(read_image(folder / "noise.png").pixels == image.pixels);
      const Run result = filter(folder, "'" + folder / "noise.png" + "' '" + folder / "out.png" + "' --filter-file '" +
                                            folder / "kernel.txt" + "'");
      INFO(result.text);
      REQUIRE(result.code == 0);
      check_pixels(image, read_image(folder / "out.png"), kernel, "reflect", 0);
    }
}

TEST_CASE("a picture in bands is the picture in one, at every border") {
  const Folder folder;
  const std::vector<std::vector<double>> kernel = {{0.25}, {-0.5}, {0.5}, {0.5}, {0.125}, {-0.25}, {0.25}};
  write(folder / "kernel.txt", "0.25\n-0.5\n0.5\n0.5\n0.125\n-0.25\n0.25\n");
  const Image image = noise_image(900, 103, 4, 2); // 27 KB a row while it is filtered
  write_image(folder / "noise.png", image);
  for (const std::string mode : {"zero", "constant", "reflect", "symmetric", "replicate", "circular"}) {
    CAPTURE(mode);
    const Run result =
        filter(folder, "'" + folder / "noise.png" + "' '" + folder / "out.png" + "' --filter-file '" +
                           folder / "kernel.txt" + "' --band-memory 1 --border-value 777 --border " + mode);
    INFO(result.text);
    REQUIRE(result.code == 0);
    check_pixels(image, read_image(folder / "out.png"), kernel, mode, 777);
  }
  const std::string both = "'" + folder / "noise.png" + "' --filter sobel ";
  CHECK(filter(folder, both + "'" + folder / "whole.png" + "'").code == 0);
  CHECK(filter(folder, both + "'" + folder / "bands.png" + "' --band-memory 1").code == 0);
  CHECK(read_image(folder / "whole.png").pixels == read_image(folder / "bands.png").pixels);
}

TEST_CASE("a PPM holds the same picture as a PNG") {
  const Folder folder;
  for (const int channels : {1, 3}) {
    write(folder / "noise.ppm", noise_ppm(17, 6, channels));
    const std::string in = "'" + folder / "noise.ppm" + "' --filter box ";
    CHECK(filter(folder, in + "'" + folder / "out.png" + "'").code == 0);
    CHECK(filter(folder, in + "'" + folder / "out.ppm" + "'").code == 0);
    CHECK(read_image(folder / "out.ppm").channels == channels);
    CHECK(read_image(folder / "out.ppm").pixels == read_image(folder / "out.png").pixels);
  }
}

TEST_CASE("a palette becomes colours, its transparent ones alpha, and single bits grey") {
  const Folder folder;
  png_color palette[] = {{10, 20, 30}, {200, 100, 50}};
  png_byte transparent[] = {255, 128}, row[] = {0x40}; // the second pixel of four is the second colour, 1 bit each
  for (const bool coloured : {true, false}) {
    std::FILE *file = std::fopen((folder / "bits.png").c_str(), "wb");
    REQUIRE(file != nullptr);
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    png_init_io(png, file);
    png_set_IHDR(png, info, 4, 1, 1, coloured ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (coloured) {
      png_set_PLTE(png, info, palette, 2);
      png_set_tRNS(png, info, transparent, 2, nullptr);
    }
    png_write_info(png, info);
    png_write_row(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    std::fclose(file);
    const Image image = read_image(folder / "bits.png");
    const std::vector<uint8_t> colours = {10, 20, 30, 255, 200, 100, 50, 128, 10, 20, 30, 255, 10, 20, 30, 255};
    CHECK(image.pixels == (coloured ? colours : std::vector<uint8_t>{0, 255, 0, 0}));
    CHECK(image.alpha() == coloured);
  }
}

TEST_CASE("a picture that no memory holds is refused by its size, before it is read") {
  const Folder folder;
  std::string header = "IHDR";
  for (const uint32_t side : {16000000u, 16000000u})
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<char>(side >> shift));
  header += std::string("\x08\x02\x00\x00\x00", 5); // 8 bits, RGB
  const uLong sum = crc32(0, reinterpret_cast<const Bytef *>(header.data()), static_cast<uInt>(header.size()));
  std::string png = std::string("\x89PNG\r\n\x1a\n\0\0\0\x0d", 12) + header;
  for (int shift = 24; shift >= 0; shift -= 8) png.push_back(static_cast<char>(sum >> shift));
  png += std::string("\0\0\0\0IDAT\x35\xaf\x06\x1e", 12);
  write(folder / "vast.png", png);
  const Run result = filter(folder, "'" + folder / "vast.png" + "' '" + folder / "out.png" + "'");
  INFO(result.text);
  CHECK(result.code == 1);
  CHECK(result.text.find("16000000 x 16000000 pixels take 715255.7 GiB") != std::string::npos);
}

#ifdef IMAGE_FILTER_JPEG
TEST_CASE("a JPEG is read, grey and in colour, and a damaged one refused") {
  const Folder folder;
  for (const int channels : {1, 3}) {
    jpeg_compress_struct jpeg;
    jpeg_error_mgr errors;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    std::FILE *file = std::fopen((folder / "photo.jpg").c_str(), "wb");
    REQUIRE(file != nullptr);
    jpeg_stdio_dest(&jpeg, file);
    jpeg.image_width = 40, jpeg.image_height = 30, jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 100, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    std::vector<JSAMPLE> row(static_cast<size_t>(40 * channels), 90);
    JSAMPROW rows = row.data();
    while (jpeg.next_scanline < jpeg.image_height) jpeg_write_scanlines(&jpeg, &rows, 1);
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    std::fclose(file);
    const Image image = read_image(folder / "photo.jpg");
    CHECK(image.width == 40);
    CHECK(image.height == 30);
    REQUIRE(image.channels == channels);
    for (const uint8_t value : image.pixels) REQUIRE(std::abs(value - 90) <= 1);
    CHECK(filter(folder, "'" + folder / "photo.jpg" + "' '" + folder / "out.png" + "' --filter box").code == 0);
    const std::string bytes = contents(folder / "photo.jpg");
    write(folder / "photo.jpg", bytes.substr(0, bytes.size() / 2));
    const Run damaged = filter(folder, "'" + folder / "photo.jpg" + "' '" + folder / "out2.png" + "'");
    CHECK(damaged.code == 1);
    CHECK(damaged.text.find("JPEG") != std::string::npos);
  }
}
#else
TEST_CASE("without libjpeg a JPEG is refused by name") {
  const Folder folder;
  write(folder / "photo.jpg", "\xFF\xD8\xFF\xE0 and so on");
  const Run result = filter(folder, "'" + folder / "photo.jpg" + "' '" + folder / "out.png" + "'");
  CHECK(result.code == 1);
  CHECK(result.text.find("built without libjpeg") != std::string::npos);
}
#endif

TEST_CASE("a flat picture stays what it is under smoothing, and shows nothing to a derivative") {
  const Folder folder;
  std::string flat = "P6\n12 10\n255\n";
  for (int i = 0; i < 120; ++i) flat += "\x50\xa0\xf0";
  write(folder / "flat.ppm", flat);
  const auto first_pixel = [&](const std::string &name) {
    const Run result = filter(folder, "'" + folder / "flat.ppm" + "' '" + folder / "out.png" + "' --filter " + name);
    INFO(result.text);
    REQUIRE(result.code == 0);
    const Image image = read_image(folder / "out.png");
    for (size_t i = 3; i < image.pixels.size(); ++i) REQUIRE(image.pixels[i] == image.pixels[i - 3]);
    return std::vector<int>(image.pixels.begin(), image.pixels.begin() + 3);
  };
  const std::vector<int> colour = {0x50, 0xa0, 0xf0};
  for (const std::string name : {"gaussian", "box", "sharpen", "emboss"}) {
    CAPTURE(name);
    CHECK(first_pixel(name) == colour);
  }
  CHECK(first_pixel("sobel") == std::vector<int>{0, 0, 0});
  CHECK(first_pixel("laplacian") == std::vector<int>{128, 128, 128});
}

TEST_CASE("every backend that loads filters the photograph, and the table says whether it agrees") {
  const Folder folder;
  const std::string photo = std::string(std::getenv("POLYCONV_SOURCE_DIR")) + "/examples/data/coffee.png";
  const Run result = filter(folder, "'" + photo + "' '" + folder / "out.png" + "' --filter box --backend all");
  INFO(result.text);
  CHECK(result.code == 0);
  CHECK(result.text.find("reference/") != std::string::npos);
  const Image original = read_image(photo), filtered = read_image(folder / "out-reference.png");
  CHECK(original.width == filtered.width);
  CHECK(original.pixels != filtered.pixels);
}

TEST_CASE("what is wrong gets one sentence, an exit code, and no file") {
  const Folder folder;
  const std::string good = "'" + folder / "good.ppm" + "'", out = " '" + folder / "out.png" + "'";
  write(folder / "good.ppm", noise_ppm(5, 4, 3));
  write(folder / "text.png", "no picture");
  write(folder / "empty.png", "");
  write(folder / "short.ppm", noise_ppm(5, 4, 3).substr(0, 40));
  write(folder / "deep.ppm", "P6\n1 1\n1023\n123456");
  write(folder / "huge.ppm", "P6\n99999999999 1\n255\nabc");
  write(folder / "broken.png",
        contents(std::string(std::getenv("POLYCONV_SOURCE_DIR")) + "/examples/data/coffee.png").substr(0, 5000));
  write(folder / "ragged.txt", "1 2 3\n4 5\n");
  write(folder / "words.txt", "1 two 3\n");
  write(folder / "none.txt", "# nothing\n");
  const size_t files = folder.files();
  const auto file = [&](const std::string &name) { return "'" + folder / name + "'"; };
  const struct {
    std::string arguments;
    int code;
    std::string says;
  } cases[] = {
      {file("missing.png") + out, 1, "missing.png: cannot be read"},
      {"'" + folder / "" + "'" + out, 1, "cannot be read"},
      {file("text.png") + out, 1, "neither PNG nor"},
      {file("empty.png") + out, 1, "neither PNG nor"},
      {file("short.ppm") + out, 1, "expected 60"},
      {file("deep.ppm") + out, 1, "expected 255 or 65535"},
      {file("huge.ppm") + out, 1, "width and height from 1 to 16777216"},
      {file("broken.png") + out, 1, "the PNG is damaged"},
      {good + " '" + folder / "out.jpg" + "'", 2, "ends in .png, .ppm or .pgm"},
      {good + " '" + folder / "out.pgm" + "'", 1, "a PGM holds no colours"},
      {good + " '" + folder / "nowhere/out.png" + "'", 1, "cannot be written"},
      {good + out + " --filter blurr", 2, "expected one of gaussian, box"},
      {good + out + " --size 4", 2, "odd number from 3 to 63"},
      {good + out + " --size 65", 2, "odd number from 3 to 63"},
      {good + out + " --filter-file " + file("ragged.txt"), 1, "ragged.txt:2: 2 numbers; expected 3"},
      {good + out + " --filter-file " + file("words.txt"), 1, "words.txt:1: 'two' is not a finite number"},
      {good + out + " --filter-file " + file("none.txt"), 1, "holds no numbers"},
      {good + out + " --filter-file " + file("missing.txt"), 1, "cannot be read"},
      {good + out + " --border mirror", 2, "--border"},
      {good + out + " --border constant --border-value 300", 2, "pad_value"},
      {good + out + " --backend nosuch", 3, "'nosuch'"},
      {good + out + " --kernel nosuch/none", 3, "nosuch/none"},
      {good + out + " --kernel reference/pool", 4, "pool"},
      {good + out + " --threads -1", 2, "threads"},
      {good + out + " --unknown", 2, "--unknown"},
      {good, 2, "output"},
  };
  for (const auto &wrong : cases) {
    CAPTURE(wrong.arguments);
    const Run result = filter(folder, wrong.arguments);
    INFO(result.text);
    CHECK(result.code == wrong.code);
    CHECK(result.text.find(wrong.says) != std::string::npos);
    CHECK(folder.files() == files);
  }
}

TEST_CASE("a failed run leaves the picture that was there") {
  const Folder folder;
  write(folder / "good.ppm", noise_ppm(5, 4, 3));
  write(folder / "out.png", "before");
  CHECK(filter(folder, "'" + folder / "good.ppm" + "' '" + folder / "out.png" + "' --kernel reference/pool").code == 4);
  CHECK(contents(folder / "out.png") == "before");
}
