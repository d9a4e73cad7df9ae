// weights_file.cpp - packed weights on disk, as docs/weights-file.md describes: a header that says everything the
// weights must agree in, then the data, each with a checksum. Nothing is taken that does not verify.
// SPDX-License-Identifier: Apache-2.0
#include "os/os.hpp"
#include "registry/device.hpp"
#include "registry/host.hpp"
#include "run/weights.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace polyconv {
namespace {

constexpr char kMagic[8] = {'P', 'L', 'Y', 'C', 'O', 'N', 'V', 'W'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kEndianness = 0x01020304;
constexpr uint32_t kMostText = 4096; // of format id and token

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t endianness;
  uint32_t id_size;
  uint32_t token_size;
  uint64_t data_size;
  uint64_t data_checksum;
  uint64_t header_checksum; // of all before it, then id and token
};
static_assert(sizeof(Header) == 48, "the file's layout has no padding");

constexpr uint64_t kChecksumStart = 0xcbf29ce484222325u;

// FNV-1a, 64 bits: each byte changes the sum, and no dependency comes with it.
uint64_t checksum(uint64_t sum, const void *data, size_t size) {
  const unsigned char *bytes = static_cast<const unsigned char *>(data);
  for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 0x100000001b3u;
  return sum;
}

uint64_t header_checksum(const Header &header, const std::string &id, const std::string &token) {
  uint64_t sum = checksum(kChecksumStart, &header, offsetof(Header, header_checksum));
  sum = checksum(sum, id.data(), id.size());
  return checksum(sum, token.data(), token.size());
}

Failure bad_file(const std::string &path, const std::string &what) {
  return Failure(POLYCONV_IO_ERROR, "path is '" + path + "': " + what);
}

// A file that is read from front to back.
class Reader {
 public:
  explicit Reader(const std::string &path) : path_(path) {
    const std::string odd = os::odd_kind(path); // a pipe that nobody writes to would hold us for ever
    if (!odd.empty()) throw bad_file(path, "is " + odd + ", expected a regular file");
    file_ = os::open_to_read(path);
    if (file_ == nullptr) throw bad_file(path, std::string("cannot be opened: ") + std::strerror(errno));
  }
  ~Reader() { std::fclose(file_); }
  Reader(const Reader &) = delete;
  Reader &operator=(const Reader &) = delete;

  void read(void *to, size_t size, const char *what) {
    if (std::fread(to, 1, size, file_) != size)
      throw bad_file(path_, std::string("ends inside its ") + what + ", expected a complete weights file");
  }

  std::string read_text(size_t size, const char *what) {
    std::string text(size, '\0');
    read(&text[0], size, what);
    return text;
  }

  void expect_end() {
    if (std::fgetc(file_) != EOF) throw bad_file(path_, "goes on after its data, expected the end of the file");
  }

