// pass.hpp - how one kernel source becomes code for several instruction sets.
//
// CMake compiles every <folder>/<kernel>.cpp once per instruction set with POLYCONV_ISA set to isa_baseline and, by the
// processor, to isa_avx2 and isa_avx512 or to isa_neon, isa_sve256 and isa_sve512. The kernel proper lives in namespace
// polyconv::cpu::POLYCONV_ISA. What only the CPU-independent side needs (supports, create, pack, tables; everything
// from std:: and from the SDK's inline functions) is in drivers, which are compiled for the baseline alone, or stands
// under #ifdef POLYCONV_DRIVER, which only that pass defines.
//
// Why so strict: an inline function or template of external linkage that two passes instantiate is merged by the
// linker, which may keep the AVX-512 copy and crash an older CPU. In the kernel part use POLYCONV_INLINE functions and
// templates inside the ISA's namespace, builtins instead of <cmath>, and plain structs declared outside.
// tests/isa checks the objects.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !defined(POLYCONV_ISA)
#error "compiled by backends/cpu/CMakeLists.txt only, which sets POLYCONV_ISA"
#endif

#define POLYCONV_INLINE static inline __attribute__((always_inline))
#define POLYCONV_MEMBER inline __attribute__((always_inline)) // of structs inside POLYCONV_ISA
// One copy of each in a pass, however many kernels call it: all sources of a pass are compiled alike.
#define POLYCONV_NOINLINE inline __attribute__((noinline))

// POLYCONV_ISA_FUNCTION(void, direct_task, const DirectPlan &plan, int64_t task);
// declares a function that every pass defines in its own namespace; drivers call direct_task_by_isa[isa](plan, task).
#ifdef POLYCONV_DRIVER
#define POLYCONV_ISA_FUNCTION(result, name, ...)  \
  POLYCONV_ISA_DECLARE(result, name, __VA_ARGS__) \
  constexpr result (*name##_by_isa[])(__VA_ARGS__) = POLYCONV_BY_ISA(name);
#else
#define POLYCONV_ISA_FUNCTION(result, name, ...) POLYCONV_ISA_DECLARE(result, name, __VA_ARGS__)
#endif

#define POLYCONV_ISA_DECLARE(result, name, ...) \
  namespace isa_baseline {                      \
  result name(__VA_ARGS__);                     \
  }                                             \
  namespace isa_avx2 {                          \
  result name(__VA_ARGS__);                     \
  }                                             \
  namespace isa_avx512 {                        \
  result name(__VA_ARGS__);                     \
  }                                             \
  namespace isa_neon {                          \
  result name(__VA_ARGS__);                     \
  }                                             \
  namespace isa_sve256 {                        \
  result name(__VA_ARGS__);                     \
  }                                             \
  namespace isa_sve512 {                        \
  result name(__VA_ARGS__);                     \
  }

// All of those functions that there are, in the order of Isa.
#if POLYCONV_HAVE_AVX512
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name, isa_avx2::name, isa_avx512::name }
#elif POLYCONV_HAVE_AVX2
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name, isa_avx2::name }
#elif POLYCONV_HAVE_SVE512
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name, isa_neon::name, isa_sve256::name, isa_sve512::name }
#elif POLYCONV_HAVE_SVE256
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name, isa_neon::name, isa_sve256::name }
#elif POLYCONV_HAVE_NEON
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name, isa_neon::name }
#else
#define POLYCONV_BY_ISA(name) \
  { isa_baseline::name }
#endif
