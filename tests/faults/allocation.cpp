// allocation.cpp - allocation.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "allocation.hpp"
#include "../sanitized.hpp"

#include <malloc.h>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#if defined(__GLIBC__) && !defined(POLYCONV_TEST_SANITIZED)
#define FAULTS_MALLOC 1
#endif

namespace {

struct State {
  int64_t left = -1; // allocations until one fails; -1: none will
  bool all = false, and_later = false, failed = false;
};
thread_local State state;
std::atomic<int64_t> live{0};

bool fails() {
  if (state.left < 0) return false;
  if (state.left > 0) {
    --state.left;
    return false;
  }
  if (!state.and_later) state.left = -1;
  return state.failed = true;
}

#if defined(FAULTS_MALLOC)
extern "C" void *__libc_malloc(size_t);
extern "C" void *__libc_calloc(size_t, size_t);
extern "C" void *__libc_realloc(void *, size_t);
void *raw(size_t size) {
  return __libc_malloc(size);
}
bool fails_in_c() {
  return state.all && fails();
}
#else
void *raw(size_t size) {
  return std::malloc(size);
}
#endif

void *counted(void *block) {
  if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}

void *allocate(size_t size) {
  return fails() ? nullptr : counted(raw(size != 0 ? size : 1));
}

void *allocate(size_t size, std::align_val_t alignment) {
  return fails() ? nullptr : counted(memalign(static_cast<size_t>(alignment), size != 0 ? size : 1));
}

void *or_throw(void *block) {
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void release(void *block) {
  if (block != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(block);
}

} // namespace

namespace faults {

void arm(int64_t n, Kind kind, bool and_later) {
  state = {n, kind == Kind::All, and_later, false};
}

bool disarm() {
  const bool failed = state.failed;
  state = {};
  return failed;
}

bool all_can_fail() {
#if defined(FAULTS_MALLOC)
  return true;
#else
  return false;
#endif
}

int64_t live_blocks() {
  return live.load();
}

} // namespace faults

#if defined(FAULTS_MALLOC)
extern "C" {
#pragma GCC visibility push(default)
void *malloc(size_t size) {
  if (!fails_in_c()) return __libc_malloc(size);
  errno = ENOMEM;
  return nullptr;
}
void *calloc(size_t count, size_t size) {
  if (!fails_in_c()) return __libc_calloc(count, size);
  errno = ENOMEM;
  return nullptr;
}
void *realloc(void *block, size_t size) {
  if (!fails_in_c()) return __libc_realloc(block, size);
  errno = ENOMEM;
  return nullptr;
}
#pragma GCC visibility pop
}
#endif

#if !defined(POLYCONV_TEST_SANITIZED)
extern "C" __attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment, size_t size) {
  if (fails()) return ENOMEM;
  *block = memalign(alignment, size);
  return *block != nullptr ? 0 : ENOMEM;
}
#endif

void *operator new(size_t size) {
  return or_throw(allocate(size));
}
void *operator new[](size_t size) {
  return or_throw(allocate(size));
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocate(size);
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return allocate(size);
}
void *operator new(size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment));
}
void *operator new[](size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, alignment));
}
void operator delete(void *block) noexcept {
  release(block);
}
void operator delete[](void *block) noexcept {
  release(block);
}
void operator delete(void *block, size_t) noexcept {
  release(block);
}
void operator delete[](void *block, size_t) noexcept {
  release(block);
}
void operator delete(void *block, std::align_val_t) noexcept {
  release(block);
}
void operator delete[](void *block, std::align_val_t) noexcept {
  release(block);
}
void operator delete(void *block, size_t, std::align_val_t) noexcept {
  release(block);
}
void operator delete[](void *block, size_t, std::align_val_t) noexcept {
  release(block);
}