 private:
  const std::string &path_;
  std::FILE *file_ = nullptr;
};

// The other byte order of each of the numbers of `width` bytes that lie side by side.
void swap_bytes(void *numbers, size_t bytes, size_t width) {
  char *first = static_cast<char *>(numbers);
  for (size_t i = 0; i + width <= bytes; i += width) std::reverse(first + i, first + i + width);
}

uint32_t swapped(uint32_t number) {
  swap_bytes(&number, sizeof number, sizeof number);
  return number;
}

// The header in this machine's byte order. `written` is left as it lies in the file, which its checksum is of.
Header in_own_order(const Header &written) {
  Header header = written;
  if (written.endianness != swapped(kEndianness)) return header;
  swap_bytes(&header.version, offsetof(Header, data_size) - offsetof(Header, version), sizeof header.version);
  swap_bytes(&header.data_size, sizeof header - offsetof(Header, data_size), sizeof header.data_size);
  return header;
}

Header read_header(Reader *reader, const std::string &path, Header *written) {
  reader->read(written, sizeof *written, "header");
  if (std::memcmp(written->magic, kMagic, sizeof kMagic) != 0)
    throw bad_file(path, "does not begin with PLYCONVW, expected a file written by polyconv_weights_save");
  const Header header = in_own_order(*written);
  if (header.endianness != kEndianness)
    throw bad_file(path, "is corrupt: its header names no byte order, expected 0x01020304 in one of the two");
  if (header.version != kVersion)
    throw bad_file(path, "has version " + std::to_string(header.version) + ", expected " + std::to_string(kVersion));
  if (header.id_size > kMostText || header.token_size > kMostText)
    throw bad_file(path, "is corrupt: its header names sizes that no weights file has");
  return header;
}

void expect_format(const std::string &path, const WeightsFormat &found, const WeightsFormat &wanted) {
  if (found == wanted) return;
  throw failure(POLYCONV_INVALID_ARGUMENT,
                "path is '%s', which holds format '%s' for '%s' (%lld bytes), expected '%s' for '%s' (%lld bytes)",
                path.c_str(), found.id.c_str(), found.token.c_str(), static_cast<long long>(found.bytes),
                wanted.id.c_str(), wanted.token.c_str(), static_cast<long long>(wanted.bytes));
}

// Raw weights are numbers of one type. What a kernel's own format is made of, its backend alone knows.
void expect_swappable(const std::string &path, const WeightsFormat &format) {
  if (!format.raw())
    throw bad_file(path, "was written on a machine of the other byte order, in which format '" + format.id +
                             "' is not read; expected this machine's, or raw weights");
}

void wait_for_packing(const polyconv_weights &weights) {
  if (weights.packed_event == nullptr || weights.device->table->event_synchronize == nullptr) return;
  const polyconv_status status = ask_backend(weights.device->name.c_str(), "event_synchronize", [&] {
    return weights.device->table->event_synchronize(weights.device->index, weights.packed_event);
  });
  if (status != POLYCONV_SUCCESS) throw Failure(status, last_error());
}

} // namespace

void save_weights(const polyconv_weights &weights, const std::string &path) {
  const size_t size = memory_size(weights.format.bytes);
  std::vector<char> staging;
  const void *data = weights.data;
  if (has_own_memory(*weights.device)) {
    wait_for_packing(weights);
    staging = copy_to_host(*weights.device, weights.data, weights.format.bytes, nullptr);
    data = staging.data();
  }
  const std::string &id = weights.format.id, &token = weights.format.token;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.endianness = kEndianness;
  header.id_size = static_cast<uint32_t>(id.size());
  header.token_size = static_cast<uint32_t>(token.size());
  header.data_size = size;
  header.data_checksum = checksum(kChecksumStart, data, size);
  header.header_checksum = header_checksum(header, id, token);
  os::write_file_atomically(
      path, {{&header, sizeof header}, {id.data(), id.size()}, {token.data(), token.size()}, {data, size}});
}

std::unique_ptr<polyconv_weights> load_weights(const polyconv_plan &plan, int32_t layer, const std::string &path,
                                               void *memory, void *stream) {
  const WeightsFormat &wanted = layer_of(plan, layer).weights;
  Reader reader(path);
  Header written;
  const Header header = read_header(&reader, path, &written);
  const bool other_order = written.endianness != kEndianness;
  WeightsFormat found;
  found.id = reader.read_text(header.id_size, "header");
  found.token = reader.read_text(header.token_size, "header");
  found.bytes = static_cast<int64_t>(header.data_size);
  if (header_checksum(written, found.id, found.token) != header.header_checksum)
    throw bad_file(path, "is corrupt: its header does not match its checksum");
  expect_format(path, found, wanted);
  if (other_order) expect_swappable(path, wanted);
  // The data is verified before it goes to its place: on failure the caller's memory is as it was.
  std::vector<char> staging(memory_size(wanted.bytes));
  reader.read(staging.data(), staging.size(), "data");
  reader.expect_end();
  if (checksum(kChecksumStart, staging.data(), staging.size()) != header.data_checksum)
    throw bad_file(path, "is corrupt: its data does not match its checksum");
  if (other_order) {
    const size_t width = polyconv_type_size(layer_of(plan, layer).layer.layer.weights.type);
    swap_bytes(staging.data(), staging.size(), width);
  }
  std::unique_ptr<polyconv_weights> weights = empty_weights(plan, layer, memory);
  copy_memory(*plan.device, weights->data, staging.data(), wanted.bytes, stream);
  synchronise(*plan.device, stream); // before the staging goes
  if (weights->packer != nullptr && wants_host_copy(*plan.device, *weights->packer->kernel))
    weights->host_copy = std::move(staging);
  return weights;
}

} // namespace polyconv
