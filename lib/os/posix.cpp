// posix.cpp - os.hpp on Linux and other POSIX systems.
// SPDX-License-Identifier: Apache-2.0
#if !defined(_WIN32)

#include "base/status.hpp"
#include "os/os.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <memory>
#include <new>

namespace polyconv::os {

const char path_list_separator = ':';

// ---------------------------------------------------------------- environment

std::string environment(const char *name) {
#if defined(__linux__)
  const char *value = secure_getenv(name);
#else
  const char *value = issetugid() ? nullptr : std::getenv(name);
#endif
  return value != nullptr ? value : "";
}

// ---------------------------------------------------------------- files

bool is_absolute(const std::string &path) {
  return !path.empty() && path[0] == '/';
}

std::string join(const std::string &folder, const std::string &name) {
  return folder.empty() || folder.back() != '/' ? folder + "/" + name : folder + name;
}

bool same_file(const std::string &a, const std::string &b) {
  struct stat first, second;
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

std::string odd_kind(const std::string &path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || S_ISREG(found.st_mode)) return "";
  return S_ISDIR(found.st_mode)    ? "a folder"
         : S_ISFIFO(found.st_mode) ? "a pipe"
         : S_ISSOCK(found.st_mode) ? "a socket"
                                   : "a device";
}

bool list_folder(const std::string &folder, std::vector<std::string> *names) {
  names->clear();
  const std::unique_ptr<DIR, int (*)(DIR *)> directory(opendir(folder.c_str()), closedir);
  if (!directory && errno == ENOMEM) throw std::bad_alloc(); // the folder is there, and another time it can be read
  if (!directory) return false;
  while (const dirent *entry = readdir(directory.get())) names->push_back(entry->d_name);
  std::sort(names->begin(), names->end());
  return true;
}

std::string cache_folder() {
  std::string folder = environment("XDG_CACHE_HOME");
  if (is_absolute(folder)) return folder;
  const std::string home = environment("HOME");
  return is_absolute(home) ? join(home, ".cache") : "";
}

std::FILE *open_to_read(const std::string &path) {
  return std::fopen(path.c_str(), "rb");
}

std::string site_folder() {
  return "/etc";
}

bool exists(const std::string &path) {
  struct stat found;
  return stat(path.c_str(), &found) == 0;
}

bool read_file(const std::string &path, std::string *content, std::string *reason) {
  content->clear();
  *reason = odd_kind(path);
  if (!reason->empty()) return false;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat found;
  bool good = file >= 0 && fstat(file, &found) == 0;
  if (good && static_cast<uint64_t>(found.st_size) > kMostFileBytes) {
    close(file);
    *reason = kTooLarge;
    return false;
  }
  if (good) content->resize(static_cast<size_t>(found.st_size));
  size_t filled = 0;
  while (good && filled < content->size()) {
    const ssize_t got = ::read(file, &(*content)[filled], content->size() - filled);
    if (got < 0 && errno == EINTR) continue;
    good = got >= 0;
    if (got <= 0) break;
    filled += static_cast<size_t>(got);
  }
  if (!good) *reason = std::strerror(errno);
  if (file >= 0) close(file);
  content->resize(good ? filled : 0);
  return good;
}

namespace {

// The folders above a file, made where they are missing. Why the first that could not be made could not, as errno; 0.
int make_folders_of(const std::string &path) {
  int error = 0;
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    if (mkdir(path.substr(0, slash).c_str(), 0777) != 0 && errno != EEXIST && error == 0) error = errno;
  return error;
}

} // namespace

FileLock::FileLock(const std::string &path) {
  const int folders_error = make_folders_of(path);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  int locked = -1;
  if (file >= 0) do
      locked = flock(file, LOCK_EX);
    while (locked != 0 && errno == EINTR);
  if (locked != 0) {
    const int error = errno == ENOENT && folders_error != 0 ? folders_error : errno;
    if (file >= 0) close(file);
    throw failure(POLYCONV_IO_ERROR, "'%s' could not be locked: %s", path.c_str(), std::strerror(error));
  }
  handle_ = file;
}

FileLock::~FileLock() {
  close(static_cast<int>(handle_));
}

void remove_left_over(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string target = path.substr(slash == std::string::npos ? 0 : slash + 1);
  std::vector<std::string> names;
  list_folder(folder, &names);
  for (const std::string &name : names)
    if (is_left_over(name, target)) unlink(join(folder, name).c_str());
}

namespace {

// Where a symbolic link leads: the file there is replaced, and the link stays. Anything else as it is.
std::string behind_link(const std::string &path) {
  const std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : path;
}

// A file that disappears unless it is kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string &target) : target_(behind_link(target)) {
    const std::string odd = odd_kind(target_);
    if (!odd.empty())
      throw failure(POLYCONV_IO_ERROR, "'%s' is %s, expected a regular file or a new name", target.c_str(),
                    odd.c_str());
    // Not mkstemp: the file shall get the permissions that this process gives to new files.
    static std::atomic<unsigned> counter{0};
    do {
      name_ = target_ + ".tmp" + std::to_string(getpid()) + "." + std::to_string(counter++);
      file_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file_ < 0 && errno == EEXIST);
    if (file_ < 0) fail("created");
  }
  ~TemporaryFile() {
    if (file_ >= 0) close(file_);
    if (!kept_) unlink(name_.c_str());
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  void write(const Piece &piece) {
    const char *data = static_cast<const char *>(piece.data);
    for (size_t left = piece.size; left > 0;) {
      const ssize_t written = ::write(file_, data, std::min<size_t>(left, SSIZE_MAX));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("written");
      data += written;
      left -= static_cast<size_t>(written);
    }
  }

  void keep() {
    if (fsync(file_) != 0) fail("flushed to the disk");
    const int file = file_;
    file_ = -1;
    if (close(file) != 0) fail("closed");
    if (rename(name_.c_str(), target_.c_str()) != 0) fail("put in its place");
    kept_ = true;
  }

 private:
  [[noreturn]] void fail(const char *step) {
    throw failure(POLYCONV_IO_ERROR, "'%s' could not be %s: %s", target_.c_str(), step, std::strerror(errno));
  }

  std::string target_, name_;
  int file_ = -1;
  bool kept_ = false;
};

} // namespace

