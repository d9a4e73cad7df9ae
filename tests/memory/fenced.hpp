// fenced.hpp - buffers of a run, each between two pages that nobody may touch: who reads or writes beyond one is caught
// in the act, where guard zones notice writes alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <polyconv/polyconv.h>

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace fenced {

// Where a buffer lies in its pages.
enum class Side { kBegin, kEnd };

class Buffer {
 public:
  Buffer() = default;
  Buffer(size_t bytes, Side side, size_t alignment) : bytes_(bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    mapped_ = inner + 2 * page;
    void *at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(at != MAP_FAILED);
    memory_ = static_cast<char *>(at);
    if (inner > 0) REQUIRE(mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE) == 0);
    const size_t shift = side == Side::kBegin ? 0 : (inner - bytes) / alignment * alignment;
    data_ = memory_ + page + shift;
  }
  ~Buffer() {
    if (memory_ != nullptr) munmap(memory_, mapped_);
  }
  Buffer(Buffer &&other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)),
        data_(other.data_),
        bytes_(other.bytes_),
        mapped_(other.mapped_) {}
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  Buffer &operator=(Buffer &&) = delete;

  char *data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  char *memory_ = nullptr, *data_ = nullptr;
  size_t bytes_ = 0, mapped_ = 0;
};

// What runs now, for the handler.
inline char running[1024] = "";

// Says who touched a fence, and ends the process: the thread that did cannot go on.
inline void catch_trespassers() {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    const auto say = [](const char *text) { (void)!write(STDOUT_FILENO, text, std::strlen(text)); };
    say("ERROR: memory beyond a buffer was touched by ");
    say(running);
    say("\n");
    _exit(1);
  };
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

} // namespace fenced
