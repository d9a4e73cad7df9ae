// handle.cpp - the handles that wait for a plan.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "descriptor.hpp"

namespace polyconv::cudnn {
namespace {

struct Idle {
  std::mutex mutex;
  std::map<int, std::vector<cudnnHandle_t>> of_device;
};

// Lives as long as the process: plans may go after the statics of others.
Idle &idle() {
  static Idle *const kept = new Idle;
  return *kept;
}

} // namespace

Handle::Handle(int device) : device_(device) {
  {
    const std::lock_guard<std::mutex> lock(idle().mutex);
    std::vector<cudnnHandle_t> &waiting = idle().of_device[device];
    if (!waiting.empty()) {
      raw_ = waiting.back();
      waiting.pop_back();
      return;
    }
  }
  check(library().create(&raw_), "creating a handle");
}

Handle::~Handle() {
  const std::lock_guard<std::mutex> lock(idle().mutex);
  idle().of_device[device_].push_back(raw_);
}

} // namespace polyconv::cudnn
