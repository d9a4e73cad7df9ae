// guarded.hpp - memory of a device with guard zones around it, and a picture of what it should hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <string>
#include <vector>

namespace polyconv::check {

// A call of the library that failed; becomes a Result.
struct CallFailed {
  polyconv_status status;
  std::string sentence;
};
void require(polyconv_status status, const char *what);

class Guarded {
 public:
  // `shift`: bytes behind an address as aligned as the device's memory.
  Guarded(const polyconv_device *device, int64_t bytes, size_t shift = 0);
  ~Guarded();
  Guarded(Guarded &&other) noexcept;
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;
  Guarded &operator=(Guarded &&) = delete;

  void *pointer() const { return static_cast<uint8_t *>(memory_) + before_; }
  size_t bytes() const { return picture_.size() - before_ - kGuard; }

  // The picture between the guards: change it, then upload.
  uint8_t *picture() { return picture_.data() + before_; }
  void poison(uint8_t byte);
  void upload();

  // Brings the memory back; picture() stays what was uploaded.
  void download();
  const uint8_t *found() const { return found_.data() + before_; }

  // After download: how many bytes before and behind the buffer are not what they were; 0 and 0 when all is well.
  int64_t damaged_before() const;
  int64_t damaged_behind() const;
  // Whether the memory between the guards still is the picture.
  bool unchanged() const;

 private:
  static constexpr size_t kGuard = 4096; // a multiple of POLYCONV_ALIGNMENT
  const polyconv_device *device_;
  size_t before_; // bytes of the guard in front
  void *memory_ = nullptr;
  std::vector<uint8_t> picture_, found_;
};

} // namespace polyconv::check
