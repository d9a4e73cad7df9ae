// float_mode.hpp - how a thread's processor rounds, what it makes of denormals, and which exceptions end the process.
// Programs change that for a thread of theirs (fesetround, feenableexcept, torch.set_flush_denormal, and whatever was
// linked with -ffast-math), and a new thread has what its creator had at that moment. Kernels run in the mode that
// every program begins with, on all threads: else the bits of a run would hang on which thread did what, and denormal
// halves, which some instruction sets convert by way of denormal floats, would be lost.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace polyconv::sdk {

// Of x86 and 64-bit Arm; elsewhere the mode stays as the program has it. kFloatFlags: exceptions so far, no mode.
#if defined(__SSE__) && (defined(__x86_64__) || defined(__i386__))
inline constexpr uint64_t kFloatDefault = 0x1f80, kFloatFlags = 0x3f, kFloatFlushes = 0x8040;
inline uint64_t read_float_mode() {
  return __builtin_ia32_stmxcsr();
}
inline void write_float_mode(uint64_t mode) {
  __builtin_ia32_ldmxcsr(static_cast<unsigned>(mode));
}
#elif defined(__aarch64__)
inline constexpr uint64_t kFloatDefault = 0, kFloatFlags = 0, kFloatFlushes = uint64_t{1} << 24 | uint64_t{1} << 19;
inline uint64_t read_float_mode() {
  uint64_t mode;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void write_float_mode(uint64_t mode) {
  __asm__ __volatile__("msr fpcr, %0" : : "r"(mode));
}
#else
inline constexpr uint64_t kFloatDefault = 0, kFloatFlags = 0, kFloatFlushes = 0;
inline uint64_t read_float_mode() {
  return kFloatDefault;
}
inline void write_float_mode(uint64_t) {}
#endif

// While it lives this thread is in that mode. Reading a mode takes a few cycles; it is written only where it differs.
class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(read_float_mode()), differs_((before_ & ~kFloatFlags) != kFloatDefault) {
    if (differs_) write_float_mode(kFloatDefault);
  }
  DefaultFloatMode(const DefaultFloatMode &) = delete;
  ~DefaultFloatMode() {
    if (differs_) write_float_mode(before_);
  }

 private:
  const uint64_t before_;
  const bool differs_;
};

} // namespace polyconv::sdk
