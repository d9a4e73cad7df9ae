// buffers.hpp - the memory that problems are timed on: one growing buffer a role ("input", "weights0"), shared by
// everything that is measured on a device, filled with random values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/polyconv.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace polyconv::bench {

// Random values of a type: floats of magnitude [0.5, 1) and either sign, integers of the whole range. A multiple of
// the type's size.
std::vector<unsigned char> random_bytes(int32_t type, size_t bytes, uint64_t seed);

class BufferPool {
 public:
  explicit BufferPool(const polyconv_device *device) : device_(device) {}
  ~BufferPool() { clear(); }
  BufferPool(const BufferPool &) = delete;
  BufferPool &operator=(const BufferPool &) = delete;

  // Makes room for a problem of `bytes` in all: gives memory back where what is held would exceed `limit` with it.
  // Pointers handed out before are invalid afterwards.
  void begin(int64_t bytes, int64_t limit);

  // The role's buffer of at least `bytes`, random in `type` where it is read (`written` false) and holds anything
  // else; NULL for 0 bytes. Throws Unable when out of memory.
  void *get(const std::string &role, int64_t bytes, int32_t type, bool written);

  void clear();

 private:
  struct Buffer {
    void *pointer = nullptr;
    int64_t bytes = 0;
    int32_t type = 0; // of the random values; 0 where something else has been written
  };
  void fill(Buffer &buffer, int32_t type);

  const polyconv_device *device_;
  std::map<std::string, Buffer> buffers_;
  int64_t held_ = 0;
};

} // namespace polyconv::bench
