// library.hpp - a vendor's library, opened at run time by a backend that nothing links to it: the plug-in loads
// everywhere, and says why it cannot serve. For systems with dlopen.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>

#include <dlfcn.h>

namespace polyconv::vendor {

// Stays open for ever. `file` is where it lies, or the name that the system's loader looks for; `name` and `product`
// ("cuDNN 9") are for what users read.
class Library {
 public:
  Library(const std::string &file, const char *name, const char *product)
      : handle_(dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)), name_(name) {
    if (handle_ != nullptr) return;
    const char *const error = dlerror();
    why_ = std::string("no ") + product + ": " + (error != nullptr ? error : name);
  }

  // Also finds what the library's own dependencies hold. NULL where there is none: why() then says so.
  template <class Function>
  void resolve(const char *symbol, Function *function) {
    void *const address = handle_ != nullptr ? dlsym(handle_, symbol) : nullptr;
    if (address == nullptr && why_.empty()) why_ = name_ + " has no " + symbol;
    std::memcpy(function, &address, sizeof address);
  }

  // Why it cannot serve; empty where everything was found.
  const std::string &why() const { return why_; }

 private:
  void *const handle_;
  const std::string name_;
  std::string why_;
};

// A table of its functions, or why it cannot serve.
template <class Functions>
struct Table {
  Functions table = {};
  std::string why = "";

  // NULL where it cannot serve; `reason` (may be NULL) then holds why.
  const Functions *get(std::string *reason) const {
    if (why.empty()) return &table;
    if (reason != nullptr) *reason = why;
    return nullptr;
  }
};

} // namespace polyconv::vendor
