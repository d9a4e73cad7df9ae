// isa.hpp - which instruction sets this build has and this CPU runs; what kernels' supports ask. Driver side only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <polyconv/sdk/kernel.hpp>

namespace polyconv::cpu {

// What CPUs have, each with all before it. The first kIsaCount are the configs of ordinary CPU kernels, in this order;
// the last two have instructions for 16-bit and 8-bit products alone, for kernels made of them.
enum Isa : int32_t { kBaseline = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmx = 4 };
inline constexpr int kIsaLevels = 5;

#if POLYCONV_HAVE_AVX512
inline constexpr int kIsaCount = 3;
#elif POLYCONV_HAVE_AVX2
inline constexpr int kIsaCount = 2;
#else
inline constexpr int kIsaCount = 1;
#endif

extern const char *const isa_names[kIsaLevels]; // "baseline", "avx2", "avx512", "avx512_bf16", "amx"

// The best for an ordinary kernel that this build has, this CPU and operating system run, and POLYCONV_MAX_ISA allows.
// Decided once.
Isa best_isa();

// The instruction set that `config` (-1: the best) stands for, set in the offer; false with a reason where this
// machine lacks it. For the top of every supports.
bool choose_isa(int32_t config, sdk::Offer &offer, Isa &isa);

// Whether this machine has `isa` and POLYCONV_MAX_ISA allows it; else false with a reason. Tiles (kAmx) must be asked
// for from the operating system, once a process: the first such call does.
bool has_isa(Isa isa, sdk::Offer &offer);

// The instruction set whose vectors an instruction set has: BF16 and AMX add none of their own.
inline Isa vectors_of(Isa isa) {
  return isa < kAvx512 ? isa : kAvx512;
}

// The bytes of a vector register: 16, 32 or 64.
inline int64_t vector_bytes(Isa isa) {
  return int64_t{16} << vectors_of(isa);
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
