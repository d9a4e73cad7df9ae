// wire.hpp - one message of protobuf's wire format, field by field, over bytes that somebody else keeps. Nothing is
// copied, and whatever the bytes say, nothing outside of them is read.
//
// Source: https://protobuf.dev/programming-guides/encoding/
//
// SPDX-License-Identifier: Apache-2.0
#ifndef POLYCONV_ONNX_WIRE_HPP
#define POLYCONV_ONNX_WIRE_HPP

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace polyconv_onnx {

struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// for (Wire wire(bytes); wire.next();) switch (wire.field()) …
class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint(rest_);
    field_ = static_cast<int64_t>(key >> 3), kind_ = static_cast<int>(key & 7);
    if (kind_ == kVarint)
      number_ = varint(rest_);
    else if (kind_ == kBytes)
      bytes_ = cut(varint(rest_));
    else if (kind_ == kFour || kind_ == kEight)
      bytes_ = cut(kind_ == kFour ? 4 : 8);
    else
      throw Malformed("field " + std::to_string(field_) + " is of wire type " + std::to_string(kind_) +
                      ", expected 0, 1, 2 or 5");
    return true;
  }

  int64_t field() const { return field_; }
  int64_t number() const { return static_cast<int64_t>((expect(kVarint), number_)); }
  std::string_view bytes() const { return expect(kBytes), bytes_; }
  std::string text() const { return std::string(bytes()); }
  float real() const {
    expect(kFour);
    float value = 0;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

  // A repeated field comes one by one or packed.
  void append(std::vector<int64_t> &numbers) const {
    if (kind_ != kBytes) return numbers.push_back(number());
    for (std::string_view packed = bytes_; !packed.empty();) numbers.push_back(static_cast<int64_t>(varint(packed)));
  }
  void append(std::vector<float> &reals) const {
    if (kind_ != kBytes) return reals.push_back(real());
    if (bytes_.size() % sizeof(float) != 0) throw Malformed("packed floats end in the middle of one");
    const size_t before = reals.size();
    reals.resize(before + bytes_.size() / sizeof(float));
    if (!bytes_.empty()) std::memcpy(reals.data() + before, bytes_.data(), bytes_.size());
  }

 private:
  enum { kVarint = 0, kEight = 1, kBytes = 2, kFour = 5 };

  static uint64_t varint(std::string_view &bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size() && i < 10; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) return bytes.remove_prefix(i + 1), value;
    }
    throw Malformed(bytes.size() < 10 ? "a number is cut off" : "a number has more than ten bytes");
  }
  std::string_view cut(uint64_t length) {
    if (length > rest_.size())
      throw Malformed("field " + std::to_string(field_) + " says that it has " + std::to_string(length) +
                      " bytes, but " + std::to_string(rest_.size()) + " are left");
    const std::string_view front = rest_.substr(0, static_cast<size_t>(length));
    rest_.remove_prefix(front.size());
    return front;
  }
  void expect(int kind) const {
    if (kind_ != kind)
      throw Malformed("field " + std::to_string(field_) + " is of wire type " + std::to_string(kind_) + ", expected " +
                      std::to_string(kind));
  }

  std::string_view rest_, bytes_;
  int64_t field_ = 0;
  int kind_ = kVarint;
  uint64_t number_ = 0;
};

} // namespace polyconv_onnx
#endif // POLYCONV_ONNX_WIRE_HPP
