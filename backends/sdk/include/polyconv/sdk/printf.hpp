// printf.hpp - has the compiler check the arguments of a function that formats as printf does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// POLYCONV_PRINTF(format, first): the numbers of the two parameters, the object itself being the first of a member.
#if defined(__MINGW32__) && !defined(__clang__)
// Ours is the C standard's printf, which the C++ library asks mingw-w64 for; the plain name would mean Microsoft's.
#define POLYCONV_PRINTF(format_index, first_index) __attribute__((format(gnu_printf, format_index, first_index)))
#elif defined(__GNUC__)
#define POLYCONV_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#define POLYCONV_PRINTF(format_index, first_index)
#endif
