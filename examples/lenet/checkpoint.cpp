// checkpoint.cpp - see checkpoint.hpp. The file: a line "lenet checkpoint 1", the fields below as little-endian bytes,
// and the CRC-32 of all that.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <zlib.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "failure.hpp"
#include "model.hpp"
#include "step/lenet_step.hpp"

namespace lenet {
namespace {

constexpr char kMagic[] = "lenet checkpoint 1\n";
constexpr size_t kMagicSize = sizeof kMagic - 1;

uint32_t checksum(const std::string &bytes, size_t count) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), static_cast<uInt>(count)));
}

// Appends and takes away the same fields in the same order.
class Writer {
 public:
  template <class T>
  void number(const T &value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  template <class T>
  void list(const std::vector<T> &values) {
    number(static_cast<int64_t>(values.size()));
    bytes.append(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T));
  }
  void text(const std::string &value) { list(std::vector<char>(value.begin(), value.end())); }
  std::string bytes;
};

class Reader {
 public:
  Reader(const std::string &path, const std::string &bytes, size_t end) : path_(path), bytes_(bytes), end_(end) {}
  template <class T>
  void number(T *value) {
    take(value, sizeof *value);
  }
  template <class T>
  void list(std::vector<T> *values) {
    int64_t count = 0;
    number(&count);
    if (count < 0 || static_cast<size_t>(count) > (end_ - at_) / sizeof(T)) refuse();
    values->resize(static_cast<size_t>(count));
    take(values->data(), values->size() * sizeof(T));
  }
  std::string text() {
    std::vector<char> characters;
    list(&characters);
    return {characters.begin(), characters.end()};
  }

 private:
  [[noreturn]] void refuse() const { throw Failure(kExitFailed, path_ + ": is corrupt"); }
  void take(void *to, size_t count) {
    if (count > end_ - at_) refuse();
    if (count > 0) std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
  }
  const std::string &path_, &bytes_;
  size_t at_ = kMagicSize, end_;
};

// f16 through the CPU's own conversion, whatever device the run is on.
std::vector<uint16_t> halves(const std::vector<float> &values) {
  std::vector<uint16_t> result(values.size());
  check_step(lenet_cpu_steps()->convert(values.data(), POLYCONV_F32, result.data(), POLYCONV_F16,
                                        static_cast<int64_t>(values.size()), nullptr));
  return result;
}
std::vector<float> from_halves(const std::vector<uint16_t> &values) {
  std::vector<float> result(values.size());
  check_step(lenet_cpu_steps()->convert(values.data(), POLYCONV_F16, result.data(), POLYCONV_F32,
                                        static_cast<int64_t>(values.size()), nullptr));
  return result;
}

std::string contents(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Failure(kExitFailed, path + ": cannot be read; expected a checkpoint");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void check_network(const std::string &path, const Checkpoint &c, const Network &network) {
  if (c.network != network.text())
    throw Failure(kExitFailed, path + ": is a checkpoint of another network than " + network.name + ", which has " +
                                   std::to_string(spans_of(network).parameters) + " parameters");
  const auto expected = static_cast<size_t>(spans_of(network).parameters);
  const bool state = !c.first.empty();
  if (c.values.size() != expected || (state && (c.first.size() != expected || c.second.size() != expected)))
    throw Failure(kExitFailed, path + ": is corrupt: it holds " + std::to_string(c.values.size()) +
                                   " parameters; expected " + std::to_string(expected));
}

} // namespace

void write_checkpoint(const std::string &path, const Checkpoint &c) {
  Writer w;
  w.bytes = kMagic;
  w.text(c.network);
  w.number(c.seed), w.number(c.optimiser), w.number(c.batch), w.number(c.rate), w.number(c.epochs), w.number(c.updates);
  w.list(c.history);
  w.number(static_cast<int32_t>(c.half));
  if (c.half)
    w.list(halves(c.values));
  else
    w.list(c.values);
  w.list(c.first), w.list(c.second);
  w.number(checksum(w.bytes, w.bytes.size()));
  write_file(path, w.bytes);
}

Checkpoint read_checkpoint(const std::string &path, const Network &network) {
  const std::string bytes = contents(path);
  if (bytes.compare(0, kMagicSize, kMagic) != 0)
    throw Failure(kExitFailed, path + ": is no checkpoint of this program");
  uint32_t stored = 0;
  if (bytes.size() < kMagicSize + sizeof stored) throw Failure(kExitFailed, path + ": is truncated");
  const size_t end = bytes.size() - sizeof stored;
  std::memcpy(&stored, bytes.data() + end, sizeof stored);
  if (stored != checksum(bytes, end))
    throw Failure(kExitFailed, path + ": is truncated or corrupt: its checksum is wrong");
  Checkpoint c;
  Reader r(path, bytes, end);
  c.network = r.text();
  r.number(&c.seed), r.number(&c.optimiser), r.number(&c.batch), r.number(&c.rate), r.number(&c.epochs),
      r.number(&c.updates);
  r.list(&c.history);
  int32_t half = 0;
  r.number(&half);
  c.half = half != 0;
  if (c.half) {
    std::vector<uint16_t> values;
    r.list(&values);
    c.values = from_halves(values);
  } else {
    r.list(&c.values);
  }
  r.list(&c.first), r.list(&c.second);
  check_network(path, c, network);
  return c;
}

} // namespace lenet
