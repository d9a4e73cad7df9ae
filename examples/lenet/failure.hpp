// failure.hpp - what ends the program: one sentence and an exit code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace lenet {

enum ExitCode {
  kExitGood = 0,
  kExitFailed = 1, // a file, a device, a loss that is not finite
  kExitUsage = 2,
  kExitUnavailable = 3,
  kExitUnsupported = 4,
  kExitInterrupted = 130 // as shells have it for SIGINT
};

class Failure : public std::runtime_error {
 public:
  Failure(ExitCode code, const std::string &sentence) : std::runtime_error(sentence), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

} // namespace lenet
