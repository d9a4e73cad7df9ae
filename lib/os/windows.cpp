// windows.cpp - os.hpp on Windows. Paths are UTF-8 outside and UTF-16 at the system's door.
// SPDX-License-Identifier: Apache-2.0
#if defined(_WIN32)

#include "base/status.hpp"
#include "os/os.hpp"

#define WIN32_LEAN_AND_MEAN
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <memory>

namespace polyconv::os {

const char *const backend_prefix = "libpolyconv_";
const char *const backend_suffix = ".dll";
const char path_list_separator = ';';

namespace {

std::wstring wide(const std::string &text) {
  const int size = static_cast<int>(text.size());
  std::wstring result(static_cast<size_t>(MultiByteToWideChar(CP_UTF8, 0, text.data(), size, nullptr, 0)), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), size, result.data(), static_cast<int>(result.size()));
  return result;
}

std::string narrow(const wchar_t *text, size_t length) {
  const int size = static_cast<int>(length);
  std::string result(static_cast<size_t>(WideCharToMultiByte(CP_UTF8, 0, text, size, nullptr, 0, nullptr, nullptr)),
                     '\0');
  WideCharToMultiByte(CP_UTF8, 0, text, size, result.data(), static_cast<int>(result.size()), nullptr, nullptr);
  return result;
}

std::string narrow(const std::wstring &text) {
  return narrow(text.data(), text.size());
}

// The absolute form of a path, with backslashes.
std::wstring full(const std::string &path) {
  const std::wstring given = wide(path);
  std::wstring whole(GetFullPathNameW(given.c_str(), 0, nullptr, nullptr), L'\0');
  whole.resize(
      whole.empty() ? 0 : GetFullPathNameW(given.c_str(), static_cast<DWORD>(whole.size()), whole.data(), nullptr));
  return whole.empty() ? given : whole;
}

// As the system's file functions take a path of any length: from MAX_PATH on (a folder from 12 less) only behind \\?\,
// where no other form than the absolute one is understood.
std::wstring file_path(const std::string &path) {
  constexpr size_t kMostPlain = MAX_PATH - 12;
  std::wstring whole = full(path);
  if (whole.size() < kMostPlain || whole.compare(0, 4, L"\\\\?\\") == 0) return wide(path);
  return whole.compare(0, 2, L"\\\\") == 0 ? L"\\\\?\\UNC" + whole.substr(1) : L"\\\\?\\" + whole;
}

// What the system says of an error code, without the full stop and line end that it adds.
std::string describe(DWORD error) {
  wchar_t text[512];
  DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, error, 0, text,
                                static_cast<DWORD>(std::size(text)), nullptr);
  while (length > 0 && (text[length - 1] <= L' ' || text[length - 1] == L'.')) --length;
  return length > 0 ? narrow(text, length) : "error " + std::to_string(error);
}

// The file of the module that an address lies in, "" where there is none.
std::string file_of_address(const void *address) {
  HMODULE module = nullptr;
  if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                          static_cast<LPCWSTR>(address), &module)) {
    return "";
  }
  for (std::wstring path(MAX_PATH, L'\0'); path.size() <= 65536; path.resize(path.size() * 2)) {
    const DWORD length = GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size()));
    if (length == 0) break;
    if (length < path.size()) return narrow(path.data(), length);
  }
  return "";
}

// A file handle that closes itself.
class Handle {
 public:
  explicit Handle(HANDLE handle) : handle_(handle) {}
  ~Handle() { close(); }
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;

  bool valid() const { return handle_ != INVALID_HANDLE_VALUE; }
  HANDLE get() const { return handle_; }
  bool close() {
    const HANDLE handle = handle_;
    handle_ = INVALID_HANDLE_VALUE;
    return handle == INVALID_HANDLE_VALUE || CloseHandle(handle);
  }

 private:
  HANDLE handle_;
};

} // namespace

// ---------------------------------------------------------------- shared libraries

void *open_library(const std::string &path, std::string *reason) {
  // Dependencies come from the library's own folder and the system's, never from the current folder. A missing one is
  // an error code, not a dialogue box.
  DWORD previous = 0;
  SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &previous);
  // The loader's flags ask for an absolute path.
  const std::wstring plain = full(path), whole = plain.size() < MAX_PATH ? plain : file_path(path);
  const HMODULE library =
      LoadLibraryExW(whole.c_str(), nullptr, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
  const DWORD error = GetLastError();
  SetThreadErrorMode(previous, nullptr);
  if (library == nullptr) *reason = path + ": " + describe(error);
  return library;
}

Symbol find_symbol(void *library, const char *name) {
  Symbol symbol;
  symbol.address = reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
  if (symbol.address != nullptr) symbol.file = file_of_address(symbol.address);
  return symbol;
}

