// buffers.cpp - the memory that problems are timed on.
// SPDX-License-Identifier: Apache-2.0
#include "subject/buffers.hpp"

#include <algorithm>
#include <cstring>

#include "api/handles.hpp"

namespace polyconv::bench {

namespace {

// xorshift64*: quick, and the same everywhere.
uint64_t next(uint64_t &state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 0x2545F4914F6CDD1DULL;
}

// Sign and mantissa of random bits under the exponent of [0.5, 1).
template <class Bits>
void fill_floats(unsigned char *out, size_t count, int exponent_bits, int mantissa_bits, uint64_t seed) {
  const uint64_t mantissa = (uint64_t{1} << mantissa_bits) - 1;
  const uint64_t exponent = ((uint64_t{1} << (exponent_bits - 1)) - 2) << mantissa_bits;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = next(seed);
    const auto value =
        static_cast<Bits>((bits & mantissa) | exponent | ((bits >> 63) << (exponent_bits + mantissa_bits)));
    std::memcpy(out + i * sizeof value, &value, sizeof value);
  }
}

} // namespace

std::vector<unsigned char> random_bytes(int32_t type, size_t bytes, uint64_t seed) {
  std::vector<unsigned char> values(bytes);
  switch (type) {
    case POLYCONV_F64: fill_floats<uint64_t>(values.data(), bytes / 8, 11, 52, seed); break;
    case POLYCONV_F32: fill_floats<uint32_t>(values.data(), bytes / 4, 8, 23, seed); break;
    case POLYCONV_F16: fill_floats<uint16_t>(values.data(), bytes / 2, 5, 10, seed); break;
    case POLYCONV_BF16: fill_floats<uint16_t>(values.data(), bytes / 2, 8, 7, seed); break;
    default:
      for (unsigned char &value : values) value = static_cast<unsigned char>(next(seed) >> 56);
  }
  return values;
}

void BufferPool::begin(int64_t bytes, int64_t limit) {
  if (held_ > limit - bytes) clear();
}

void BufferPool::clear() {
  for (auto &[role, buffer] : buffers_) polyconv_device_free(device_, buffer.pointer, POLYCONV_MEMORY_DEVICE);
  buffers_.clear();
  held_ = 0;
}

void *BufferPool::get(const std::string &role, int64_t bytes, int32_t type, bool written) {
  if (bytes == 0) return nullptr;
  Buffer &buffer = buffers_[role];
  if (buffer.bytes < bytes) {
    polyconv_device_free(device_, buffer.pointer, POLYCONV_MEMORY_DEVICE);
    held_ -= buffer.bytes;
    buffer = Buffer();
    require(polyconv_device_alloc(device_, static_cast<size_t>(bytes), POLYCONV_MEMORY_DEVICE, &buffer.pointer));
    buffer.bytes = bytes;
    held_ += bytes;
    fill(buffer, type); // also what is written: touched pages, no surprise in the first run
  }
  if (!written && buffer.type != type) fill(buffer, type);
  if (written) buffer.type = 0;
  return buffer.pointer;
}

void BufferPool::fill(Buffer &buffer, int32_t type) {
  constexpr size_t kBlock = size_t{1} << 20;
  const size_t bytes = static_cast<size_t>(buffer.bytes);
  const std::vector<unsigned char> block = random_bytes(type, kBlock, 0x9E3779B97F4A7C15ULL);
  for (size_t at = 0; at < bytes; at += kBlock)
    require(polyconv_device_copy(device_, static_cast<unsigned char *>(buffer.pointer) + at, block.data(),
                                 std::min(kBlock, bytes - at), nullptr));
  polyconv_stream_synchronize(device_, nullptr);
  buffer.type = type;
}

} // namespace polyconv::bench
