// isa.hpp - which instruction sets this build has and this CPU runs; what kernels' supports ask. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cpu {

// What CPUs have. The first kIsaCount are the configs of ordinary CPU kernels, in this order, which is that of
// preference; the others have instructions for 16-bit and 8-bit products alone, for kernels made of them (kDots; of
// bytes alone, kByteDots).
#if defined(__aarch64__)
// SVE code is for registers of one length: a machine has one of the two at most. Where registers have 128 bits, NEON's
// are as long and its multiply-adds take a factor from any lane, so there is no SVE code of that length.
enum Isa : int32_t { kBaseline = 0, kNeon = 1, kSve256 = 2, kSve512 = 3, kNeonDot = 4, kNeonBf16 = 5 };
inline constexpr Isa kByteDots = kNeonDot, kDots = kNeonBf16;
inline constexpr int kIsaLevels = 6;
#else
// Each with all before it.
enum Isa : int32_t { kBaseline = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmx = 4 };
inline constexpr Isa kByteDots = kAvx512Bf16, kDots = kAvx512Bf16;
inline constexpr int kIsaLevels = 5;
#endif

#if POLYCONV_HAVE_SVE512
inline constexpr int kIsaCount = 4;
#elif POLYCONV_HAVE_AVX512 || POLYCONV_HAVE_SVE256
inline constexpr int kIsaCount = 3;
#elif POLYCONV_HAVE_AVX2 || POLYCONV_HAVE_NEON
inline constexpr int kIsaCount = 2;
#else
inline constexpr int kIsaCount = 1;
#endif

extern const char *const isa_names[kIsaLevels]; // as in POLYCONV_MAX_ISA and the names of configs

// What a sentence calls it: "AVX2 with FMA".
const char *words_of(Isa isa);

// The best for an ordinary kernel that this build has, this CPU and operating system run, and POLYCONV_MAX_ISA allows.
// Decided once.
Isa best_isa();

// The instruction set that `config` (-1: the best) stands for, set in the offer; false with a reason where this
// machine lacks it. For the top of every supports.
bool choose_isa(int32_t config, sdk::Offer &offer, Isa &isa);

// Whether this machine has `isa` and POLYCONV_MAX_ISA allows it; else false with a reason. Tiles (kAmx) must be asked
// for from the operating system, once a process: the first such call does.
bool has_isa(Isa isa, sdk::Offer &offer);

// The bytes of a vector register: 16, 32 or 64. BF16 and AMX add none of their own.
inline int64_t vector_bytes(Isa isa) {
#if defined(__aarch64__)
  return isa == kSve512 ? 64 : isa == kSve256 ? 32 : 16;
#else
  return isa == kBaseline ? 16 : isa == kAvx2 ? 32 : 64;
#endif
}

// Whether there are 32 of them, by which tiles are cut, or 16 (common/registers.hpp).
inline bool many_registers([[maybe_unused]] Isa isa) {
#if defined(__aarch64__)
  return true;
#else
  return isa >= kAvx512;
#endif
}

// What one core of a current machine does in an ordinary kernel, for estimates: multiply-adds counted as two, per
// microsecond, for sums of `sum_type`; and bytes per microsecond from memory.
double flops_per_us(Isa isa, int32_t sum_type);

// The cycle of a core that multiplies and adds two vectors of f32 in each, in microseconds: for kernels whose estimates
// count cycles because their tiles reach that rate.
double cycle_us(Isa isa);
inline constexpr double kBytesPerUs = 12e3;

// Tasks to cut work into that takes `serial_us` on one thread: threads, but 1 where a fork and join would cost more
// than it gains. A function of the request alone.
int64_t tasks_for(const polyconv_policy &policy, double serial_us);

// The estimate of work cut so: arithmetic shared by the tasks, memory traffic by up to a few, and the join.
double estimate_us(int64_t tasks, double arithmetic_us, double bytes);

// What kernels that go through a layer group by group pay beside their arithmetic, on one thread: where the channels of
// a pixel share a line of memory, every group brings in and writes back that line for a part of it.
double group_lines_us(const polyconv_layer &layer);

} // namespace polyconv::cpu