std::string build_id(const void *) {
  return ""; // a DLL has none; the backend's version serves
}

std::string own_folder() {
  const std::string path = file_of_address(&backend_prefix);
  const size_t slash = path.find_last_of("\\/");
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

// ---------------------------------------------------------------- environment

std::string environment(const char *name) {
  const std::wstring wide_name = wide(name);
  std::wstring value(256, L'\0');
  for (;;) {
    const DWORD length = GetEnvironmentVariableW(wide_name.c_str(), value.data(), static_cast<DWORD>(value.size()));
    if (length < value.size()) return narrow(value.data(), length);
    value.resize(length);
  }
}

// ---------------------------------------------------------------- files

bool is_absolute(const std::string &path) {
  const auto is_slash = [](char c) { return c == '\\' || c == '/'; };
  const bool drive = path.size() >= 3 && path[1] == ':' && is_slash(path[2]);
  const bool share = path.size() >= 2 && is_slash(path[0]) && is_slash(path[1]);
  return drive || share;
}

std::string join(const std::string &folder, const std::string &name) {
  const bool has_slash = !folder.empty() && (folder.back() == '\\' || folder.back() == '/');
  return has_slash ? folder + name : folder + "\\" + name;
}

bool same_file(const std::string &a, const std::string &b) {
  BY_HANDLE_FILE_INFORMATION information[2];
  const std::string *paths[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    const Handle file(CreateFileW(file_path(*paths[i]).c_str(), 0,
                                  FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, 0,
                                  nullptr));
    if (!file.valid() || !GetFileInformationByHandle(file.get(), &information[i])) return false;
  }
  return information[0].dwVolumeSerialNumber == information[1].dwVolumeSerialNumber &&
         information[0].nFileIndexHigh == information[1].nFileIndexHigh &&
         information[0].nFileIndexLow == information[1].nFileIndexLow;
}

std::string odd_kind(const std::string &path) {
  const DWORD attributes = GetFileAttributesW(file_path(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? "a folder" : "";
}

bool list_folder(const std::string &folder, std::vector<std::string> *names) {
  names->clear();
  WIN32_FIND_DATAW entry;
  const HANDLE search = FindFirstFileW(file_path(join(folder, "*")).c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return false;
  const std::unique_ptr<void, BOOL(WINAPI *)(HANDLE)> closed_at_last(search, FindClose);
  do names->push_back(narrow(entry.cFileName));
  while (FindNextFileW(search, &entry));
  std::sort(names->begin(), names->end());
  return true;
}

std::string cache_folder() {
  return environment("LOCALAPPDATA");
}

std::FILE *open_to_read(const std::string &path) {
  return _wfopen(file_path(path).c_str(), L"rb");
}

std::string site_folder() {
  return environment("PROGRAMDATA");
}

bool exists(const std::string &path) {
  return GetFileAttributesW(file_path(path).c_str()) != INVALID_FILE_ATTRIBUTES;
}

bool read_file(const std::string &path, std::string *content, std::string *reason) {
  content->clear();
  const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  Handle file(CreateFileW(file_path(path).c_str(), GENERIC_READ, share, nullptr, OPEN_EXISTING, 0, nullptr));
  char block[65536];
  DWORD got = 0;
  bool good = file.valid();
  while (good && (good = ReadFile(file.get(), block, sizeof block, &got, nullptr) != 0) && got > 0)
    if (content->append(block, got).size() > kMostFileBytes) {
      content->clear();
      *reason = kTooLarge;
      return false;
    }
  if (!good) *reason = describe(GetLastError());
  return good;
}

FileLock::FileLock(const std::string &path) {
  const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
  for (size_t slash = path.find_first_of("/\\", 3); slash != std::string::npos;
       slash = path.find_first_of("/\\", slash + 1))
    CreateDirectoryW(file_path(path.substr(0, slash)).c_str(), nullptr);
  HANDLE file =
      CreateFileW(file_path(path).c_str(), GENERIC_READ | GENERIC_WRITE, share, nullptr, OPEN_ALWAYS, 0, nullptr);
  OVERLAPPED start = {};
  if (file == INVALID_HANDLE_VALUE || !LockFileEx(file, LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &start)) {
    const DWORD error = GetLastError();
    if (file != INVALID_HANDLE_VALUE) CloseHandle(file);
    throw failure(POLYCONV_IO_ERROR, "'%s' could not be locked: %s", path.c_str(), describe(error).c_str());
  }
  handle_ = reinterpret_cast<intptr_t>(file);
}

FileLock::~FileLock() {
  CloseHandle(reinterpret_cast<HANDLE>(handle_));
}

void remove_left_over(const std::string &path) {
  WIN32_FIND_DATAW found;
  const HANDLE search = FindFirstFileW(file_path(path + ".tmp*").c_str(), &found);
  if (search == INVALID_HANDLE_VALUE) return;
  const std::string folder = path.substr(0, path.find_last_of("/\\") + 1), target = path.substr(folder.size());
  do {
    const std::string name = narrow(found.cFileName);
    if (is_left_over(name, target)) DeleteFileW(file_path(folder + name).c_str());
  } while (FindNextFileW(search, &found));
  FindClose(search);
}

void write_file_atomically(const std::string &path, const std::vector<Piece> &pieces) {
  const auto fail = [&](const char *step, DWORD error) {
    throw failure(POLYCONV_IO_ERROR, "'%s' could not be %s: %s", path.c_str(), step, describe(error).c_str());
  };
  static std::atomic<unsigned> counter{0};
  const std::wstring target = file_path(path);
  const std::wstring name =
      target + L".tmp" + std::to_wstring(GetCurrentProcessId()) + L"." + std::to_wstring(counter++);
  Handle file(CreateFileW(name.c_str(), GENERIC_WRITE, 0, nullptr, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr));
  if (!file.valid()) fail("created", GetLastError());
  try {
    for (const Piece &piece : pieces) {
      const char *data = static_cast<const char *>(piece.data);
      for (size_t left = piece.size; left > 0;) {
        DWORD written = 0;
        const DWORD wanted = static_cast<DWORD>(std::min<size_t>(left, 1u << 30));
        if (!WriteFile(file.get(), data, wanted, &written, nullptr)) fail("written", GetLastError());
        data += written;
        left -= written;
      }
    }
    if (!FlushFileBuffers(file.get())) fail("flushed to the disk", GetLastError());
    if (!file.close()) fail("closed", GetLastError());
    if (!MoveFileExW(name.c_str(), target.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
      fail("put in its place", GetLastError());
    }
  } catch (...) {
    file.close();
    DeleteFileW(name.c_str());
    throw;
  }
}

// ---------------------------------------------------------------- machine

int processors() {
  // Of this process's group of at most 64: threads of others must be moved there explicitly.
  DWORD_PTR process = 0, system = 0;
  int count = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) {
    for (; process != 0; process &= process - 1) ++count;
  }
  return count > 0 ? count : static_cast<int>(std::max<DWORD>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS), 1));
}

int64_t total_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? static_cast<int64_t>(status.ullTotalPhys) : 0;
}

namespace {
constexpr const wchar_t *kProcessorKey = L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0";
} // namespace

std::string cpu_name() {
  wchar_t name[128];
  DWORD size = sizeof name;
  const LSTATUS status =
      RegGetValueW(HKEY_LOCAL_MACHINE, kProcessorKey, L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &size);
  return status == ERROR_SUCCESS ? narrow(std::wstring(name)) : "";
}

double cpu_mhz() {
  DWORD megahertz = 0, size = sizeof megahertz;
  const LSTATUS status =
      RegGetValueW(HKEY_LOCAL_MACHINE, kProcessorKey, L"~MHz", RRF_RT_REG_DWORD, nullptr, &megahertz, &size);
  return status == ERROR_SUCCESS ? megahertz : 0;
}

uint64_t cpu_features(int) {
  return 0;
}

// ---------------------------------------------------------------- memory, time, last words

void *allocate(size_t bytes, size_t alignment) noexcept {
  return bytes <= PTRDIFF_MAX ? _aligned_malloc(std::max<size_t>(bytes, 1), alignment) : nullptr;
}

void release(void *pointer) noexcept {
  _aligned_free(pointer);
}

int64_t monotonic_ns() noexcept {
  static const int64_t frequency = [] {
    LARGE_INTEGER ticks;
    QueryPerformanceFrequency(&ticks);
    return static_cast<int64_t>(ticks.QuadPart);
  }();
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  const int64_t seconds = now.QuadPart / frequency, rest = now.QuadPart % frequency;
  return seconds * 1000000000 + rest * 1000000000 / frequency;
}

int64_t wall_clock_s() noexcept {
  FILETIME now;
  GetSystemTimeAsFileTime(&now);
  const int64_t ticks = static_cast<int64_t>(now.dwHighDateTime) << 32 | now.dwLowDateTime; // of 100 ns since 1601
  return ticks / 10000000 - 11644473600;
}

void write_stderr(const char *text, size_t size) noexcept {
  DWORD written = 0;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, static_cast<DWORD>(size), &written, nullptr);
}

} // namespace polyconv::os

#endif // _WIN32
