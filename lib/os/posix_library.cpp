// posix_library.cpp - the shared libraries of os.hpp on Linux and other POSIX systems: which files may be opened,
// and how, so that whatever a file turns out to be, the process lives.
// SPDX-License-Identifier: Apache-2.0
#if !defined(_WIN32)

#include "os/elf.hpp"
#include "os/os.hpp"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <link.h>
#include <pthread.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>

namespace polyconv::os {

const char *const backend_prefix = "libpolyconv_";
const char *const backend_suffix = ".so";

namespace {

// The path without links, "" where there is nothing.
std::string real_path(const std::string &path) {
  const std::unique_ptr<char, void (*)(void *)> real(realpath(path.c_str(), nullptr), std::free);
  if (!real && errno == ENOMEM) throw std::bad_alloc();
  return real ? real.get() : "";
}

std::string folder_of(const std::string &path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : slash == 0 ? "/" : path.substr(0, slash);
}

bool everyone_may_write(const std::string &path, struct stat *found) {
  return stat(path.c_str(), found) == 0 && (found->st_mode & S_IWOTH) != 0;
}

// What somebody else could do with a file that lies in a folder; "" where nothing.
std::string danger_in(const std::string &folder, const struct stat &file) {
  struct stat found;
  if (!everyone_may_write(folder, &found)) return "";
  const bool ours = file.st_uid == 0 || file.st_uid == geteuid();
  if ((found.st_mode & S_ISVTX) != 0 && ours) return ""; // as in /tmp: nobody else may put another in its place
  return "lies in '" + folder + "', to which everyone may write";
}

// Code that anybody may change is not loaded, unless that holds for this library too, as on file systems without
// permissions: then nothing is gained.
std::string danger_of(const std::string &path) {
  struct stat own, file;
  if (everyone_may_write(own_folder(), &own) && (own.st_mode & S_ISVTX) == 0) return "";
  if (stat(path.c_str(), &file) != 0) return ""; // the dynamic linker says why
  if ((file.st_mode & S_IWOTH) != 0) return "everyone may write to it";
  const std::string danger = danger_in(folder_of(path), file);
  return danger.empty() ? danger_in(folder_of(real_path(path)), file) : danger;
}

#if defined(__GLIBC__)
// The locks of the dynamic linker that this thread holds. It does not expect that an initialiser throws and leaves them
// locked, so that the next thread that looks up a symbol would wait for ever.
class LinkerLocks {
 public:
  LinkerLocks() : before_(held()) {}

  // Gives back what was locked since.
  void restore() const {
    for (const Lock &now : held()) {
      const auto was =
          std::find_if(before_.begin(), before_.end(), [&](const Lock &b) { return b.mutex == now.mutex; });
      for (unsigned count = was == before_.end() ? 0 : was->count; count < now.count; ++count)
        pthread_mutex_unlock(now.mutex);
    }
  }

 private:
  struct Lock {
    pthread_mutex_t *mutex;
    unsigned count;
  };

  // They lie in the linker's one global struct, and are the recursive mutexes there that belong to this thread.
  static std::vector<Lock> held() {
    std::vector<Lock> locks;
    char *const globals = static_cast<char *>(dlsym(RTLD_DEFAULT, "_rtld_global"));
    Dl_info info;
    ElfW(Sym) *symbol = nullptr;
    if (globals == nullptr || dladdr1(globals, &info, reinterpret_cast<void **>(&symbol), RTLD_DL_SYMENT) == 0 ||
        symbol == nullptr)
      return locks;
    const int self = static_cast<int>(syscall(SYS_gettid));
    for (size_t at = 0; at + sizeof(pthread_mutex_t) <= symbol->st_size; at += alignof(pthread_mutex_t)) {
      auto *mutex = reinterpret_cast<pthread_mutex_t *>(globals + at);
      const auto &inside = mutex->__data;
      if (inside.__kind == PTHREAD_MUTEX_RECURSIVE_NP && inside.__owner == self && inside.__lock != 0 &&
          inside.__count > 0)
        locks.push_back({mutex, inside.__count});
    }
    return locks;
  }

