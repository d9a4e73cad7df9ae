// data.cpp - see data.hpp. zlib reads plain files as they are, so one path serves both.
// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "failure.hpp"

namespace lenet {
namespace {

// A file whose complaints name it.
class IdxFile {
 public:
  IdxFile(const std::string &folder, const std::string &name) : path_(folder + "/" + name) {
    if (!std::filesystem::is_regular_file(path_)) path_ += ".gz";
    if (!std::filesystem::is_regular_file(path_))
      throw Failure(kExitFailed, folder + ": holds neither " + name + " nor " + name + ".gz");
    file_.reset(gzopen(path_.c_str(), "rb"));
    if (!file_) refuse("cannot be read");
  }

  [[noreturn]] void refuse(const std::string &what) const { throw Failure(kExitFailed, path_ + ": " + what); }

  void read(void *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
      const auto piece = static_cast<unsigned>(std::min<size_t>(bytes - done, 1u << 30));
      const int got = gzread(file_.get(), static_cast<char *>(to) + done, piece);
      if (got < 0) refuse(std::string("is damaged: ") + complaint());
      if (got == 0) refuse("is truncated: expected " + std::to_string(bytes - done) + " more bytes");
      done += static_cast<size_t>(got);
    }
  }

  // Big-endian, as all numbers of the header.
  int64_t number() {
    std::array<uint8_t, 4> bytes{};
    read(bytes.data(), bytes.size());
    return int64_t{bytes[0]} << 24 | int64_t{bytes[1]} << 16 | int64_t{bytes[2]} << 8 | int64_t{bytes[3]};
  }

  // The header: type u8 and so many axes, whose sizes it returns.
  std::vector<int64_t> sizes(int64_t axes, const char *what) {
    const int64_t magic = number(), expected = 0x800 + axes;
    if (magic != expected)
      refuse("begins with " + std::to_string(magic) + "; expected " + std::to_string(expected) + ", an IDX file of " +
             what);
    std::vector<int64_t> result;
    for (int64_t axis = 0; axis < axes; ++axis) result.push_back(number());
    return result;
  }

  // Nothing may follow, and the checksum must hold: zlib has seen it only at the end.
  void expect_end() {
    char byte = 0;
    const int got = gzread(file_.get(), &byte, 1);
    if (got < 0) refuse(std::string("is damaged: ") + complaint());
    if (got > 0) refuse("is longer than its header says");
  }

 private:
  const char *complaint() const {
    int code = 0;
    const char *text = gzerror(file_.get(), &code);
    return text == nullptr || *text == '\0' ? "zlib cannot go on" : text;
  }

  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
};

constexpr int64_t kMostImages = 10000000, kMostPixels = 4096;

} // namespace

void Images::keep(int64_t most) {
  if (most <= 0 || most >= count) return;
  count = most;
  pixels.resize(static_cast<size_t>(count * rows * columns));
  labels.resize(static_cast<size_t>(count));
}

Images read_images(const std::string &folder, const std::string &part, int64_t classes) {
  Images images;
  IdxFile pictures(folder, part + "-images-idx3-ubyte"), names(folder, part + "-labels-idx1-ubyte");
  const std::vector<int64_t> sizes = pictures.sizes(3, "images");
  images.count = sizes[0], images.rows = sizes[1], images.columns = sizes[2];
  if (images.count < 1 || images.count > kMostImages || images.rows < 1 || images.rows > kMostPixels ||
      images.columns < 1 || images.columns > kMostPixels)
    pictures.refuse("says " + std::to_string(images.count) + " images of " + std::to_string(images.rows) + "x" +
                    std::to_string(images.columns) + "; expected 1 to 10000000 of 1x1 to 4096x4096");
  const int64_t labels = names.sizes(1, "labels")[0];
  if (labels != images.count)
    names.refuse("holds " + std::to_string(labels) + " labels; expected " + std::to_string(images.count) +
                 ", one an image");
  images.pixels.resize(static_cast<size_t>(images.count * images.rows * images.columns));
  images.labels.resize(static_cast<size_t>(images.count));
  pictures.read(images.pixels.data(), images.pixels.size());
  pictures.expect_end();
  names.read(images.labels.data(), images.labels.size());
  names.expect_end();
  for (size_t i = 0; i < images.labels.size(); ++i)
    if (images.labels[i] >= classes)
      names.refuse("gives image " + std::to_string(i) + " the label " + std::to_string(images.labels[i]) +
                   "; expected 0.." + std::to_string(classes - 1));
  return images;
}

std::string fashion_folder() {
  for (const char *folder : {"/usr/share/datasets/fashion-mnist", "/usr/local/share/datasets/fashion-mnist"})
    if (std::filesystem::is_directory(folder)) return folder;
  return "";
}

} // namespace lenet
