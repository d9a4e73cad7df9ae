// image_png.cpp - PNG through libpng's row interface: its simplified one would take 16 bits for linear light and
// multiply colours by alpha. Palettes become colour, transparent colours alpha, fewer bits 8. libpng leaves a failed
// call by longjmp, so that nothing with a destructor is made between setjmp and the end.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#ifdef IMAGE_FILTER_PNG

#include <png.h>

#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

namespace {

struct Complaint {
  char text[200] = "";
};

void complain(png_structp png, png_const_charp message) {
  auto *complaint = static_cast<Complaint *>(png_get_error_ptr(png));
  std::snprintf(complaint->text, sizeof complaint->text, "%s", message);
  png_longjmp(png, 1);
}
void ignore(png_structp, png_const_charp) {}

bool is_little_endian() {
  const uint16_t one = 1;
  unsigned char first = 0;
  std::memcpy(&first, &one, 1);
  return first == 1;
}

// The file in memory.
struct Source {
  const std::string *bytes;
  size_t at;
};
void take(png_structp png, png_bytep to, png_size_t size) {
  auto *source = static_cast<Source *>(png_get_io_ptr(png));
  if (size > source->bytes->size() - source->at) png_error(png, "the file ends too early");
  std::memcpy(to, source->bytes->data() + source->at, size);
  source->at += size;
}

// libpng's objects of one file that is read.
struct Reader {
  Complaint complaint;
  Source source;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(const std::string &bytes) : source{&bytes, 0} {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &complaint, complain, ignore);
    if (png) info = png_create_info_struct(png);
    if (info) png_set_read_fn(png, &source, take);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader &) = delete;
  Reader &operator=(const Reader &) = delete;
};

// What a file says of itself before its pixels, as they will come.
bool read_header(Reader &reader) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_set_user_limits(reader.png, 1 << 24, 1 << 24);
  png_read_info(reader.png, reader.info);
  png_set_expand(reader.png); // palettes, fewer bits than 8, transparent colours
  if (is_little_endian()) png_set_swap(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(Reader &reader, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reader.png))) return false;
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

bool write_rows(png_structp png, png_infop info, std::FILE *file, const Image &image, png_bytepp rows) {
  static constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                   PNG_COLOR_TYPE_RGB_ALPHA};
  if (setjmp(png_jmpbuf(png))) return false;
  png_init_io(png, file);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               static_cast<int>(8 * image.bytes), kTypes[image.channels - 1], PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  if (image.bytes == 2 && is_little_endian()) png_set_swap(png);
  png_write_image(png, rows);
  png_write_end(png, nullptr);
  return true;
}

std::vector<png_bytep> rows_of(const Image &image) {
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y)
    rows[y] = const_cast<png_bytep>(image.pixels.data()) + y * static_cast<size_t>(image.row_bytes());
  return rows;
}

} // namespace

Image read_png(const std::string &path, const std::string &bytes) {
  Reader reader(bytes);
  if (!reader.info) throw std::bad_alloc();
  if (!read_header(reader)) throw Failure(kExitFailed, path + ": not a PNG that can be read: " + reader.complaint.text);
  const int64_t bits = png_get_bit_depth(reader.png, reader.info);
  Image image =
      sized_image(path, png_get_image_width(reader.png, reader.info), png_get_image_height(reader.png, reader.info),
                  png_get_channels(reader.png, reader.info), bits / 8);
  std::vector<png_bytep> rows = rows_of(image);
  if (!read_rows(reader, rows.data()))
    throw Failure(kExitFailed, path + ": the PNG is damaged: " + reader.complaint.text);
  return image;
}

bool encode_png(const std::string &path, const Image &image, std::string *reason) {
  std::FILE *file = std::fopen(path.c_str(), "wb");
  if (!file) {
    *reason = std::strerror(errno);
    return false;
  }
  Complaint complaint;
  std::vector<png_bytep> rows = rows_of(image);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &complaint, complain, ignore);
  png_infop info = png ? png_create_info_struct(png) : nullptr;
  bool good = info && write_rows(png, info, file, image, rows.data());
  png_destroy_write_struct(&png, &info);
  if (std::fclose(file) != 0 && good) {
    std::snprintf(complaint.text, sizeof complaint.text, "%s", std::strerror(errno));
    good = false;
  }
  *reason = complaint.text;
  return good;
}

#else

Image read_png(const std::string &path, const std::string &) {
  throw Failure(kExitFailed, path +
                                 ": a PNG, and this program was built without libpng (Debian: libpng-dev); "
                                 "expected binary PPM (P6) or PGM (P5)");
}

bool encode_png(const std::string &, const Image &, std::string *reason) {
  *reason = "this program was built without libpng (Debian: libpng-dev)";
  return false;
}

#endif
