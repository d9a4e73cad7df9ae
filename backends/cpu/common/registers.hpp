// registers.hpp - how wide the vector registers of this pass are and how many it has, as constants of the preprocessor:
// tiles are cut by them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Of Arm the pass is named by CMake: every 64-bit Arm has NEON, and the baseline does without it as other processors
// do. SVE registers have the length that the compiler was told, and such code runs where the machine's are of that
// length.
#if defined(POLYCONV_PASS_NEON) && defined(__ARM_NEON)
#define POLYCONV_NEON 1
#define POLYCONV_ARM 1
#elif defined(POLYCONV_PASS_SVE) && defined(__ARM_FEATURE_SVE_BITS)
#define POLYCONV_SVE 1
#define POLYCONV_ARM 1
#endif

#if defined(POLYCONV_SVE)
#define POLYCONV_VECTOR_BYTES (__ARM_FEATURE_SVE_BITS / 8)
#elif defined(__AVX512F__)
#define POLYCONV_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define POLYCONV_VECTOR_BYTES 32
#else
#define POLYCONV_VECTOR_BYTES 16
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
#define POLYCONV_VECTOR_REGISTERS 32
#else
#define POLYCONV_VECTOR_REGISTERS 16
#endif
