// elf.hpp - a look into a shared library before it is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace polyconv {

// Why a file that begins like an ELF library is not all there: its segments must lie inside it, as the dynamic linker
// maps them without looking and the process would die where the file ends. "" where it is whole, or no such file: then
// the dynamic linker says what is wrong.
std::string elf_cut_off(const std::string &path);

} // namespace polyconv