void write_file_atomically(const std::string &path, const std::vector<Piece> &pieces) {
  TemporaryFile file(path);
  for (const Piece &piece : pieces) file.write(piece);
  file.keep();
}

// ---------------------------------------------------------------- machine

int processors() {
#if defined(__linux__)
  // The kernel refuses a set that is smaller than its own: try ever larger ones.
  for (int capacity = 1024; capacity <= (1 << 20); capacity *= 2) {
    cpu_set_t *set = CPU_ALLOC(static_cast<size_t>(capacity));
    if (set == nullptr) break;
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max(count, 1);
  }
#endif
  return static_cast<int>(std::max(sysconf(_SC_NPROCESSORS_ONLN), 1L));
}

int64_t total_memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : 0;
}

namespace {

// The first value of a key in /proc/cpuinfo.
std::string cpuinfo(const char *key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, std::strlen(key), key) != 0) continue;
    const size_t colon = line.find(':');
    const size_t value = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    if (value != std::string::npos) return line.substr(value);
  }
  return "";
}

} // namespace

std::string cpu_name() {
  return cpuinfo("model name");
}

double cpu_mhz() {
  double kilohertz = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") >> kilohertz;
  return kilohertz > 0 ? kilohertz / 1000 : std::strtod(cpuinfo("cpu MHz").c_str(), nullptr);
}

uint64_t cpu_features([[maybe_unused]] int word) {
#if defined(__linux__)
  return getauxval(word == 1 ? AT_HWCAP : AT_HWCAP2);
#else
  return 0;
#endif
}

// ---------------------------------------------------------------- memory, time, last words

void *allocate(size_t bytes, size_t alignment) noexcept {
  if (bytes > PTRDIFF_MAX) return nullptr;
  // Tensors walked in strides, or faster than pages are looked up, want large pages. Only whole ones, so that no more
  // memory is taken than asked for; a system that has none refuses, and small ones serve.
  constexpr size_t kLargePage = size_t{2} << 20;
  const bool large = bytes >= kLargePage;
  void *pointer = nullptr;
  if (posix_memalign(&pointer, std::max(alignment, large ? kLargePage : sizeof(void *)), bytes) != 0) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (large) madvise(pointer, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
#endif
  return pointer;
}

void release(void *pointer) noexcept {
  std::free(pointer);
}

int64_t monotonic_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000000000 + now.tv_nsec;
}

int64_t wall_clock_s() noexcept {
  return static_cast<int64_t>(std::time(nullptr));
}

void write_stderr(const char *text, size_t size) noexcept {
  // A stderr that takes nothing is no reason to disturb the program.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, size);
}

} // namespace polyconv::os

#endif // !_WIN32
