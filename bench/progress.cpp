// progress.cpp - a bar on stderr while long work goes on.
// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <algorithm>
#include <cstdio>

#include "machine.hpp"
#include "text.hpp"

namespace polyconv::bench {

Progress::Progress(size_t total) : total_(std::max<size_t>(total, 1)), shown_(total > 1 && stderr_is_terminal()) {}

Progress::~Progress() {
  wipe();
}

void Progress::next(const std::string &label) {
  if (shown_) {
    constexpr size_t kWidth = 24, kLabel = 44;
    const size_t filled = done_ * kWidth / total_;
    const std::string bar = std::string(filled, '#') + std::string(kWidth - std::min(filled, kWidth), '.');
    std::fprintf(stderr, "\r\033[K[%s] %zu/%zu %s", bar.c_str(), done_ + 1, total_, label.substr(0, kLabel).c_str());
    std::fflush(stderr);
    drawn_ = true;
  }
  ++done_;
}

void Progress::wipe() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

} // namespace polyconv::bench
