// elf.cpp - elf.hpp: headers by hand, each number checked before it is used.
// SPDX-License-Identifier: Apache-2.0
#include "os/elf.hpp"

#if defined(__linux__)

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>

namespace polyconv {
namespace {

bool read_at(std::ifstream *file, uint64_t offset, void *to, size_t size) {
  file->seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file->read(static_cast<char *>(to), static_cast<std::streamsize>(size)));
}

// Where [offset, offset + size) ends; UINT64_MAX where that is no number.
uint64_t end_of(uint64_t offset, uint64_t size) {
  uint64_t end = 0;
  return __builtin_add_overflow(offset, size, &end) ? UINT64_MAX : end;
}

std::string cut_off(uint64_t size, uint64_t end) {
  return "it is cut off: it has " + std::to_string(size) + " bytes, expected " + std::to_string(end);
}

template <class Header, class Segment>
std::string look_into(std::ifstream *file, uint64_t size) {
  Header header;
  if (!read_at(file, 0, &header, sizeof header)) return cut_off(size, sizeof header);
  if (header.e_phentsize != sizeof(Segment)) return ""; // no library of this machine
  const uint64_t table_end = end_of(header.e_phoff, uint64_t{header.e_phnum} * sizeof(Segment));
  if (table_end > size) return cut_off(size, table_end);
  uint64_t end = 0;
  for (int i = 0; i < header.e_phnum; ++i) {
    Segment segment;
    if (!read_at(file, header.e_phoff + static_cast<uint64_t>(i) * sizeof segment, &segment, sizeof segment))
      return cut_off(size, table_end);
    if (segment.p_filesz > 0) end = std::max(end, end_of(segment.p_offset, segment.p_filesz));
  }
  return end > size ? cut_off(size, end) : "";
}

} // namespace

std::string elf_cut_off(const std::string &path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const uint64_t size = static_cast<uint64_t>(file.tellg());
  unsigned char begin[EI_NIDENT];
  if (!read_at(&file, 0, begin, sizeof begin) || std::memcmp(begin, ELFMAG, SELFMAG) != 0) return "";
  if (begin[EI_CLASS] == ELFCLASS64) return look_into<Elf64_Ehdr, Elf64_Phdr>(&file, size);
  return begin[EI_CLASS] == ELFCLASS32 ? look_into<Elf32_Ehdr, Elf32_Phdr>(&file, size) : "";
}

} // namespace polyconv

#else

std::string polyconv::elf_cut_off(const std::string &) {
  return "";
}

#endif
