// os.hpp - every operating-system call of the library, behind plain functions: shared libraries, environment, folders,
// processors, memory, time, files that appear whole or not at all. posix*.cpp and windows.cpp implement it; no
// other file of the library includes a system header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace polyconv::os {

// ---- shared libraries

// How a backend's file is called: prefix + name + suffix.
extern const char *const backend_prefix; // "libpolyconv_"
extern const char *const backend_suffix; // ".so"

// Opens a shared library for ever, its symbols resolved now and kept to itself. NULL with the reason in *reason: what
// the system says, or that it is no regular file, that everyone may write to it or its folder, that it is cut off, or
// that its initialisers threw. There is no closing: unloading code that has started threads crashes.
void *open_library(const std::string &path, std::string *reason);

// A symbol, and the file that really defines it: the system also searches a library's dependencies.
struct Symbol {
  void *address = nullptr; // NULL: there is none
  std::string file;
};
Symbol find_symbol(void *library, const char *name);

// The build id of the library or program that an address lies in, in hexadecimal: a hash of its contents that the
// linker made. "" where it has none.
std::string build_id(const void *address);

// The absolute folder of libpolyconv itself, "" where the system does not tell.
std::string own_folder();

// ---- environment

// The value of an environment variable; "" where it is unset, and in privileged programs (setuid, setgid).
std::string environment(const char *name);

// Between the folders of a list in an environment variable: ':' or ';'.
extern const char path_list_separator;

// ---- files. Paths are the bytes that the caller gave: on Windows UTF-8, and of any length.

bool is_absolute(const std::string &path);
std::string join(const std::string &folder, const std::string &name);

// Whether two paths lead to one existing file.
bool same_file(const std::string &a, const std::string &b);

// "a folder", "a pipe", "a device" or "a socket" where such a thing is there instead of a regular file, else "".
// Opening one may never return.
std::string odd_kind(const std::string &path);

// The names in a folder, sorted; false where it cannot be read.
bool list_folder(const std::string &folder, std::vector<std::string> *names);

// The folder in which the user's programs keep what they can do without; "" where nothing says where it is, and in
// privileged programs.
std::string cache_folder();

// Opens a file to read its bytes; NULL, and errno, where it cannot be opened.
std::FILE *open_to_read(const std::string &path);

// The folder in which a machine's administrators say what holds for all users; "" where there is none.
std::string site_folder();

// Whether a file is there; its whole content, false where it cannot be read (errno's words in *reason) or is larger
// than any that the library wrote.
bool exists(const std::string &path);
inline constexpr uint64_t kMostFileBytes = uint64_t{256} << 20;
inline constexpr const char *kTooLarge = "it has more than 256 MiB";
bool read_file(const std::string &path, std::string *content, std::string *reason);

// Keeps other processes, and other locks of this one, out while it lives: the system gives it back also where the
// process is killed. The file at `path` is made where it is missing, and its folder, and stays. Throws
// Failure(IO_ERROR).
class FileLock {
 public:
  explicit FileLock(const std::string &path);
  ~FileLock();
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;

 private:
  intptr_t handle_ = -1; // the file's, as the system has it
};

// Whether a file's name is one that write_file_atomically gives while it writes: what is to be, ".tmp", and two
// numbers.
inline bool is_left_over(const std::string &name, const std::string &target) {
  const std::string prefix = target + ".tmp";
  return name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
         name.find_first_not_of("0123456789.", prefix.size()) == std::string::npos;
}

// Removes what killed writers of write_file_atomically left beside `path`. Only for who holds the one lock under which
// that file is written.
void remove_left_over(const std::string &path);

struct Piece {
  const void *data;
  size_t size;
};

// Writes pieces one after another to a new file in the same folder, flushes it to the disk and renames it to `path`, so
// that `path` is either what it was or complete; a link there is followed. What is no regular file is left alone.
// Throws Failure(IO_ERROR) naming the path and the system's reason.
void write_file_atomically(const std::string &path, const std::vector<Piece> &pieces);

// ---- machine

int processors();       // logical processors this process may use, >= 1
int64_t total_memory(); // bytes, 0 where unknown
std::string cpu_name(); // "" where unknown
double cpu_mhz();       // 0 where unknown

// The bits by which the system says what the processor has, of the first or the second word (AT_HWCAP, AT_HWCAP2); 0
// where it says nothing in this way.
uint64_t cpu_features(int word);

// ---- memory, time, last words

// Memory aligned to a power of two; NULL when there is none. Given back by release (NULL is ignored).
void *allocate(size_t bytes, size_t alignment) noexcept;
void release(void *pointer) noexcept;

int64_t monotonic_ns() noexcept;

// Seconds since 1970.
int64_t wall_clock_s() noexcept;

// One write to stderr: only where POLYCONV_LOG asked for it.
void write_stderr(const char *text, size_t size) noexcept;

} // namespace polyconv::os
