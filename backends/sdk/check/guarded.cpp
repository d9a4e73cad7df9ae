// guarded.cpp - see guarded.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "guarded.hpp"

#include <cstring>
#include <utility>

namespace polyconv::check {
namespace {

// Differs from byte to byte, so that a guard shifted in one piece is noticed too.
uint8_t guard_byte(size_t i) {
  return static_cast<uint8_t>(0xa5 ^ (i * 7));
}

int64_t differences(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b, size_t begin, size_t end) {
  int64_t count = 0;
  for (size_t i = begin; i < end; ++i) count += a[i] != b[i];
  return count;
}

} // namespace

void require(polyconv_status status, const char *what) {
  if (status != POLYCONV_SUCCESS) throw CallFailed{status, std::string(what) + ": " + polyconv_last_error()};
}

Guarded::Guarded(const polyconv_device *device, int64_t bytes, size_t shift)
    : device_(device), before_(kGuard + shift), picture_(before_ + static_cast<size_t>(bytes) + kGuard) {
  for (size_t i = 0; i < before_; ++i) picture_[i] = guard_byte(i);
  for (size_t i = picture_.size() - kGuard; i < picture_.size(); ++i) picture_[i] = guard_byte(i);
  require(polyconv_device_alloc(device_, picture_.size(), POLYCONV_MEMORY_DEVICE, &memory_), "polyconv_device_alloc");
}

Guarded::~Guarded() {
  polyconv_device_free(device_, memory_, POLYCONV_MEMORY_DEVICE);
}

Guarded::Guarded(Guarded &&other) noexcept
    : device_(other.device_),
      before_(other.before_),
      memory_(std::exchange(other.memory_, nullptr)),
      picture_(std::move(other.picture_)),
      found_(std::move(other.found_)) {}

void Guarded::poison(uint8_t byte) {
  std::memset(picture(), byte, bytes());
}

void Guarded::upload() {
  require(polyconv_device_copy(device_, memory_, picture_.data(), picture_.size(), nullptr), "polyconv_device_copy");
  require(polyconv_stream_synchronize(device_, nullptr), "polyconv_stream_synchronize");
}

void Guarded::download() {
  found_.resize(picture_.size());
  require(polyconv_device_copy(device_, found_.data(), memory_, found_.size(), nullptr), "polyconv_device_copy");
  require(polyconv_stream_synchronize(device_, nullptr), "polyconv_stream_synchronize");
}

int64_t Guarded::damaged_before() const {
  return differences(picture_, found_, 0, before_);
}

int64_t Guarded::damaged_behind() const {
  return differences(picture_, found_, picture_.size() - kGuard, picture_.size());
}

bool Guarded::unchanged() const {
  return bytes() == 0 || std::memcmp(picture_.data() + before_, found(), bytes()) == 0;
}

} // namespace polyconv::check
