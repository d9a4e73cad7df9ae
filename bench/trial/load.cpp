// load.cpp - see load.hpp. The child passes on the library's log; the last file that it names as being opened is the
// one that ended it.
// SPDX-License-Identifier: Apache-2.0
#include "trial/load.hpp"

#include <map>

#if !defined(_WIN32)

#include <polyconv/polyconv.h>

#include <cstdlib>
#include <cstring>

#include "system/machine.hpp"
#include "trial/child.hpp"

#endif

namespace polyconv::bench {

namespace {

std::map<std::string, std::string> fates; // by backend

#if !defined(_WIN32)

constexpr const char *kDone = "every backend has come back";

void search(int pipe) {
  polyconv_set_log([](void *context, int32_t, const char *line) { write_line(*static_cast<int *>(context), line); },
                   &pipe, POLYCONV_LOG_DEBUG);
  polyconv_backend_count();
  write_line(pipe, kDone);
}

// The backend that was opened last: "backend 'NAME' is being opened (...)".
std::string last_opened(const std::string &said) {
  constexpr const char *kBefore = "backend '", *kAfter = "' is being opened";
  const size_t after = said.rfind(kAfter);
  const size_t before = after == std::string::npos ? after : said.rfind(kBefore, after);
  if (before == std::string::npos) return "";
  const size_t name = before + std::strlen(kBefore);
  return said.substr(name, after - name);
}

void leave_out(const std::string &backend) {
  const char *before = std::getenv("POLYCONV_BACKEND_SKIP");
  const std::string list = (before != nullptr && *before != '\0' ? std::string(before) + "," : "") + backend;
  set_environment("POLYCONV_BACKEND_SKIP", list);
}

#endif

} // namespace

#if defined(_WIN32)
void try_loading(double) {}
#else
void try_loading(double seconds) {
  for (;;) {
    const std::optional<Trial> trial = try_in_child(seconds, search);
    if (!trial || trial->said.find(kDone) != std::string::npos) return;
    const std::string backend = last_opened(trial->said);
    if (backend.empty() || fates.count(backend) != 0) return; // it is something else: let it show
    fates[backend] = fate_of(*trial, seconds, "it is loaded");
    leave_out(backend);
  }
}
#endif

std::string fate_of(const std::string &backend) {
  const auto found = fates.find(backend);
  return found != fates.end() ? found->second : "";
}

} // namespace polyconv::bench