  std::vector<Lock> before_;
};
#else
struct LinkerLocks {
  void restore() const {}
};
#endif

// The C library declares dlopen as one that cannot throw, and a compiler that believes it leaves out the handlers.
void *open_that_may_throw(const char *path, int flags) {
  void *(*volatile open)(const char *, int) = dlopen;
  return open(path, flags);
}

// Libraries of which an initialiser threw: another dlopen would return them, half initialised as they are. One load is
// under way at a time.
struct Broken {
  std::string path, reason;
};
std::vector<Broken> &broken() {
  static std::vector<Broken> &made = *new std::vector<Broken>;
  return made;
}

const Broken *half_initialised(const std::string &path) {
  const auto found =
      std::find_if(broken().begin(), broken().end(), [&](const Broken &one) { return one.path == path; });
  return found != broken().end() ? &*found : nullptr;
}

} // namespace

void *open_library(const std::string &path, std::string *reason) {
  const std::string odd = odd_kind(path);
  *reason = !odd.empty() ? "it is " + odd + ", expected a shared library" : danger_of(path);
  if (reason->empty()) *reason = elf_cut_off(path);
  if (!reason->empty()) return nullptr;
  if (const auto *known = half_initialised(path)) {
    *reason = known->reason;
    return nullptr;
  }
  const LinkerLocks locks;
  try {
    void *library = open_that_may_throw(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return library;
    const char *error = dlerror();
    *reason = error != nullptr ? error : "dlopen failed without a reason";
  } catch (const std::exception &error) {
    locks.restore();
    *reason = std::string("a static initialiser threw an exception: ") + error.what();
    broken().push_back({path, *reason});
  } catch (...) {
    locks.restore();
    *reason = "a static initialiser threw an exception";
    broken().push_back({path, *reason});
  }
  return nullptr;
}

Symbol find_symbol(void *library, const char *name) {
  Symbol symbol;
  symbol.address = dlsym(library, name);
  Dl_info info;
  if (symbol.address != nullptr && dladdr(symbol.address, &info) != 0 && info.dli_fname != nullptr) {
    symbol.file = info.dli_fname;
  }
  return symbol;
}

namespace {

// The file that is mapped at an address, as the kernel knows it. The dynamic linker remembers a path as it was given,
// perhaps relative to what was then the current folder, which is no place to look for code in.
std::string mapped_file(const void *address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    int path_at = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx %*s %*s %*s %*s %n", &begin, &end, &path_at) != 2) continue;
    if (wanted >= begin && wanted < end && path_at > 0) return line.substr(static_cast<size_t>(path_at));
  }
  return "";
}

} // namespace

#if defined(__GLIBC__)

namespace {

struct BuildIdSearch {
  uintptr_t address;
  std::string id;
};

// The build id among the notes of one segment.
std::string build_id_in(const char *notes, size_t size) {
  constexpr uint32_t kBuildId = 3; // NT_GNU_BUILD_ID
  const auto padded = [](size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof head);
    const size_t name = sizeof head, content = name + padded(head.n_namesz);
    const size_t whole = content + padded(head.n_descsz);
    if (whole > size) return "";
    if (head.n_type == kBuildId && head.n_namesz == 4 && std::memcmp(notes + name, "GNU", 4) == 0) {
      std::string text;
      char two[3];
      for (size_t i = 0; i < head.n_descsz; ++i) {
        std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(notes[content + i])));
        text += two;
      }
      return text;
    }
    notes += whole;
    size -= whole;
  }
  return "";
}

// One object of the process: done (1) when it is the one that the address lies in.
int look_for_build_id(dl_phdr_info *object, size_t, void *context) {
  auto &search = *static_cast<BuildIdSearch *>(context);
  bool inside = false;
  std::string id;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && search.address >= start && search.address - start < segment.p_memsz) inside = true;
    if (segment.p_type == PT_NOTE && id.empty())
      id = build_id_in(reinterpret_cast<const char *>(start), // NOLINT(performance-no-int-to-ptr): the loader's
                       static_cast<size_t>(segment.p_memsz));
  }
  if (inside) search.id = id;
  return inside ? 1 : 0;
}

} // namespace

std::string build_id(const void *address) {
  BuildIdSearch search = {reinterpret_cast<uintptr_t>(address), ""};
  dl_iterate_phdr(look_for_build_id, &search);
  return search.id;
}

#else

std::string build_id(const void *) {
  return "";
}

#endif

std::string own_folder() {
  Dl_info info;
  // Any address inside this library tells its file.
  const void *inside = &backend_prefix;
  std::string path;
  if (dladdr(inside, &info) != 0 && info.dli_fname != nullptr) path = info.dli_fname;
  if (!is_absolute(path)) path = mapped_file(inside);
  if (!is_absolute(path)) return "";
  const std::string real = real_path(path);
  return folder_of(real.empty() ? path : real);
}

} // namespace polyconv::os

#endif // !_WIN32
