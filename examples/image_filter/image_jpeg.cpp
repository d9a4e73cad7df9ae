// image_jpeg.cpp - JPEG through libjpeg, where CMake found one; a clear refusal elsewhere. libjpeg leaves a failed call
// by longjmp, as libpng does.
// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#ifdef IMAGE_FILTER_JPEG

#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

namespace {

struct Errors : jpeg_error_mgr {
  std::jmp_buf back;
  char text[JMSG_LENGTH_MAX] = "";
  bool damaged = false;
};

void leave(j_common_ptr jpeg) {
  auto *errors = static_cast<Errors *>(jpeg->err);
  errors->format_message(jpeg, errors->text);
  std::longjmp(errors->back, 1);
}

// libjpeg goes on after warnings, such as a file that ends too early, with pixels of its own making.
void warn(j_common_ptr jpeg, int level) {
  auto *errors = static_cast<Errors *>(jpeg->err);
  if (level >= 0 || errors->damaged) return;
  errors->damaged = true;
  errors->format_message(jpeg, errors->text);
}

struct Reader {
  jpeg_decompress_struct jpeg = {};
  Errors errors;

  Reader() {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = leave;
    errors.emit_message = warn;
  }
  ~Reader() { jpeg_destroy_decompress(&jpeg); }
  Reader(const Reader &) = delete;
  Reader &operator=(const Reader &) = delete;
};

bool read_header(Reader &reader, const std::string &bytes) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_create_decompress(&reader.jpeg);
  jpeg_mem_src(&reader.jpeg, reinterpret_cast<const unsigned char *>(bytes.data()), bytes.size());
  jpeg_read_header(&reader.jpeg, TRUE);
  return true;
}

bool read_rows(Reader &reader, uint8_t *pixels, size_t row_bytes) {
  if (setjmp(reader.errors.back)) return false;
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    JSAMPROW row = pixels + reader.jpeg.output_scanline * row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reader.jpeg);
  return true;
}

} // namespace

Image read_jpeg(const std::string &path, const std::string &bytes) {
  Reader reader;
  if (!read_header(reader, bytes))
    throw Failure(kExitFailed, path + ": not a JPEG that can be read: " + reader.errors.text);
  const bool grey = reader.jpeg.num_components == 1;
  if (!grey && reader.jpeg.num_components != 3)
    throw Failure(kExitFailed, path + ": a JPEG of " + std::to_string(reader.jpeg.num_components) +
                                   " components; expected grey or three colours");
  reader.jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  Image image = sized_image(path, reader.jpeg.image_width, reader.jpeg.image_height, grey ? 1 : 3, 1);
  const auto row_bytes = static_cast<size_t>(image.row_bytes());
  if (!read_rows(reader, image.pixels.data(), row_bytes) || reader.errors.damaged)
    throw Failure(kExitFailed, path + ": the JPEG is damaged: " + reader.errors.text);
  return image;
}

#else

Image read_jpeg(const std::string &path, const std::string &) {
  throw Failure(kExitFailed, path +
                                 ": a JPEG, and this program was built without libjpeg (Debian: libjpeg-dev); "
                                 "expected PNG, or binary PPM (P6) or PGM (P5)");
}

#endif
