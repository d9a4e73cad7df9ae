// progress.cpp - see progress.hpp.
// SPDX-License-Identifier: Apache-2.0
#include "system/progress.hpp"

#include <algorithm>
#include <cstdio>

#include "system/terminal.hpp"
#include "text/text.hpp"

namespace polyconv::bench {

Progress::Progress(size_t total, const std::string &when)
    : total_(std::max<size_t>(total, 1)), bar_(when == "auto" && stderr_is_terminal()), lines_(when == "always") {
  if (when != "auto" && when != "always" && when != "never")
    throw Error(kUsage, "--progress: '" + when + "' is not auto, always or never");
}

Progress::~Progress() {
  wipe();
}

void Progress::next(const std::string &label) {
  ++done_;
  label_ = label;
  draw(label);
}

void Progress::stage(const std::string &name) {
  draw(name + " " + label_);
}

void Progress::draw(const std::string &what) {
  if (lines_) std::fprintf(stderr, "[%zu/%zu] %s\n", done_, total_, what.c_str());
  if (bar_) {
    constexpr size_t kWidth = 16, kLabel = 50; // with both numbers less than 80 columns
    const size_t filled = std::min((done_ - 1) * kWidth / total_, kWidth);
    const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
    std::fprintf(stderr, "\r\033[K[%s] %zu/%zu %s", bar.c_str(), done_, total_, what.substr(0, kLabel).c_str());
    drawn_ = true;
  }
  if (lines_ || bar_) std::fflush(stderr);
}

void Progress::wipe() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

} // namespace polyconv::bench
